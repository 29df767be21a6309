//! What is over its limit does not reach a server, and what becomes of requests when nobody can decide.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use ratelimit_limiter::{
    Nanos,
    clock::{Clock, FakeClock},
};

use super::{
    server::{OK, Recorder},
    support::{Proxy, body, header, status},
};

const LIMITED: &str = "domain: web\ndescriptors: [{client: '{client_address}'}]\n";

#[test]
fn what_is_over_its_limit_is_answered_as_everywhere() {
    let server =
        Recorder::answering("HTTP/1.1 200 OK\r\ncontent-length: 2\r\nx-ratelimit-limit: 9\r\n\r\nok");
    let proxy = Proxy::new(&format!("{LIMITED}routes: [{{upstreams: 'http://{}'}}]", server.address));
    for left in ["2", "1", "0"] {
        let got = proxy.get("/");
        assert_eq!((status(&got), body(&got)), (200, "ok"));
        assert_eq!(header(&got, "x-ratelimit-remaining"), Some(left), "{got}");
        assert_eq!(header(&got, "x-ratelimit-limit"), Some("9"), "what the server says itself stays: {got}");
        assert_eq!(header(&got, "cache-control"), None);
        server.next();
    }
    let got = proxy.get("/");
    assert_eq!(status(&got), 429);
    assert_eq!(header(&got, "content-type"), Some("application/problem+json"));
    assert!(header(&got, "retry-after").is_some() && body(&got).contains("per-client"), "{got}");
    let request =
        "POST / HTTP/1.1\r\nHost: shop\r\nConnection: close\r\nContent-Type: application/grpc\r\n\r\n";
    let got = proxy.send(request);
    assert_eq!((status(&got), header(&got, "grpc-status")), (200, Some("8")), "{got}");
    assert!(server.has_nothing());
}

#[test]
fn a_denied_upload_is_answered_before_it_has_come() {
    let server = Recorder::answering(OK);
    let keys = "domain: web\ndescriptors: [{path: '{path}'}]\n";
    let proxy = Proxy::new(&format!("{keys}routes: [{{upstreams: 'http://{}'}}]", server.address));
    let got = proxy.send("POST /login HTTP/1.1\r\nHost: shop\r\nContent-Length: 1000000\r\n\r\nbegin");
    assert_eq!((status(&got), header(&got, "connection")), (429, Some("close")), "{got}");
}

/// A clock that stands still until it breaks.
struct Breaking(FakeClock, Arc<AtomicBool>);

impl Clock for Breaking {
    fn now(&self) -> Nanos {
        assert!(!self.1.load(Relaxed), "injected");
        self.0.now()
    }
}

#[test]
fn a_limiter_that_panics_takes_nobody_with_it() {
    for (configured, expected) in [("allow", 200), ("deny", 503)] {
        let server = Recorder::answering(OK);
        let is_broken = Arc::<AtomicBool>::default();
        let clock = Breaking(FakeClock::new(Nanos::from_secs(1_700_092_800)), Arc::clone(&is_broken));
        let keys = format!("{LIMITED}routes: [{{upstreams: 'http://{}'}}]", server.address);
        let proxy = Proxy::with_clock(&keys, &format!("on_store_error: {configured}"), Arc::new(clock));
        assert_eq!(status(&proxy.get("/")), 200);
        is_broken.store(true, Relaxed);
        for _ in 0..3 {
            assert_eq!(status(&proxy.get("/")), expected, "{configured}");
        }
        is_broken.store(false, Relaxed);
        let got = proxy.get("/");
        assert_eq!((status(&got), header(&got, "x-ratelimit-remaining")), (200, Some("1")), "{configured}");
    }
}

#[test]
fn a_reload_changes_routes_and_limits_and_keeps_counts() {
    let (one, other) = (Recorder::answering(OK), Recorder::answering(OK));
    let to = |server: &Recorder| format!("{LIMITED}routes: [{{upstreams: 'http://{}'}}]", server.address);
    let proxy = Proxy::new(&to(&one));
    assert_eq!(status(&proxy.get("/one")), 200);
    assert!(one.next().starts_with("GET /one "));
    proxy.reload(&to(&other));
    assert_eq!(header(&proxy.get("/other"), "x-ratelimit-remaining"), Some("1"));
    assert!(other.next().starts_with("GET /other ") && one.has_nothing());
    let urls: Vec<_> = proxy.servers.proxy().status().into_iter().map(|upstream| upstream.url).collect();
    assert_eq!(urls, [format!("http://{}", other.address)]);
    proxy.reload(&format!("routes: [{{upstreams: 'http://{}'}}]", other.address));
    assert_eq!(header(&proxy.get("/"), "x-ratelimit-remaining"), None);
}

#[test]
fn clients_are_told_apart_by_their_networks() {
    let server = Recorder::answering(OK);
    let keys = "domain: web\ndescriptors: [{network: '{client_address}'}]\nproxy_protocol: [127.0.0.0/8]\n";
    let proxy = Proxy::new(&format!("{keys}routes: [{{upstreams: 'http://{}'}}]", server.address));
    for (client, expected) in [("192.0.2.7", 429), ("198.51.100.7", 429), ("203.0.113.7", 200)] {
        let request = "GET / HTTP/1.1\r\nHost: shop\r\nConnection: close\r\n\r\n";
        let got = proxy.send(format!("PROXY TCP4 {client} 127.0.0.1 5000 80\r\n{request}"));
        assert_eq!(status(&got), expected, "{client}");
    }
}

#[test]
fn a_denied_request_gets_the_page_of_the_operator() {
    let server = Recorder::answering(OK);
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("busy.html");
    std::fs::write(&page, "come back later").unwrap();
    let keys = "domain: web\ndescriptors: [{path: '{path}'}]\n";
    let routes = format!("routes: [{{upstreams: 'http://{}'}}]", server.address);
    let proxy = Proxy::new(&format!("{keys}deny_body: {}\n{routes}", page.display()));
    let got = proxy.get("/login");
    assert_eq!((status(&got), body(&got)), (429, "come back later"), "{got}");
    assert_eq!(header(&got, "content-type"), Some("text/html; charset=utf-8"));
    assert!(header(&got, "ratelimit").is_some(), "{got}");
}
