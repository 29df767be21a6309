//! What can be understood in several ways is refused, or reaches the server in one way only.

use super::{
    server::{OK, Recorder},
    support::{Proxy, body, status},
};

/// What a server gets of a request for a path, with these lines and this body behind.
fn got(target: &str, lines: &[&str], body: &str) -> Vec<String> {
    let mut head = vec![
        "host: shop".to_owned(),
        "via: 1.1 ratelimit".to_owned(),
        "x-forwarded-for: 127.0.0.1".to_owned(),
        "x-forwarded-host: shop".to_owned(),
        "x-forwarded-proto: http".to_owned(),
    ];
    head.extend(lines.iter().map(ToString::to_string));
    head.sort();
    [vec![format!("{target} HTTP/1.1")], head, vec![body.to_owned()]].concat()
}

#[test]
fn what_reaches_a_server_has_one_form() {
    let server = Recorder::answering(OK);
    let proxy = Proxy::before(server.address);
    let chunked = "transfer-encoding: chunked";
    for (request, expected) in [
        ("GET / HTTP/1.1\r\nHost: shop\r\n\r\n", got("GET /", &[], "")),
        ("GET / HTTP/1.1\r\nHOST:   SHOP.:80  \r\n\r\n", got("GET /", &[], "")),
        // Lines that end as Unix has it.
        ("GET / HTTP/1.1\nHost: shop\nX: 1\n\n", got("GET /", &["x: 1"], "")),
        ("GET http://shop/a HTTP/1.1\r\nHost: shop\r\n\r\n", got("GET /a", &[], "")),
        ("GET http://shop#/free HTTP/1.1\r\nHost: shop\r\n\r\n", got("GET /", &[], "")),
        ("GET //x/%2e%2E/%61//b/./c?q=//..  HTTP/1.1\r\nHost: shop\r\n\r\n", Vec::new()),
        (
            "GET //x/%2e%2E/%61//b/./c?q=//.. HTTP/1.1\r\nHost: shop\r\n\r\n",
            got("GET /a/b/c?q=//..", &[], ""),
        ),
        ("GET /a HTTP/1.0\r\nHost: shop\r\n\r\n", got("GET /a", &[], "")),
        (
            "GET / HTTP/1.1\r\nHost: shop\r\nConnection: host, x-mine\r\nX-Mine: 1\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n\r\n",
            got("GET /", &[], ""),
        ),
        ("GET / HTTP/1.1\r\nHost: shop\r\nX_Forwarded_For: 1\r\nX_A: 2\r\n\r\n", got("GET /", &[], "")),
        (
            "POST / HTTP/1.1\r\nHost: shop\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
            got("POST /", &["content-length: 3"], "abc"),
        ),
        // The length counts for nothing beside chunks, and nothing behind them is taken for another request.
        (
            "POST / HTTP/1.1\r\nHost: shop\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
            got("POST /", &[chunked], "3\r\nabc\r\n0\r\n\r\n"),
        ),
        (
            "POST / HTTP/1.1\r\nHost: shop\r\nTransfer-Encoding: chunked\r\nContent-Length: 9\r\n\r\n3;x=y\r\nabc\r\n0\r\n\r\n",
            got("POST /", &[chunked], "3\r\nabc\r\n0\r\n\r\n"),
        ),
        (
            "POST / HTTP/1.1\r\nHost: shop\r\nConnection: content-length\r\nContent-Length: 3\r\n\r\nabc",
            got("POST /", &["content-length: 3"], "abc"),
        ),
        (
            "GET / HTTP/1.1\r\nHost: shop\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
            got("GET /", &[chunked], "3\r\nabc\r\n0\r\n\r\n"),
        ),
        ("POST / HTTP/1.1\r\nHost: shop\r\n\r\n", got("POST /", &["content-length: 0"], "")),
    ] {
        let end = if request.contains('\r') { "\r\n" } else { "\n" };
        let answer = proxy.send(request.replacen(end, &format!("{end}Connection: close{end}"), 1));
        if expected.is_empty() {
            assert_eq!(status(&answer), 400, "{request:?}");
            assert!(server.has_nothing(), "{request:?}");
        } else {
            assert_eq!((status(&answer), body(&answer)), (200, "ok"), "{request:?}");
            assert_eq!(server.next_sorted(), expected, "{request:?}");
        }
    }
    assert!(server.has_nothing());
}

#[test]
fn what_can_not_be_brought_into_one_form_is_refused() {
    let server = Recorder::answering(OK);
    let proxy = Proxy::before(server.address);
    let huge = format!("GET / HTTP/1.1\r\nHost: shop\r\nX: {}\r\n\r\n", "x".repeat(70 << 10));
    let many = format!("GET / HTTP/1.1\r\nHost: shop\r\n{}\r\n", "x: 1\r\n".repeat(200));
    let long = format!("GET /{} HTTP/1.1\r\nHost: shop\r\n\r\n", "x".repeat(70 << 10));
    for (request, expected) in [
        ("GET / HTTP/1.1\r\n\r\n", 400),
        ("GET / HTTP/1.0\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost:\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: shop\r\nHost: shop\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: shop\r\nHost: other\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: shop/x\r\n\r\n", 400),
        ("GET http://other/ HTTP/1.1\r\nHost: shop\r\n\r\n", 400),
        ("GET http://shop?a HTTP/1.1\r\nHost: shop\r\n\r\n", 400),
        ("GET http://me@shop/ HTTP/1.1\r\nHost: shop\r\n\r\n", 400),
        ("OPTIONS * HTTP/1.1\r\nHost: shop\r\n\r\n", 400),
        ("CONNECT shop:443 HTTP/1.1\r\nHost: shop:443\r\n\r\n", 405),
        ("TRACE / HTTP/1.1\r\nHost: shop\r\n\r\n", 405),
        ("GET / HTTP/1.1\r\nHost: shop\r\nX: a\r\n b\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: shop\r\nX : a\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: shop\r\nX: a\0b\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: shop\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", 400),
        ("POST / HTTP/1.1\r\nHost: shop\r\nContent-Length: 3, 4\r\n\r\nabcd", 400),
        ("POST / HTTP/1.1\r\nHost: shop\r\nContent-Length: +3\r\n\r\nabc", 400),
        ("POST / HTTP/1.1\r\nHost: shop\r\nContent-Length: -3\r\n\r\nabc", 400),
        ("POST / HTTP/1.1\r\nHost: shop\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
        ("POST / HTTP/1.1\r\nHost: shop\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: shop\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 400),
        ("POST / HTTP/1.0\r\nHost: shop\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (
            "POST / HTTP/1.1\r\nHost: shop\r\nExpect: 100-continue\r\nExpect: other\r\nContent-Length: 1\r\n\r\na",
            417,
        ),
        (&huge, 431),
        (&many, 431),
        (&long, 431),
    ] {
        let answer = proxy.send(request.replacen("\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1));
        let start: String = request.chars().take(80).collect();
        assert_eq!(status(&answer), expected, "{start:?} {answer}");
    }
    assert!(server.has_nothing());
}

#[test]
fn a_body_with_broken_chunks_is_no_whole_request() {
    let head = "POST / HTTP/1.1\r\nHost: shop\r\nTransfer-Encoding: chunked\r\n\r\n";
    for chunks in
        ["3\r\nabcXX0\r\n\r\n", "x\r\nabc\r\n0\r\n\r\n", "fffffffffffffffff\r\nabc", "3\r\nabc\r\n-1\r\n\r\n"]
    {
        let server = Recorder::answering(OK);
        let proxy = Proxy::before(server.address);
        let answer = proxy.send(format!("{head}{chunks}"));
        assert!(answer.is_empty() || status(&answer) == 400, "{chunks:?} {answer}");
        // What has come of it before may have been passed on, but neither its end nor anything behind it.
        assert!(server.try_next().is_none_or(|got| !got.ends_with("0\r\n\r\n")), "{chunks:?}");
    }
}

#[test]
fn one_request_never_becomes_two() {
    let server = Recorder::answering(OK);
    let proxy = Proxy::before(server.address);
    let inner = "GET /inner HTTP/1.1\r\nHost: shop\r\n\r\n";
    let length = inner.len();
    let request = format!(
        "POST /outer HTTP/1.1\r\nHost: shop\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{inner}"
    );
    assert_eq!(status(&proxy.send(request)), 200);
    let expected = format!("content-length: {length}");
    assert_eq!(server.next_sorted(), got("POST /outer", &[&expected], inner));
    // The same behind chunks and a length: the connection ends with it.
    let request = format!(
        "POST /outer HTTP/1.1\r\nHost: shop\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{inner}"
    );
    let answer = proxy.send(request);
    assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{answer}");
    server.next();
    assert!(server.has_nothing());
}
