//! Attacks on the servers of a daemon: it holds no more memory than it may, other clients are served meanwhile, and who
//! goes too far is cut off.

use std::{
    io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    thread,
};

use self::target::{
    Attacker, CONTINUATION, DATA, END_HEADERS, END_STREAM, End, HEADERS, LARGE, PRIORITY, SETTINGS, Target,
    WINDOW_UPDATE, frame, header, post, streams,
};
use crate::{
    grpc,
    http2::{GOAWAY, PING, RST_STREAM},
    support::{Answer, PATIENCE, question, request},
    wait::until,
};

mod internal;
mod target;

const HEALTH: &str = "/grpc.health.v1.Health/Check";
const WATCH: &str = "/grpc.health.v1.Health/Watch";
const REFLECTION: &str = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
/// Requests at once on a connection over gRPC.
const STREAMS: u32 = 2_000;
/// What a client gets at most of the memory that is set aside for requests and answers: half of what is not in reserve.
const MOST_OF_CLIENT: u64 = (160 << 20) / 8 * 7 / 2;
/// Files that the daemon sets aside for other than connections.
const OTHER_FILES: u32 = 256;
/// Questions that were denied, and other requests that were refused, since there was no room for them.
const NO_ROOM: &str = "ratelimit_denied_unjudged_total{reason=\"no_room\"}";
const REFUSED: &str = "ratelimit_request_errors_total";
/// All that was answered, in whatever way.
const ANSWERED: &str = "ratelimit_answer_seconds_count{protocol=\"grpc\"}";
/// Settings that let nothing of any answer through.
const NO_WINDOW: &[u8] = &[0, 4, 0, 0, 0, 0];

/// A request that is complete.
fn ask(path: &str, stream: u32, message: &[u8]) -> Vec<u8> {
    let head = [post(path), header("content-type", "application/grpc"), header("te", "trailers")].concat();
    [frame(HEADERS, END_HEADERS, stream, &head), frame(DATA, END_STREAM, stream, message)].concat()
}

/// Many connections, each of which does this, until the daemon serves others.
fn attack(address: SocketAddr, count: usize, attack: impl Fn(Attacker) -> End + Sync) -> Vec<End> {
    let target = address;
    thread::scope(|scope| {
        let all: Vec<_> = (0..count).map(|_| scope.spawn(|| attack(Attacker::new(target)))).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    })
}

#[test]
fn who_floods_a_connection_with_frames_is_cut_off() {
    let target = Target::new();
    let watching: Vec<u8> = streams(1_000).flat_map(|stream| ask(WATCH, stream, &[0; 5])).collect();
    let settings = [100, 65_535_u16].map(|window| {
        let [high, low] = window.to_be_bytes();
        frame(SETTINGS, 0, 0, &[0, 4, 0, 0, high, low])
    });
    let begun = frame(HEADERS, 0, 1, &post(HEALTH));
    let large = frame(CONTINUATION, 0, 1, &header("a", &"b".repeat(16_000)));
    let trailers =
        [frame(HEADERS, END_HEADERS, 1, &post(HEALTH)), frame(HEADERS, END_STREAM, 1, b"")].concat();
    for (name, begin, more) in [
        ("settings", &watching, settings.concat().repeat(50)),
        ("empty parts of headers", &begun, frame(CONTINUATION, 0, 1, b"").repeat(100)),
        ("headers without end", &begun, large.clone()),
        ("trailers without end", &trailers, large.clone()),
    ] {
        let ends = attack(target.grpc, 4, |attacker| attacker.http2(&[]).flood(begin.clone(), &more));
        assert!(ends.iter().all(|end| *end == End::Ended), "{name}: {ends:?}");
        target.serves_others();
    }
    // Requests that it makes the daemon take back.
    let mistake = |stream| {
        let begun = frame(HEADERS, END_HEADERS, stream, &post(HEALTH));
        [begun, frame(WINDOW_UPDATE, 0, stream, &[0; 4])].concat()
    };
    let ends = attack(target.grpc, 4, |attacker| attacker.http2(&[]).send(streams(1 << 20).map(mistake)));
    assert!(ends.iter().all(|end| *end == End::Ended), "{ends:?}");
    target.serves_others();
    target.is_small();
}

#[test]
fn frames_that_cost_little_keep_nobody_from_being_served() {
    let target = Target::new();
    let taken_back = |stream| {
        let begun = frame(HEADERS, END_HEADERS, stream, &post(HEALTH));
        [begun, frame(RST_STREAM, 0, stream, &[0, 0, 0, 8])].concat()
    };
    let end = frame(GOAWAY, 0, 0, &[0; 8]);
    let asked = streams(3_000).map(|stream| ask(HEALTH, stream, &[0; 5]));
    let floods: [(&str, Vec<Vec<u8>>); 6] = [
        ("pings", vec![frame(PING, 0, 0, b"12345678").repeat(1_000); 10]),
        ("priorities", vec![frame(PRIORITY, 0, 1, &[0, 0, 0, 3, 16]).repeat(1_000); 10]),
        ("windows", vec![frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]).repeat(1_000); 10]),
        ("unknown ones", vec![frame(0x55, 0, 0, &[0; 100]).repeat(1_000); 10]),
        ("requests that it takes back", streams(3_000).map(taken_back).collect()),
        ("requests after the end", [end].into_iter().chain(asked).collect()),
    ];
    for (_, flood) in floods {
        thread::scope(|scope| {
            scope.spawn(|| attack(target.grpc, 2, |attacker| attacker.http2(&[]).send(flood.clone())));
            target.serves_others();
        });
    }
    // Nobody takes what it answers.
    let pings = frame(PING, 0, 0, b"12345678").repeat(10_000);
    assert_eq!(Attacker::deaf(target.grpc).http2(&[]).flood(Vec::new(), &pings), End::Blocked);
    target.serves_others();
    target.is_small();
}

#[test]
fn requests_that_wait_hold_no_more_memory_than_there_is_for_all() {
    let target = Target::new();
    let large: Vec<u8> = (0..3).flat_map(|_| header("a", &"b".repeat(16_000))).collect();
    // Their bodies never come; each is in three frames.
    let waiting = |stream| {
        let parts = large.chunks(16_010).map(|part| frame(CONTINUATION, 0, stream, part));
        let begun = frame(HEADERS, 0, stream, &post(HEALTH));
        let end = frame(CONTINUATION, END_HEADERS, stream, b"");
        [begun].into_iter().chain(parts).chain([end]).collect::<Vec<_>>().concat()
    };
    let ends = thread::scope(|scope| {
        let attackers = scope.spawn(|| {
            attack(target.grpc, 4, |attacker| attacker.http2(&[]).send(streams(STREAMS).map(waiting)))
        });
        target.serves_others();
        attackers.join().unwrap()
    });
    assert!(ends.iter().all(|end| *end == End::Taken), "{ends:?}");
    // How many depends on how long all of them take to come: those that are held are given up after ten seconds.
    until("some are refused", || (target.counted(REFUSED) > 0).then_some(()));
    target.is_small();
    target.serves_others();
}

#[test]
fn answers_and_streams_that_nobody_takes_hold_no_more_memory_than_there_is_for_all() {
    let target = Target::new();
    let about = |key| grpc::request(vec![grpc::descriptor(&[(key, "a")])]);
    let [small, large] =
        ["user", "large"].map(|key| grpc::framed(&prost::Message::encode_to_vec(&about(key))));
    for (path, message, connections) in [
        (grpc::PATH, &small[..], 4),
        // With more of them no connection would be kept.
        (grpc::PATH, &large, 1),
        (WATCH, &[0; 5], 4),
        (REFLECTION, b"\0\0\0\0\x02\x3a\0", 4),
    ] {
        let [answered, no_room] = [ANSWERED, NO_ROOM].map(|series| target.counted(series));
        let all: Vec<_> = (0..connections)
            .map(|_| {
                let attacker = Attacker::deaf(target.grpc).http2(NO_WINDOW);
                assert_eq!(
                    attacker.send(streams(STREAMS).map(|stream| ask(path, stream, message))),
                    End::Taken
                );
                attacker
            })
            .collect();
        target.serves_others();
        let asked = connections * u64::from(STREAMS);
        until("all is answered", || (target.counted(ANSWERED) >= answered + asked).then_some(()));
        target.is_small();
        if message == large {
            // Those that are denied hold little.
            let held = MOST_OF_CLIENT / u64::try_from(LARGE).unwrap();
            let denied = target.counted(NO_ROOM) - no_room;
            assert!(denied >= asked - held, "{denied}");
        }
        drop(all);
        until("all is given up", || (target.counted("ratelimit_connections") == 0).then_some(()));
    }
}

#[test]
fn who_fills_the_room_for_bodies_leaves_some_for_others() {
    let target = Target::new();
    let most = request("POST", "/v1/check", &[], &vec![b'x'; 1_000_000]);
    let mut held = Vec::new();
    let is_full = || {
        let stream = TcpStream::connect(target.http).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Answer::read(stream, &most).status == 429
    };
    while !is_full() {
        assert!(held.len() < 200, "as many bodies as clients like");
        held.extend((0..20).map(|_| {
            let attacker = Attacker::deaf(target.http);
            attacker.send([most[..most.len() - 1].to_vec()]);
            attacker
        }));
    }
    target.serves_question_of(900_000);
    drop(held);
}

#[test]
fn who_takes_all_connections_keeps_nobody_out() {
    const PLACES: u32 = 1_000;
    let target = Target::with_files(PLACES + OTHER_FILES);
    let idle: Vec<_> = (0..PLACES + 200).map(|_| TcpStream::connect(target.http).unwrap()).collect();
    // They are taken in their order. The last of them is still there when the first had to go.
    until("all places are taken", || {
        (target.counted("ratelimit_connections") == u64::from(PLACES)).then_some(())
    });
    until("the first is ended", || is_ended(&idle[0]).then_some(()));
    target.serves_others();
    assert!(!is_ended(&idle[idle.len() - 1]));
    assert_eq!(target.counted("ratelimit_connections_refused_total"), 0);
}

/// Whether the other side has ended a connection on which it says nothing.
fn is_ended(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    !matches!(stream.peek(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock)
}

#[test]
fn requests_over_http1_that_never_end_are_cut_off_or_not_read() {
    let target = Target::new();
    let head = b"POST /v1/check HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n";
    for (name, begin, more) in [
        ("headers", &b"GET / HTTP/1.1\r\n"[..], &b"a: b\r\n"[..]),
        ("a header", b"GET / HTTP/1.1\r\na: ", b"b"),
        ("trailers", &[&head[..], b"0\r\n"].concat(), b"a: b\r\n"),
        ("an extension of a chunk", &[&head[..], b"1;"].concat(), b"a"),
        ("a body", b"POST /v1/check HTTP/1.1\r\nhost: a\r\ncontent-length: 1000000000\r\n\r\n", b"a"),
    ] {
        let more = more.repeat(65_536 / more.len());
        let ends = attack(target.http, 4, |attacker| attacker.flood(begin.to_vec(), &more));
        assert!(ends.iter().all(|end| *end == End::Ended), "{name}: {ends:?}");
        target.serves_others();
    }
    // As many as one likes in a row, of which no answer is taken.
    let pipelined = b"GET /openapi.json HTTP/1.1\r\nhost: a\r\n\r\n".repeat(1_000);
    assert_eq!(Attacker::deaf(target.http).flood(Vec::new(), &pipelined), End::Blocked);
    target.serves_others();
    target.is_small();
}

#[test]
fn requests_in_a_row_are_answered_in_their_order() {
    let target = Target::new();
    let mut stream = TcpStream::connect(target.http).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let ask = |number: usize| {
        let body = if number.is_multiple_of(3) { "[]".to_owned() } else { question("other", "x") };
        let length = body.len();
        format!("POST /v1/check HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\n\r\n{body}").into_bytes()
    };
    let all: Vec<u8> = (0..300).flat_map(ask).collect();
    let mut sending = stream.try_clone().unwrap();
    let sender = thread::spawn(move || sending.write_all(&all).unwrap());
    let lines = BufReader::new(&mut stream).lines().map(Result::unwrap);
    let statuses = lines.filter(|line| line.contains("HTTP/1.1 ")).take(300);
    for (number, line) in statuses.enumerate() {
        let expected = if number.is_multiple_of(3) { "400" } else { "200" };
        assert!(line.contains(expected), "{number} {line}");
    }
    sender.join().unwrap();
}

#[test]
fn handshakes_that_stop_in_the_middle_keep_nobody_out() {
    let target = Target::new();
    let half: Vec<_> = (0..1_000)
        .map(|_| {
            let mut stream = TcpStream::connect(target.tls).unwrap();
            stream.write_all(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03").unwrap();
            stream
        })
        .collect();
    target.serves_others();
    let mut first = half.into_iter().next().unwrap();
    first.set_read_timeout(Some(PATIENCE)).unwrap();
    // It is ended: nothing is said to who says nothing.
    assert!(matches!(first.read(&mut [0]), Ok(0)));
    target.is_small();
}

#[test]
fn the_metrics_are_for_all_however_many_ask_for_them_and_take_nothing() {
    let target = Target::new();
    let ask = b"GET /metrics HTTP/1.1\r\nhost: a\r\n\r\n".repeat(1_000);
    let deaf: Vec<_> = (0..200)
        .map(|number| {
            let attacker = Attacker::deaf(target.metrics);
            // Some only begin.
            attacker.send([if number % 2 == 0 { ask.clone() } else { b"GET /met".to_vec() }]);
            attacker
        })
        .collect();
    let stream = TcpStream::connect(target.metrics).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let answer = Answer::read(stream, b"GET /metrics HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
    assert_eq!(answer.status, 200);
    target.serves_others();
    target.is_small();
    drop(deaf);
}
