//! `application.proxy`: listeners, routes and servers, and what is wrong with them.

use std::time::Duration;

use ratelimit_policy::application::{
    Balance, ProxyListener, ProxyProtocol, Timeouts, UpstreamTls,
    target::{EscapedSlashes, PathForm},
};

use super::{assert_errors, check, policy, shown};

fn section(keys: &str) -> String {
    format!("application: {{proxy: [{{listen: '127.0.0.1:1', {keys}}}]}}")
}

fn listener(keys: &str) -> ProxyListener {
    policy(&section(keys)).application.unwrap().proxy.remove(0)
}

const ROUTES: &str = "routes: [{upstreams: 'http://x:1'}]";

#[test]
fn what_is_left_out_is_safe() {
    let made = listener(ROUTES);
    assert_eq!((made.trusted_hops, made.proxy_protocol, made.asks), (0, ProxyProtocol::Off, None));
    let refuse = PathForm { ignore_case: false, escaped_slashes: EscapedSlashes::Refuse };
    assert_eq!(made.path, refuse);
    let route = &made.routes[0];
    assert_eq!((route.host.as_deref(), route.path.as_str(), route.balance), (None, "/", Balance::RoundRobin));
    assert_eq!(
        (&route.host_header, &route.tls, route.timeouts),
        (&None, &UpstreamTls::default(), Timeouts::default())
    );
}

#[test]
fn every_key_of_a_listener_and_of_a_route() {
    let made = listener(
        "trusted_hops: 2, proxy_protocol: [10.0.0.0/8, 192.0.2.1], path: {escaped_slashes: keep}, domain: d, descriptors: [{a: b}],
         routes: [{host: Shop.example, path: /api/, upstreams: ['http://x:1', 'https://y'], balance: least_requests,
           host_header: 'z:1', tls: {ca: /ca, server_name: n}, timeouts: {connect: 1s, response: 2s, idle: 3s}}]",
    );
    let networks = ["10.0.0.0/8", "192.0.2.1"].map(|network| network.parse().unwrap()).to_vec();
    assert_eq!((made.trusted_hops, made.proxy_protocol), (2, ProxyProtocol::From(networks)));
    assert_eq!(made.path.escaped_slashes, EscapedSlashes::Keep);
    assert_eq!(made.asks.unwrap().path, made.path);
    let route = &made.routes[0];
    assert_eq!((route.host.as_deref(), route.path.as_str()), (Some("shop.example"), "/api/"));
    let urls: Vec<String> = route.upstreams.iter().map(ToString::to_string).collect();
    assert_eq!(urls, ["http://x:1", "https://y:443"]);
    assert_eq!((route.balance, route.host_header.as_deref()), (Balance::LeastRequests, Some("z:1")));
    assert_eq!(route.tls, UpstreamTls { ca: Some("/ca".into()), server_name: Some("n".to_owned()) });
    let [connect, response, idle] = [1, 2, 3].map(Duration::from_secs);
    assert_eq!(route.timeouts, Timeouts { connect, response, idle });
    assert_eq!(listener(&format!("{ROUTES}, proxy_protocol: true")).proxy_protocol, ProxyProtocol::Always);
    assert_eq!(listener(&format!("{ROUTES}, proxy_protocol: false")).proxy_protocol, ProxyProtocol::Off);
}

#[test]
fn mistakes_say_what_to_write() {
    for (keys, expected) in [
        ("trusted_hops: 0", "routes: missing; add `routes:"),
        ("routes: []", "routes: no routes; add one"),
        ("routes: [{}]", "routes[0].upstreams: missing; add"),
        ("routes: [{upstreams: []}]", "routes[0].upstreams: an empty list"),
        ("routes: [{upstreams: 'x:1'}]", "routes[0].upstreams: write http://HOST:PORT"),
        ("routes: [{upstreams: 'http://x/p'}]", "routes[0].upstreams: a server's URL has no path"),
        (
            "routes: [{upstreams: ['http://x', 'http://X:80/']}]",
            "routes[0].upstreams[1]: `http://X:80/` is there twice",
        ),
        (
            "routes: [{path: api, upstreams: 'http://x'}]",
            "routes[0].path: requests never have the path `api`: write `/api`",
        ),
        (
            "routes: [{path: //a, upstreams: 'http://x'}]",
            "routes[0].path: requests never have the path `//a`: write `/a`",
        ),
        ("routes: [{host: 'x:1', upstreams: 'http://x'}]", "routes[0].host: `x:1` is not a host"),
        (
            "routes: [{host_header: 'a b', upstreams: 'http://x'}]",
            "routes[0].host_header: `a b` is not a value of `Host`",
        ),
        (
            "routes: [{tls: {server_name: 'a b'}, upstreams: 'http://x'}]",
            "routes[0].tls.server_name: `a b` is not a name",
        ),
        (
            "routes: [{timeouts: {idle: 2d}, upstreams: 'http://x'}]",
            "routes[0].timeouts.idle: longer than a day",
        ),
        ("routes: [{balance: hash, upstreams: 'http://x'}]", "routes[0].balance: `hash` is not known"),
        (
            "routes: [{path: /a, upstreams: 'http://x'}, {path: /a/, upstreams: 'http://y'}]",
            "routes[1]: is for the same requests as application.proxy[0].routes[0] on line 1",
        ),
        ("routes: [{upstreams: 'http://x'}], domain: d", "descriptors: missing; add"),
        ("routes: [{upstreams: 'http://x'}], descriptors: [{a: b}]", "domain: missing; add"),
        (
            "routes: [{upstreams: 'http://x'}], proxy_protocol: yes",
            "proxy_protocol: `yes` is neither true, false nor",
        ),
        (
            "routes: [{upstreams: 'http://x'}], proxy_protocol: [10.0.0.1/8]",
            "proxy_protocol[0]: has bits set",
        ),
        (
            "routes: [{upstreams: 'http://x'}], trusted_hop: 1",
            "trusted_hop: unknown key `trusted_hop`, did you mean",
        ),
    ] {
        let errors = check(section(keys)).unwrap_err().to_string();
        assert!(errors.contains(&format!("application.proxy[0].{expected}")), "{keys}: {errors}");
    }
    assert_errors(
        "application: {listen: {http: '127.0.0.1:1'}, proxy: [{listen: '127.0.0.1:1', routes: [{upstreams: 'http://x'}]}]}",
        &["1:63 application.proxy[0].listen: `127.0.0.1:1` is there twice"],
    );
    let unix = "application: {proxy: [{listen: 'unix:/s', domain: d, descriptors: [{a: '{client_address}'}], routes: [{upstreams: \"http://x\"}]}]}";
    assert_errors(unix, &["1:32 application.proxy[0].listen: clients have no address on a Unix socket"]);
}

#[test]
fn what_lets_everybody_through_is_a_warning() {
    let warnings = |text: &str| -> Vec<String> { check(text).unwrap().warnings.iter().map(shown).collect() };
    let open = section(&format!("{ROUTES}, proxy_protocol: true")).replace("127.0.0.1", "0.0.0.0");
    let found = warnings(&open).join("\n");
    assert!(found.contains("no `domain` and no `descriptors`"), "{found}");
    assert!(found.contains("anybody who can connect can name any client"), "{found}");
    let found = warnings(&section(&format!("{ROUTES}, proxy_protocol: true"))).join("\n");
    assert!(!found.contains("anybody who can connect"), "{found}");
}
