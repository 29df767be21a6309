//! A clean stop: what has been asked is answered, and who stays hears that it is over.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    time::{Duration, Instant},
};

use ratelimit::server::proto::envoy::service::ratelimit::v3::rate_limit_service_client::RateLimitServiceClient;
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};
use tonic_reflection::pb::v1::{ServerReflectionRequest, server_reflection_client::ServerReflectionClient};

use crate::{
    grpc::{channel, descriptor, request},
    http2::{ACK, HEADERS, HEALTHCHECK, PING, PREFACE, frame},
    support::{Fixture, PATIENCE, question},
    wait,
};

/// One request on a connection that is to stay open; `None` if the server closed it without an answer. `Some(false)` is
/// an answer after which it closes.
fn ask(stream: &mut BufReader<TcpStream>) -> Option<bool> {
    let body = question("other", "x");
    let length = body.len();
    let request = format!("POST /v1/check HTTP/1.1\r\nhost: test\r\ncontent-length: {length}\r\n\r\n{body}");
    stream.get_mut().write_all(request.as_bytes()).ok()?;
    let (mut stays, mut length) = (true, 0);
    let mut line = String::new();
    loop {
        line.clear();
        if stream.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let header = line.trim_end().to_ascii_lowercase();
        if header.is_empty() {
            break;
        }
        stays &= header != "connection: close";
        if let Some(value) = header.strip_prefix("content-length: ") {
            length = value.parse().unwrap();
        }
    }
    stream.read_exact(&mut vec![0; length]).ok()?;
    Some(stays)
}

#[test]
fn no_request_is_left_without_an_answer() {
    let fixture = Fixture::new("");
    let address = fixture.http();
    let (stopping, answered, lost) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut stream = BufReader::new(TcpStream::connect(address).unwrap());
                loop {
                    match ask(&mut stream) {
                        Some(true) => {
                            answered.fetch_add(1, SeqCst);
                        }
                        Some(false) => return assert!(stopping.load(SeqCst)),
                        None => {
                            lost.fetch_add(1, SeqCst);
                            return;
                        }
                    }
                }
            });
        }
        wait::until("200 answers", || (answered.load(SeqCst) >= 200).then_some(()));
        stopping.store(true, SeqCst);
        runtime.block_on(fixture.servers.drain());
    });
    assert_eq!(lost.into_inner(), 0);
    assert!(TcpStream::connect(address).is_err());
}

#[tokio::test]
async fn grpc_clients_get_what_they_asked_for() {
    let fixture = Fixture::new("");
    let channel = channel(&fixture).await;
    let asking: Vec<_> = (0..4)
        .map(|_| {
            let mut client = RateLimitServiceClient::new(channel.clone());
            tokio::spawn(async move {
                let mut answered = 0_u64;
                loop {
                    match client.should_rate_limit(request(vec![descriptor(&[("other", "x")])])).await {
                        Ok(_) => answered += 1,
                        // Only for want of a server to connect to.
                        Err(status) => return (answered, status),
                    }
                }
            })
        })
        .collect();
    let service = fixture.service.clone();
    while service.domain_counts().iter().all(|(_, counts)| counts.allowed < 200) {
        tokio::time::sleep(Duration::from_millis(2)).await; // tidy: sleep, asking all the time takes the processor
    }
    tokio::time::timeout(PATIENCE, fixture.servers.drain()).await.unwrap();
    for task in asking {
        let (answered, status) = task.await.unwrap();
        assert!(answered > 0);
        // Nobody listens any more, or the connection ended before the request was sent.
        let text = format!("{status:?}");
        let expected = ["ConnectionRefused", "tcp connect error", "hyper::Error(Canceled"];
        assert!(expected.iter().any(|part| text.contains(part)), "{text}");
    }
}

#[test]
fn clients_that_only_stay_do_not_hold_up_the_end() {
    let fixture = Fixture::new("");
    let mut idle = BufReader::new(TcpStream::connect(fixture.http()).unwrap());
    assert_eq!(ask(&mut idle), Some(true));
    let silent = TcpStream::connect(fixture.http()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(fixture.servers.drain());
    for mut stream in [idle.into_inner(), silent] {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        assert_eq!(stream.read(&mut [0; 1]).unwrap_or(0), 0);
    }
}

#[test]
fn clients_that_wait_for_nothing_do_not_hold_up_the_end() {
    let fixture = Fixture::new("");
    let silent = TcpStream::connect(fixture.grpc()).unwrap();
    let mut deaf = TcpStream::connect(fixture.grpc()).unwrap();
    deaf.write_all(PREFACE).unwrap();
    let mut satisfied = TcpStream::connect(fixture.http()).unwrap();
    satisfied.write_all(&[PREFACE, HEALTHCHECK].concat()).unwrap();
    while frame(&mut satisfied).0 != HEADERS {}
    wait::until("three connections", || (fixture.servers.stats().open() >= 3).then_some(()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let start = Instant::now();
    runtime.block_on(fixture.servers.drain());
    // Those who wait for an answer would have had ten seconds.
    assert!(start.elapsed() < Duration::from_secs(9), "{:?}", start.elapsed());
    drop((silent, deaf, satisfied));
}

#[test]
fn a_request_whose_headers_are_on_their_way_is_answered_at_the_end() {
    for before in [0, 1] {
        let fixture = Fixture::new("");
        let mut stream = BufReader::new(TcpStream::connect(fixture.http()).unwrap());
        for _ in 0..before {
            assert_eq!(ask(&mut stream), Some(true));
        }
        wait::until("a connection", || (fixture.servers.stats().open() > 0).then_some(()));
        stream.get_mut().write_all(b"POS").unwrap();
        let stop = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(fixture.servers.drain());
        });
        std::thread::sleep(Duration::from_secs(1)); // tidy: sleep, nothing shows when others are told to go
        stream
            .get_mut()
            .write_all(b"T /v1/check HTTP/1.1\r\nhost: test\r\ncontent-length: 0\r\n\r\n")
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 400"), "{before} {answer:?}");
        stop.join().unwrap();
    }
}

#[test]
fn a_first_request_over_http2_that_is_on_its_way_is_answered_at_the_end() {
    let fixture = Fixture::new("");
    let mut stream = TcpStream::connect(fixture.http()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let (begin, rest) = HEALTHCHECK.split_at(12);
    stream.write_all(&[PREFACE, begin].concat()).unwrap();
    wait::until("a connection", || (fixture.servers.stats().open() > 0).then_some(()));
    let stop = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(fixture.servers.drain());
    });
    // It is told to go, and asked whether it has heard that.
    let ping = loop {
        let (kind, flags, payload) = frame(&mut stream);
        if kind == PING && flags & ACK == 0 {
            break payload;
        }
    };
    let pong = [&[0, 0, 8, PING, ACK, 0, 0, 0, 0], &ping[..]].concat();
    stream.write_all(&[rest, &pong].concat()).unwrap();
    while frame(&mut stream).0 != HEADERS {}
    stop.join().unwrap();
}

#[tokio::test]
async fn streams_end_with_the_servers() {
    let fixture = Fixture::new("");
    let channel = channel(&fixture).await;
    let mut health = HealthClient::new(channel.clone());
    let mut watched = health.watch(HealthCheckRequest::default()).await.unwrap().into_inner();
    assert_eq!(watched.message().await.unwrap().unwrap().status(), ServingStatus::Serving);
    let mut reflection = ServerReflectionClient::new(channel);
    let nothing = tokio_stream::pending::<ServerReflectionRequest>();
    let mut reflected = reflection.server_reflection_info(nothing).await.unwrap().into_inner();
    let start = Instant::now();
    fixture.servers.drain().await;
    // Those who wait for an answer would have had ten seconds.
    assert!(start.elapsed() < Duration::from_secs(9), "{:?}", start.elapsed());
    assert_eq!(watched.message().await.unwrap().unwrap().status(), ServingStatus::NotServing);
    assert_eq!(watched.message().await.unwrap(), None);
    assert!(reflected.message().await.is_err());
}
