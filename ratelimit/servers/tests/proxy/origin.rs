//! Whom servers are told that a request comes from, and over which names a path can be reached.

use std::io::{Read as _, Write as _};

use super::{
    server::{OK, Recorder},
    support::{Proxy, status},
};

#[test]
fn what_clients_say_of_themselves_changes_nothing() {
    let server = Recorder::answering(OK);
    let keys = "domain: web\ndescriptors: [{path: '{path}'}]\n";
    let proxy = Proxy::new(&format!("{keys}routes: [{{upstreams: 'http://{}'}}]", server.address));
    for name in ["X-Forwarded-Uri", "X-Original-Uri", "X-Original-URL", "X-Rewrite-URL", "X-Forwarded-Path"] {
        let ask = |path: &str, other: &str| {
            let head = format!("GET {path} HTTP/1.1\r\nHost: shop\r\nConnection: close\r\n");
            status(&proxy.send(format!("{head}{name}: {other}\r\n\r\n")))
        };
        assert_eq!(ask("/login", "/free"), 429, "{name}");
        assert_eq!(ask("/free", "/login"), 200, "{name}");
        let got = server.next_sorted();
        assert_eq!(got[0], "GET /free HTTP/1.1");
        assert!(
            !got.iter()
                .any(|line| line.starts_with("x-forwarded-uri") || line.starts_with("x-forwarded-path"))
        );
    }
    for path in [
        "//login",
        "/./login",
        "/x/../login",
        "/%6cogin",
        "/%6Cogi%6e",
        "/login?x",
        "/login#x",
        "/x/%2e%2e/login",
        "/..//login",
        "http://shop/login",
        "http://shop//login?",
        "/x/..;/../login/../login",
        "/.//login",
        "/%2e/login",
    ] {
        assert_eq!(status(&proxy.get(path)), 429, "{path}");
    }
    assert!(server.has_nothing());
}

#[test]
fn a_host_is_the_same_whatever_it_is_written_like() {
    let server = Recorder::answering(OK);
    let keys = "domain: web\ndescriptors: [{host: '{host}'}]\n";
    let proxy = Proxy::new(&format!("{keys}routes: [{{upstreams: 'http://{}'}}]", server.address));
    for host in
        ["closed.example", "CLOSED.example", "closed.example.", "closed.example:80", "closed.example:8080"]
    {
        let ask = |request: String| status(&proxy.send(request));
        assert_eq!(
            ask(format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")),
            429,
            "{host}"
        );
        let absolute = format!("GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        assert_eq!(ask(absolute), 429, "{host}");
        let claim =
            format!("GET / HTTP/1.1\r\nHost: {host}\r\nX-Forwarded-Host: open\r\nConnection: close\r\n\r\n");
        assert_eq!(ask(claim), 429, "{host}");
    }
    assert!(server.has_nothing());
}

#[test]
fn what_a_connection_takes_off_is_not_judged_either() {
    let server = Recorder::answering(OK);
    let keys = "domain: web\ndescriptors: [{plan: '{header:x-plan}'}]\n";
    let proxy = Proxy::new(&format!("{keys}routes: [{{upstreams: 'http://{}'}}]", server.address));
    let ask = |lines: &str| status(&proxy.send(format!("GET / HTTP/1.1\r\nHost: shop\r\n{lines}\r\n\r\n")));
    assert_eq!(ask("X-Plan: free\r\nConnection: close"), 429);
    assert_eq!(ask("X-Plan: free\r\nConnection: close, x-plan"), 200);
    assert!(!server.next().contains("x-plan"));
}

#[test]
fn a_balancer_in_front_says_who_the_client_is() {
    let server = Recorder::answering(OK);
    let routes = format!("routes: [{{upstreams: 'http://{}'}}]", server.address);
    let limited = "domain: web\ndescriptors: [{client: '{client_address}'}]\n";
    let proxy = Proxy::new(&format!("{limited}proxy_protocol: [127.0.0.0/8]\n{routes}"));
    let ask = |address: &str| {
        let line = format!("PROXY TCP4 {address} 127.0.0.1 5000 80\r\n");
        proxy.send(format!("{line}GET / HTTP/1.1\r\nHost: shop\r\nConnection: close\r\n\r\n"))
    };
    for address in ["192.0.2.1", "192.0.2.2"] {
        for expected in [200, 200, 200, 429] {
            assert_eq!(status(&ask(address)), expected, "{address}");
        }
        assert!(server.next().contains(&format!("x-forwarded-for: {address}\r\n")));
        (0..2).for_each(|_| drop(server.next()));
    }
    assert_eq!(proxy.get("/"), "", "a connection that does not say so");
    let elsewhere = Proxy::new(&format!("proxy_protocol: [192.0.2.0/24]\n{routes}"));
    let answer =
        elsewhere.send("PROXY TCP4 192.0.2.1 127.0.0.1 5000 80\r\nGET / HTTP/1.1\r\nHost: shop\r\n\r\n");
    assert_eq!(answer, "", "one that may not");
    assert!(server.has_nothing());
}

#[test]
fn hops_are_those_of_the_listener() {
    let server = Recorder::answering(OK);
    let keys = format!(
        "trusted_hops: 1\ndomain: web\ndescriptors: [{{client: '{{client_address}}'}}]\nroutes: [{{upstreams: 'http://{}'}}]",
        server.address
    );
    let proxy = Proxy::new(&keys);
    let ask = |lines: &str| {
        let head = "GET / HTTP/1.1\r\nHost: shop\r\nConnection: close\r\n";
        status(&proxy.send(format!("{head}{lines}\r\n\r\n")))
    };
    for lie in 0..3 {
        assert_eq!(
            ask(&format!("X-Forwarded-For: 198.51.100.{lie}, 192.0.2.1\r\nX-Forwarded-Proto: https")),
            200
        );
        let got = server.next();
        assert!(
            got.contains(&format!("x-forwarded-for: 198.51.100.{lie}, 192.0.2.1, 127.0.0.1\r\n")),
            "{got}"
        );
        assert!(got.contains("x-forwarded-proto: https\r\n"), "{got}");
    }
    assert_eq!(ask("X-Forwarded-For: 192.0.2.1"), 429);
    assert_eq!(ask("X-Forwarded-For: 192.0.2.2"), 200);
}

#[test]
fn outgoing_calls_get_the_host_that_is_configured() {
    let server = Recorder::answering(OK);
    let proxy = Proxy::new(&format!(
        "routes: [{{host: shop, path: /api/, host_header: api.example.com, upstreams: 'http://{}'}}]",
        server.address
    ));
    assert_eq!(status(&proxy.get("/api/users?x=1")), 200);
    let got = server.next();
    assert!(
        got.starts_with("GET /api/users?x=1 HTTP/1.1\r\n") && got.contains("host: api.example.com\r\n"),
        "{got}"
    );
    assert!(got.contains("x-forwarded-host: shop\r\n"), "{got}");
    for path in ["/", "/apis"] {
        assert_eq!(status(&proxy.get(path)), 404, "{path}");
    }
    let mut stream = proxy.connect();
    stream.write_all(b"GET /api/ HTTP/1.1\r\nHost: other\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert_eq!(status(&answer), 404);
    assert!(server.has_nothing());
}
