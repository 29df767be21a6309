//! Requests and answers pass through as they are: sizes, chunks, trailers, statuses without bodies, streams.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    sync::atomic::Ordering::Relaxed,
};

use super::{
    server::{OK, Recorder},
    support::{Proxy, body, header, status},
};

#[test]
fn answers_pass_through_as_they_are() {
    for (answer, expected) in [
        (
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nx-mine: 1\r\nset-cookie: a\r\nset-cookie: b\r\n\r\nok",
            "ok",
        ),
        (
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nx-mine: 1\r\n\r\n2\r\nok\r\n0\r\n\r\n",
            "2\r\nok\r\n0\r\n\r\n",
        ),
        ("HTTP/1.0 200 OK\r\nx-mine: 1\r\n\r\nok", "2\r\nok\r\n0\r\n\r\n"),
        ("HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\nx-mine: 1\r\n\r\nno", "no"),
        ("HTTP/1.1 304 Not Modified\r\netag: \"x\"\r\nx-mine: 1\r\n\r\n", ""),
        ("HTTP/1.1 304 Not Modified\r\ncontent-length: 9\r\nx-mine: 1\r\n\r\n", ""),
        ("HTTP/1.1 204 No Content\r\nx-mine: 1\r\n\r\n", ""),
        (
            "HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\nx-mine: 1\r\ncontent-length: 2\r\n\r\nok",
            "ok",
        ),
    ] {
        let server = Recorder::new(move |stream, _| {
            stream.write_all(answer.as_bytes()).unwrap();
            !answer.starts_with("HTTP/1.0")
        });
        let proxy = Proxy::before(server.address);
        let got = proxy.get("/");
        let last = answer.rsplit("HTTP/1.").next().unwrap();
        assert_eq!(status(&got), last[2..5].parse::<u16>().unwrap(), "{answer:?} {got}");
        assert_eq!((body(&got), header(&got, "x-mine")), (expected, Some("1")), "{answer:?} {got}");
        assert_eq!(got.matches("set-cookie: ").count(), answer.matches("set-cookie: ").count());
        assert!(got.starts_with("HTTP/1.1 "), "{got}");
    }
}

#[test]
fn what_belongs_to_the_servers_connection_stays_there() {
    let answer = "HTTP/1.1 200 OK\r\nconnection: keep-alive, x-own\r\nx-own: 1\r\nkeep-alive: timeout=5\r\n\
                  proxy-authenticate: x\r\nupgrade: h2c\r\ncontent-length: 2\r\n\r\nok";
    let server = Recorder::answering(answer);
    let got = Proxy::before(server.address).get("/");
    for name in ["x-own", "keep-alive", "proxy-authenticate", "upgrade"] {
        assert_eq!(header(&got, name), None, "{got}");
    }
}

#[test]
fn the_length_of_what_is_not_sent_is_told() {
    let server = Recorder::answering("HTTP/1.1 200 OK\r\ncontent-length: 1234\r\n\r\n");
    let proxy = Proxy::before(server.address);
    let mut stream = proxy.connect();
    for _ in 0..2 {
        // The connection goes on behind it.
        stream.write_all(b"HEAD / HTTP/1.1\r\nHost: shop\r\n\r\n").unwrap();
        let mut lines = BufReader::new(&mut stream).lines().map(Result::unwrap);
        let head: Vec<String> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
        assert!(head.contains(&"content-length: 1234".to_owned()), "{head:?}");
    }
    assert!(server.next().starts_with("HEAD "));
}

#[test]
fn connections_to_servers_are_used_again() {
    let server = Recorder::answering(OK);
    let proxy = Proxy::before(server.address);
    for _ in 0..20 {
        assert_eq!(body(&proxy.get("/")), "ok");
    }
    assert_eq!(server.connections.load(Relaxed), 1);
}

#[test]
fn a_server_that_says_that_it_closes_after_each_answer_is_as_good() {
    for answer in
        ["HTTP/1.0 200 OK\r\n\r\nok", "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok"]
    {
        let server = Recorder::new(move |stream, _| {
            stream.write_all(answer.as_bytes()).unwrap();
            false
        });
        let proxy = Proxy::before(server.address);
        for _ in 0..50 {
            assert_eq!(status(&proxy.get("/")), 200);
        }
        assert_eq!(server.connections.load(Relaxed), 50);
    }
}

#[test]
fn nobody_is_told_to_go_on_before_the_server_reads() {
    let server = Recorder::answering(OK);
    let keys = "domain: web\ndescriptors: [{path: '{path}'}]\n";
    let proxy = Proxy::new(&format!("{keys}routes: [{{upstreams: 'http://{}'}}]", server.address));
    let ask = |path: &str| {
        let mut stream = proxy.connect();
        let head = "Host: shop\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n";
        write!(stream, "POST {path} HTTP/1.1\r\n{head}").unwrap();
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        if line.starts_with("HTTP/1.1 100") {
            stream.get_mut().write_all(b"abc").unwrap();
        }
        let mut rest = String::new();
        stream.read_to_string(&mut rest).unwrap();
        (line, rest)
    };
    let (first, rest) = ask("/free");
    assert_eq!((first.trim_end(), body(rest.trim_start())), ("HTTP/1.1 100 Continue", "ok"));
    let got = server.next();
    assert!(got.ends_with("\r\n\r\nabc") && !got.contains("expect"), "{got}");
    assert!(ask("/login").0.starts_with("HTTP/1.1 429"), "a denied body is not asked for");
    assert!(server.has_nothing());
}

#[test]
fn trailers_pass_in_both_directions() {
    let answer = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-sum\r\n\r\n2\r\nok\r\n0\r\nx-sum: 7\r\n\r\n";
    let server = Recorder::answering(answer);
    let proxy = Proxy::before(server.address);
    let request = "POST / HTTP/1.1\r\nHost: shop\r\nTE: trailers\r\nConnection: close, TE\r\nTrailer: X-Check\r\n\
                   Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Check: 9\r\nContent-Length: 5\r\n\r\n";
    let answered = proxy.send(request);
    assert!(answered.ends_with("\r\n0\r\nx-sum: 7\r\n\r\n"), "{answered}");
    let got = server.next();
    assert!(got.ends_with("\r\n0\r\nx-check: 9\r\n\r\n"), "{got}");
    assert!(got.contains("te: trailers\r\n") && got.contains("trailer: X-Check\r\n"), "{got}");
}

#[test]
fn a_stream_comes_piece_by_piece() {
    let (go, gone) = std::sync::mpsc::channel::<()>();
    let gone = std::sync::Arc::new(std::sync::Mutex::new(gone));
    let server = Recorder::new(move |stream, _| {
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n").unwrap();
        for event in 0..3 {
            // In one piece, so that it is one chunk, too.
            stream.write_all(format!("data: {event}\n\n").as_bytes()).unwrap();
            // The next event comes only when the client has this one.
            gone.lock().unwrap().recv().unwrap();
        }
        false
    });
    let proxy = Proxy::before(server.address);
    let mut stream = proxy.connect();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: shop\r\n\r\n").unwrap();
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    for event in 0..3 {
        let expected = format!("data: {event}");
        assert!(lines.any(|line| line == expected));
        go.send(()).unwrap();
    }
}
