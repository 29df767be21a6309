//! Clients that mean harm, or know no better: each gets an error answer or is cut off, and others are served meanwhile.

use std::{
    io::{Read as _, Write as _},
    net::{Shutdown, TcpStream},
};

use http::{Request, Response};
use http_body_util::Full;
use hyper::{
    body::{Bytes, Incoming},
    client::conn::http2::{self, SendRequest},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use proptest::prelude::*;
use prost::Message as _;
use ratelimit::server::{
    proto::envoy::service::ratelimit::v3::rate_limit_response::Code, unjudged::Unjudged,
};

use crate::{
    grpc::{self, send},
    http2::{HEALTHCHECK, PREFACE},
    support::{Answer, Fixture, PATIENCE, question, request, unjudged},
};

fn raw(fixture: &Fixture, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(fixture.http()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}

fn is_served(fixture: &Fixture) {
    assert_eq!(fixture.check("other", "x").status, 200);
}

#[test]
fn who_is_refused_while_it_sends_gets_the_answer() {
    let fixture = Fixture::new("auth: {domain: edge, descriptors: [{client: '{client_address}'}]}");
    let megabyte = "x".repeat(1 << 20);
    let head = format!("GET /v1/auth HTTP/1.1\r\nhost: test\r\na: {megabyte}\r\n\r\n");
    let body = String::from_utf8(request("POST", "/v1/auth", &[], megabyte.as_bytes())).unwrap();
    for (bytes, status) in [(&head, "HTTP/1.1 431"), (&body, "HTTP/1.1 200")] {
        let mut stream = TcpStream::connect(fixture.http()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let (begun, rest) = bytes.split_at(512 << 10);
        stream.write_all(begun.as_bytes()).unwrap();
        let mut answer = vec![0; status.len()];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(String::from_utf8_lossy(&answer), status);
        // As a proxy that writes all before it reads; and nothing that it has not read yet is lost.
        stream.write_all(rest.as_bytes()).unwrap();
        stream.read_to_end(&mut answer).unwrap();
    }
    is_served(&fixture);
}

#[test]
fn huge_headers_and_bodies_are_refused() {
    let fixture = Fixture::new("");
    let megabyte = "x".repeat(1 << 20);
    let answer = fixture.send("POST", "/v1/check", &[("x-large", &megabyte)], question("user", "a"));
    assert_eq!(answer.status, 431);
    let many: Vec<(String, &str)> = (0..1_000).map(|index| (format!("x-{index}"), "y")).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    assert_eq!(fixture.send("POST", "/v1/check", &many, question("user", "a")).status, 431);
    for path in ["/v1/check", "/json"] {
        assert_eq!(fixture.post(path, format!("\"{megabyte}\"")).status, 429, "{path}");
        // Its length alone is enough, so nobody has to send it.
        let head = format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 1048577\r\n\r\n");
        assert_eq!(Answer::parse(&raw(&fixture, head.as_bytes())).status, 429, "{path}");
        let chunks = format!("100001\r\n{megabyte}x\r\n0\r\n\r\n");
        let head = format!("POST {path} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n");
        assert_eq!(Answer::parse(&raw(&fixture, (head + &chunks).as_bytes())).status, 429, "{path}");
    }
    is_served(&fixture);
}

#[test]
fn more_than_is_judged_is_denied_and_what_is_only_long_is_judged() {
    let fixture = Fixture::new("");
    let entry = r#"{"key": "user", "value": "a"}"#;
    let descriptor = format!(r#"{{"entries": [{entry}]}}"#);
    let with = |descriptors: &str| format!(r#"{{"domain": "edge", "descriptors": [{descriptors}]}}"#);
    let value = "v".repeat(100_000);
    let long = with(&format!(r#"{{"entries": [{{"key": "user", "value": "{value}"}}]}}"#));
    for (body, statuses) in [
        (with(&vec![descriptor.as_str(); 10_000].join(",")), [429; 4]),
        (with(&format!(r#"{{"entries": [{}]}}"#, vec![entry; 1_000].join(","))), [429; 4]),
        (with(&format!(r#"{{"entries": [{{"key": "{}", "value": "a"}}]}}"#, "k".repeat(100_000))), [200; 4]),
        (long.clone(), [200, 200, 429, 429]),
        (long.replace("vv\"", "v\""), [200, 200, 429, 429]),
        (format!("{}{}", "[".repeat(100_000), "]".repeat(100_000)), [400; 4]),
    ] {
        let paths = ["/v1/check", "/json", "/v1/check", "/json"];
        assert_eq!(paths.map(|path| fixture.post(path, &body).status), statuses, "{body:.60}");
    }
    is_served(&fixture);
}

#[test]
fn what_is_no_http_is_refused() {
    let fixture = Fixture::new("");
    for (bytes, status) in [
        (&b"\0\0\0\0\r\n\r\n"[..], 400),
        (b"GET /v1/auth HTTP/1.1\r\nhost: \xff\r\nbad header\r\n\r\n", 400),
        (b"POST /json HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n", 400),
    ] {
        assert_eq!(Answer::parse(&raw(&fixture, bytes)).status, status, "{bytes:?}");
    }
    // HTTP/2 that breaks off, and TLS where there is none.
    for bytes in [
        &b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff\xff\xff\xff\xff"[..],
        b"\x16\x03\x01\x02\x00\x01\r\n\r\n",
    ] {
        raw(&fixture, bytes);
    }
    is_served(&fixture);
}

#[test]
fn who_has_said_all_still_gets_the_answer() {
    let fixture = Fixture::new("");
    let question = request("POST", "/v1/check", &[], question("other", "x").as_bytes());
    for _ in 0..20 {
        let mut stream = TcpStream::connect(fixture.http()).unwrap();
        stream.write_all(&question).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(Answer::read(stream, b"").status, 200);
    }
}

#[test]
fn a_connection_outlives_bodies_in_chunks() {
    let fixture = Fixture::new("");
    let mut stream = TcpStream::connect(fixture.http()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    for (path, connection) in [("/v1/check", ""), ("/json", ""), ("/json", "connection: close\r\n")] {
        let head =
            format!("POST {path} HTTP/1.1\r\nhost: x\r\n{connection}transfer-encoding: chunked\r\n\r\n");
        let question = question("other", "x");
        stream
            .write_all(format!("{head}{:x}\r\n{question}\r\n0\r\n\r\n", question.len()).as_bytes())
            .unwrap();
    }
    let mut answers = String::new();
    stream.read_to_string(&mut answers).unwrap();
    assert_eq!(answers.matches("HTTP/1.1 200").count(), 3, "{answers}");
}

#[test]
fn idle_and_slow_clients_keep_nobody_from_being_served() {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard.min(65_536), hard).unwrap();
    let (soft, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    // Both ends of each connection are in this process.
    let count = usize::try_from(soft.saturating_sub(1_024) / 2).unwrap().min(10_000);
    let fixture = Fixture::new("");
    let idle: Vec<TcpStream> = (0..count)
        .map(|index| {
            let mut stream = TcpStream::connect(fixture.http()).unwrap();
            if index % 2 == 0 {
                stream.write_all(b"POST /v1/check HTTP/1.1\r\nhost: slow").unwrap();
            }
            stream
        })
        .collect();
    for _ in 0..20 {
        is_served(&fixture);
    }
    // Those that were only slow get their answer after all.
    let mut slow = idle.into_iter().next().unwrap();
    let rest = request("POST", "/v1/check", &[], question("other", "x").as_bytes());
    let rest = rest.split(|byte| *byte == b'\n').skip(2).collect::<Vec<_>>().join(&b'\n');
    slow.write_all(b"\r\n").unwrap();
    assert_eq!(Answer::read(slow, &rest).status, 200);
}

#[test]
fn headers_that_never_end_are_cut_off_and_a_connection_that_rests_is_not() {
    let fixture = Fixture::new("");
    let mut resting = TcpStream::connect(fixture.http()).unwrap();
    let question = request("POST", "/v1/check", &[], question("other", "x").as_bytes());
    let question = String::from_utf8(question).unwrap().replace("connection: close\r\n", "");
    let mut ask = || {
        resting.write_all(question.as_bytes()).unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"}") {
            let mut chunk = [0; 4096];
            let read = resting.read(&mut chunk).unwrap();
            assert!(read > 0, "an answer");
            answer.extend_from_slice(&chunk[..read]);
        }
        Answer::parse(&answer).status
    };
    assert_eq!(ask(), 200);
    let mut slow = TcpStream::connect(fixture.http()).unwrap();
    slow.set_read_timeout(Some(PATIENCE)).unwrap();
    slow.write_all(b"POST /v1/check HTTP/1.1\r\nhost: slow\r\n").unwrap();
    let mut slow_too = TcpStream::connect(fixture.grpc()).unwrap();
    slow_too.set_read_timeout(Some(PATIENCE)).unwrap();
    slow_too.write_all(&[PREFACE, &HEALTHCHECK[..20]].concat()).unwrap();
    assert_eq!(slow.read(&mut [0; 1]).unwrap(), 0, "the server ends the connection");
    slow_too.read_to_end(&mut Vec::new()).expect("the end of the connection over HTTP/2");
    assert_eq!(ask(), 200);
}

/// Adds connections whose requests hold most of a body that never comes whole, until another body has no room; that is
/// what it is answered, as a denial: whoever fills the room must not pass by that.
fn exhaust(fixture: &Fixture, held: &mut Vec<TcpStream>) -> Answer {
    let body = vec![b'x'; 1_000_000];
    let most = request("POST", "/v1/check", &[], &body);
    loop {
        let answer = fixture.post("/v1/check", &body);
        if answer.status == 429 {
            return answer;
        }
        assert!(held.len() < 200, "as many bodies as clients like");
        // Several, since they are thrown away after ten seconds.
        held.extend((0..4).map(|_| {
            let mut stream = TcpStream::connect(fixture.http()).unwrap();
            stream.write_all(&most[..most.len() - 1]).unwrap();
            stream
        }));
    }
}

#[test]
fn bodies_hold_no_more_memory_than_there_is_for_all() {
    let fixture = Fixture::new("");
    let mut held = Vec::new();
    let refused = exhaust(&fixture, &mut held);
    assert!(held.len() > 60, "{}", held.len());
    assert_eq!((refused.status, refused.header("cache-control")), (429, Some("no-store")));
    assert!(refused.json()["detail"].as_str().unwrap().contains("later"), "{refused:?}");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // It asks about nothing that is limited, in a message that is large by fields that nobody knows.
    let asked = grpc::request(vec![grpc::descriptor(&[("none", "x")])]).encode_to_vec();
    let large = [asked, vec![b'x'; 1_000_000]].concat();
    // Two that come at once and find too little room may both have been refused, which leaves room for one.
    let is_refused = (0..20).any(|_| {
        exhaust(&fixture, &mut held);
        let before = unjudged(&fixture, Unjudged::NoRoom);
        let code = runtime.block_on(grpc::code(&fixture, grpc::framed(&large)));
        code == Code::OverLimit && unjudged(&fixture, Unjudged::NoRoom) > before
    });
    assert!(is_refused);
    // What needs no body is answered, and all is free again when those are gone.
    assert_eq!(fixture.get("/healthcheck", &[]).status, 200);
    drop(held);
    while fixture.post("/v1/check", vec![b'x'; 1_000_000]).status == 429 {}
    is_served(&fixture);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_body_gets_an_answer(body in prop::collection::vec(any::<u8>(), 0..300), json: bool) {
        let fixture = shared();
        let answer = fixture.post(if json { "/json" } else { "/v1/check" }, &body);
        prop_assert_eq!(answer.status, 400);
    }

    #[test]
    fn any_json_gets_an_answer(text in r#"(\{|\}|\[|\]|,|:|"domain"|"descriptors"|"entries"|"key"|"limit"|"unit"|"edge"|1|-1|1e99|null|true|" "){0,40}"#) {
        let answer = shared().post("/v1/check", &text);
        prop_assert!(answer.status == 400 || answer.status == 200, "{:?}", answer);
    }

    #[test]
    fn any_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 1..200)) {
        let fixture = shared();
        raw(fixture, &[&bytes[..], b"\r\n\r\n"].concat());
        is_served(fixture);
    }

    #[test]
    fn any_grpc_message_gets_an_answer(message in prop::collection::vec(any::<u8>(), 0..200)) {
        let fixture = shared();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let status = runtime.block_on(send(fixture, &message, None));
        // An answer; or UNKNOWN or INVALID_ARGUMENT for a message that asks nothing.
        prop_assert!(["0", "2", "3"].contains(&status.as_str()), "{}", status);
    }
}

fn shared() -> &'static Fixture {
    static FIXTURE: std::sync::OnceLock<Fixture> = std::sync::OnceLock::new();
    FIXTURE.get_or_init(|| Fixture::new(""))
}

/// Asks, and reads nothing of the answer's body; `None` if there is no room for it.
async fn ask_for_much(
    fixture: &Fixture,
    client: &mut SendRequest<Full<Bytes>>,
    path: &str,
    body: &Bytes,
) -> Option<Response<Incoming>> {
    client.ready().await.unwrap();
    let request = Request::post(format!("http://test{path}")).header("content-type", "application/grpc");
    let request = request.body(Full::new(body.clone())).unwrap();
    let before = unjudged(fixture, Unjudged::NoRoom);
    let answer = client.send_request(request).await.unwrap();
    (unjudged(fixture, Unjudged::NoRoom) == before).then_some(answer)
}

#[tokio::test]
async fn answers_that_nobody_takes_hold_no_more_memory_than_there_is_for_all() {
    let metadata = format!("{{note: {}}}", "n".repeat(4_000_000));
    let rule =
        format!("{{key: long, metadata: {metadata}, rate_limit: {{unit: hour, requests_per_unit: 1000}}}}");
    let fixture = Fixture::with_rules(&format!("domain: edge\ndescriptors:\n  - {rule}\n"), "");
    let message = grpc::request(vec![grpc::descriptor(&[("long", "a")])]).encode_to_vec();
    for (address, path, body) in [
        (fixture.http(), "/json", question("long", "a").into()),
        (fixture.grpc(), grpc::PATH, grpc::framed(&message)),
    ] {
        let stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let builder = http2::Builder::new(TokioExecutor::new()).initial_stream_window_size(1).clone();
        let (mut client, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
        let connection = tokio::spawn(connection);
        let mut answers = Vec::new();
        while let Some(answer) = ask_for_much(&fixture, &mut client, path, &body).await {
            answers.push(answer);
            assert!(answers.len() < 20, "as much as clients like: {path}");
        }
        assert!(answers.len() > 2, "{} {path}", answers.len());
        // Whoever gives up leaves room.
        drop(answers);
        while ask_for_much(&fixture, &mut client, path, &body).await.is_none() {}
        connection.abort();
    }
}
