//! Ways around a limit, as an attacker would try them: the server behind must not see what was judged as something
//! else.

use http::{Request, header};
use http_body_util::{BodyExt as _, Empty, Full};

use super::{
    http2::client,
    server::{OK, Recorder},
    support::{Proxy, status},
};

/// A proxy whose only rule denies what these descriptors make of a request.
fn guarded(server: &Recorder, descriptors: &str) -> Proxy {
    let routes = format!("routes: [{{upstreams: 'http://{}'}}]", server.address);
    Proxy::new(&format!("domain: web\ndescriptors: {descriptors}\n{routes}"))
}

fn ask(proxy: &Proxy, line: &[u8], lines: &[u8]) -> u16 {
    let parts: [&[u8]; 5] = [line, b" HTTP/1.1\r\nHost: shop\r\nConnection: close\r\n", lines, b"\r\n", b""];
    status(&proxy.send(parts.concat()))
}

#[test]
fn no_way_of_writing_a_path_is_another_path() {
    let server = Recorder::answering(OK);
    let proxy = guarded(&server, "[{path: '{path}'}]");
    for path in [
        &b"/login"[..],
        b"/login?",
        b"/login#",
        b"/login;x",
        b"/login%3b",
        b"/login%3Bx=y",
        b"/.;/login",
        b"/;a=b;c/login",
        b"/x/..;/login",
        b"/x/.;a/../login",
        b"///login",
        b"/%2e/%2E%2e/login",
        b"/%6c%6f%67in",
        b"HTTP://SHOP/login",
        b"http://shop.:80/login",
        b"https://shop/login",
        b"ftp://shop/login",
    ] {
        let line = [b"GET ", path].concat();
        assert_eq!(ask(&proxy, &line, b""), 429, "{}", path.escape_ascii());
    }
    for path in [
        &b"/login%00"[..],
        b"/login%0a",
        b"/login%0d%0aX:%20y",
        b"/login%09",
        b"/login%7f",
        b"/login%2f",
        b"/%2flogin",
        b"/x/..%2flogin",
        b"/x\\..\\login",
        b"/x/%5c../login",
        b"/x/%c0%ae%c0%ae/login",
        b"/x/\xc0\xae\xc0\xae/login",
        b"/%u006cogin",
        b"/l%6Fgin%",
        b"/login\xa0",
        b"/login\t",
        b"/login\x0b",
        b" /login",
        b"login",
        b"shop/login",
        b"*",
        b"http:/login",
        b"http:///login",
        b"http://shop\\login",
        b"http://other/login",
        b"http://me@shop/login",
    ] {
        let line = [b"GET ", path].concat();
        assert_eq!(ask(&proxy, &line, b""), 400, "{}", path.escape_ascii());
    }
    assert!(server.has_nothing());
}

#[test]
fn a_slash_at_the_end_is_passed_over_by_templates() {
    let server = Recorder::answering(OK);
    let proxy =
        guarded(&server, "[{path: '{path_template}'}]\npath: {templates: [/login], ignore_case: true}");
    for path in ["/login", "/login/", "/login//", "/login/.", "/LOGIN", "/Login/x/.."] {
        assert_eq!(ask(&proxy, format!("GET {path}").as_bytes(), b""), 429, "{path}");
    }
    assert!(server.has_nothing());
}

#[test]
fn no_method_is_another_one_in_small_letters() {
    let server = Recorder::answering(OK);
    let proxy = guarded(&server, "[{path: '{path}'}]");
    for method in ["post", "Get", "trace", "connect", "get", "P%4fST", "PO.ST"] {
        assert_eq!(ask(&proxy, format!("{method} /").as_bytes(), b""), 405, "{method}");
    }
    for method in ["PROPFIND", "VERSION-CONTROL", "M-SEARCH"] {
        assert_eq!(ask(&proxy, format!("{method} /").as_bytes(), b""), 200, "{method}");
        assert!(server.next().starts_with(&format!("{method} / HTTP/1.1\r\n")));
    }
    assert!(server.has_nothing());
}

#[test]
fn no_name_of_a_header_is_another_one() {
    let server = Recorder::answering(OK);
    let proxy = guarded(&server, "[{plan: '{header:x-plan|free}'}]");
    for lines in [
        &b""[..],
        b"X-Plan:\r\n",
        b"X-Plan: \t\r\n",
        b"X-Plan: free\t\r\n",
        b"X-PLAN: free\r\nX-plan: free\r\n",
        b"X_Plan: paid\r\n",
        b"X.Plan: paid\r\n",
        b"X-Plan: paid\r\nConnection: X-PLAN\r\n",
    ] {
        assert_eq!(ask(&proxy, b"GET /", lines), 429, "{}", lines.escape_ascii());
    }
    for lines in [
        &b"X-Plan : paid\r\n"[..],
        b"X Plan: paid\r\n",
        b" X-Plan: paid\r\n",
        b"X-Plan: p\0aid\r\n",
        b"X-Plan: paid\rX-Plan: free\r\n",
        b"\"X-Plan\": paid\r\n",
    ] {
        assert_eq!(ask(&proxy, b"GET /", lines), 400, "{}", lines.escape_ascii());
    }
    assert!(server.has_nothing());
    // Whichever the server takes, it is one limit for all who send several.
    assert_eq!(ask(&proxy, b"GET /", b"X-Plan: paid\r\nX.Plan: 1\r\nProxy: http://192.0.2.1\r\n"), 200);
    let got = server.next();
    assert!(got.contains("x-plan: paid\r\n") && !got.contains("x.plan") && !got.contains("proxy:"), "{got}");
}

#[test]
fn no_cookie_or_parameter_is_left_out_by_writing_it_otherwise() {
    let server = Recorder::answering(OK);
    let proxy = guarded(&server, "[{plan: '{cookie:plan|free}'}]");
    for cookie in [
        "plan=",
        "plan",
        "plan=free",
        "a=1; plan = \"free\"",
        "plan=f%72ee",
        "plan=\"f\\162e\\e\"",
        "plan=free%20",
        "=plan; x",
        // What some servers take for it, or for its end, or for another one.
        "PLAN=paid",
        "%70lan=paid",
        "plan=paid; Plan=free",
        "plan=paid, plan=free",
        "plan=paid plan=free",
        "x=1, plan=paid",
        "plan=free,x=1",
        "plan=free x=1",
        "x=1\r\nCookie: y=2, plan=paid",
        "plan=paid\r\nCookie: plan=free",
    ] {
        let line = format!("Cookie: {cookie}\r\n");
        assert_eq!(ask(&proxy, b"GET /", line.as_bytes()), 429, "{cookie}");
    }
    let proxy = guarded(&server, "[{plan: '{query:plan|free}'}]");
    for query in [
        "",
        "?",
        "?plan",
        "?plan=",
        "?p%6can=free",
        "?plan=fre%65",
        "?plan=+free%20",
        "?plan=free%00",
        "?&&plan=free&",
        "#?plan=x",
        // Likewise.
        "?PLAN=paid",
        "?plan=paid&Plan=free",
        "?plan=paid&%20plan=free",
        "?plan=paid&plan[]=free",
        "?plan=paid&plan%00=free",
        "?plan=paid;plan=free",
        "?plan=free;x=1",
        "?x=1;plan=paid",
    ] {
        assert_eq!(ask(&proxy, format!("GET /{query}").as_bytes(), b""), 429, "{query}");
    }
    assert!(server.has_nothing());
}

#[test]
fn credentials_are_the_same_however_their_scheme_is_written() {
    let server = Recorder::answering(OK);
    let proxy = guarded(&server, "[{client: '{header:authorization}'}]");
    for (line, expected) in [
        ("Bearer abc", 200),
        ("bearer abc", 200),
        ("BEARER   abc", 200),
        ("bEARER\tabc", 429),
        ("Bearer abcd", 200),
    ] {
        let line = format!("Authorization: {line}\r\n");
        assert_eq!(ask(&proxy, b"GET /", line.as_bytes()), expected, "{line}");
    }
}

#[test]
fn what_only_proxies_may_say_is_not_judged_either() {
    let server = Recorder::answering(OK);
    for name in ["X-Real-IP", "X-Forwarded-Plan", "Forwarded", "Via", "Client-IP"] {
        let proxy = guarded(&server, &format!("[{{plan: '{{header:{name}|free}}'}}]"));
        assert_eq!(ask(&proxy, b"GET /", format!("{name}: paid\r\n").as_bytes()), 429, "{name}");
    }
    assert!(server.has_nothing());
}

#[test]
fn nobody_takes_off_what_proxies_in_front_say() {
    let server = Recorder::answering(OK);
    let routes = format!("routes: [{{upstreams: 'http://{}'}}]", server.address);
    let proxy = Proxy::new(&format!(
        "trusted_hops: 1\ndomain: web\ndescriptors: [{{network: '{{client_address}}'}}]\n{routes}"
    ));
    for connection in ["close", "close, X-Forwarded-For", "Forwarded, X-FORWARDED-FOR, close"] {
        let head = format!("GET / HTTP/1.1\r\nHost: shop\r\nConnection: {connection}\r\n");
        let got = proxy.send(format!("{head}X-Forwarded-For: 192.0.2.7\r\n\r\n"));
        assert_eq!(status(&got), 429, "{connection}");
    }
    assert!(server.has_nothing());
}

#[test]
fn cookies_reach_a_server_in_one_header() {
    let server = Recorder::answering(OK);
    let proxy = Proxy::before(server.address);
    assert_eq!(ask(&proxy, b"GET /", b"Cookie: a=1\r\nX: y\r\nCookie: b=2; c=3\r\n"), 200);
    let got = server.next();
    assert!(got.contains("cookie: a=1; b=2; c=3\r\n"), "{got}");
    assert_eq!(got.matches("cookie").count(), 1, "{got}");
}

#[test]
fn trailers_say_nothing_that_headers_may_not() {
    let server = Recorder::answering(OK);
    let proxy = Proxy::before(server.address);
    let trailers = "X-Sum: 7\r\nX-Forwarded-For: 192.0.2.1\r\nForwarded: for=192.0.2.1\r\nX-Real-IP: 192.0.2.1\r\n\
                    Via: 1.1 lie\r\nX_Sum: 8\r\nHost: other\r\nTransfer-Encoding: chunked\r\n";
    let names = "X-Sum, X-Forwarded-For, Forwarded, X-Real-IP, Via, X_Sum, Host, Transfer-Encoding";
    let request = format!(
        "POST / HTTP/1.1\r\nHost: shop\r\nConnection: close\r\nTransfer-Encoding: chunked\r\nTrailer: {names}\r\n\r\n\
         3\r\nabc\r\n0\r\n{trailers}\r\n"
    );
    assert_eq!(status(&proxy.send(request)), 200);
    let got = server.next();
    assert!(got.ends_with("3\r\nabc\r\n0\r\nx-sum: 7\r\n\r\n"), "{got}");
    // Nor what rules would have seen there.
    let proxy = guarded(&server, "[{plan: '{header:x-plan|other}'}, {plan: '{header:x-tier}'}]");
    let request = "POST / HTTP/1.1\r\nHost: shop\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\
                   Trailer: X-Plan, X-Sum, X-Tier\r\n\r\n3\r\nabc\r\n0\r\nX-Plan: free\r\nX-Sum: 7\r\nX-TIER: free\r\n\r\n";
    assert_eq!(status(&proxy.send(request)), 200);
    let got = server.next();
    assert!(got.ends_with("3\r\nabc\r\n0\r\nx-sum: 7\r\n\r\n"), "{got}");
}

#[tokio::test]
async fn http2_hides_nothing_either() {
    let server = Recorder::answering(OK);
    let proxy = guarded(&server, "[{path: '{path}'}, {plan: '{header:x-plan|free}'}, {host: '{host}'}]");
    let mut sender = client(&proxy).await;
    let plain = |uri: &str| Request::get(uri).header("x-plan", "paid");
    let asked = [
        (plain("http://shop//x/../login"), 429),
        (plain("https://shop/login"), 429),
        (plain("http://CLOSED.example.:81/"), 429),
        (plain("http://shop/x\\..\\login"), 400),
        (plain("http://shop/login%0a"), 400),
        (plain("http://shop/").header(header::HOST, "closed.example"), 400),
        (plain("http://shop/").method("post"), 405),
        (Request::get("http://shop/").header("x-plan", "free"), 429),
        // Over HTTP/1 these would be `free` for the server behind.
        (Request::get("http://shop/").header("x-plan", " free"), 400),
        (Request::get("http://shop/").header("x-plan", "free\t"), 400),
    ];
    for (request, expected) in asked {
        let request = request.body(Empty::new().boxed()).unwrap();
        let shown = format!("{request:?}");
        assert_eq!(sender.send_request(request).await.unwrap().status(), expected, "{shown}");
    }
    assert!(server.has_nothing());
    // A length that is not the body's would let what is behind it be another request.
    let inner = "abcGET /login HTTP/1.1\r\nHost: shop\r\n\r\n";
    for length in ["3", "0", "99"] {
        let request = plain("http://shop/").method("POST").header(header::CONTENT_LENGTH, length);
        // Before the rest has come, the server may have answered what it was sent.
        drop(sender.send_request(request.body(Full::from(inner).boxed()).unwrap()).await);
        sender = client(&proxy).await;
    }
    while let Some(got) = server.try_next() {
        assert!(!got.contains("GET /login"), "{got}");
    }
}
