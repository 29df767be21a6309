//! Headers on their way through a proxy: what belongs to one connection alone is taken off, and servers are told by
//! this proxy alone whom a request comes from.

use std::net::IpAddr;

use http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::text;

/// What belongs to one connection, besides what `Connection` names (RFC 9110, section 7.6.1). `Proxy` belongs to
/// nothing: some servers make `HTTP_PROXY` of it, and send what they ask others to whoever it names.
fn is_of_connection(name: &HeaderName) -> bool {
    matches!(
        name.as_str(),
        "connection"
            | "keep-alive"
            | "proxy"
            | "proxy-connection"
            | "http2-settings"
            | "proxy-authenticate"
            | "proxy-authorization"
            | "te"
            | "transfer-encoding"
            | "upgrade"
    )
}

/// `X-Client-IP`, `True-Client-IP`, `Fastly-Client-IP` and many others.
const CLIENT_IP: &str = "client-ip";
const X_FORWARDED: &str = "x-forwarded-";
const X_ORIGINAL: &str = "x-original-";
const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// Takes off what belongs to one connection. `Host` and `Content-Length` say what a message is, whatever `Connection`
/// says; and what proxies say of a client is not for that client to take off.
pub fn remove_those_of_connection(headers: &mut HeaderMap) {
    if headers.contains_key(header::CONNECTION) {
        let named: Vec<HeaderName> = tokens(headers, &header::CONNECTION)
            // What most servers say, which is taken off in any case.
            .filter(|name| !name.eq_ignore_ascii_case(b"keep-alive"))
            .filter_map(|name| HeaderName::from_bytes(name).ok())
            .filter(|name| name != header::HOST && name != header::CONTENT_LENGTH && !is_claim(name))
            .collect();
        for name in named {
            headers.remove(name);
        }
    }
    remove_all(headers, is_of_connection);
}

/// Most messages have none of what is taken off, so names are looked at, and not looked up one by one.
fn remove_all(headers: &mut HeaderMap, is_one: impl Fn(&HeaderName) -> bool) {
    let names: Vec<HeaderName> = headers.keys().filter(|name| is_one(name)).cloned().collect();
    for name in names {
        headers.remove(name);
    }
}

/// The words of a header that is a list, over all its lines.
pub fn tokens<'h>(headers: &'h HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'h [u8]> {
    let lines = headers.get_all(name).iter().map(HeaderValue::as_bytes);
    lines
        .flat_map(|line| line.split(|byte| *byte == b','))
        .map(<[u8]>::trim_ascii)
        .filter(|word| !word.is_empty())
}

/// Takes off headers whose names have other characters than letters, digits and hyphens: many servers take `X_User` for
/// `X-User`, and some `X.User`, too, which a limit may be about.
pub fn remove_ambiguous(headers: &mut HeaderMap) {
    remove_all(headers, is_ambiguous);
}

fn is_ambiguous(name: &HeaderName) -> bool {
    !name.as_str().bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// What servers are told of where a request comes from.
#[derive(Debug)]
pub struct Origin<'r> {
    /// Who is connected.
    pub peer: Option<IpAddr>,
    /// The client, as it is judged.
    pub client: Option<IpAddr>,
    /// How many proxies in front are trusted.
    pub trusted_hops: u8,
    /// Whether it came over TLS.
    pub is_tls: bool,
    /// Over which version of HTTP.
    pub is_http1: bool,
    /// The host that was asked, with its port.
    pub authority: &'r HeaderValue,
}

impl Origin<'_> {
    /// Says it in the headers, in which there is nothing left that is not believed.
    pub fn tell(&self, headers: &mut HeaderMap) {
        self.tell_addresses(headers);
        let scheme = HeaderValue::from_static(if self.is_tls { "https" } else { "http" });
        headers.entry(X_FORWARDED_PROTO).or_insert(scheme);
        headers.entry(X_FORWARDED_HOST).or_insert_with(|| self.authority.clone());
        let via = HeaderValue::from_static(if self.is_http1 { "1.1 ratelimit" } else { "2.0 ratelimit" });
        headers.append(header::VIA, via);
    }

    fn tell_addresses(&self, headers: &mut HeaderMap) {
        let shown = |address: IpAddr| text::of_address(address.to_canonical());
        let mut hops: Vec<u8> = Vec::new();
        for hop in tokens(headers, &X_FORWARDED_FOR) {
            add(&mut hops, hop);
        }
        // The proxies in front have said it in the other header.
        if let (true, Some(client), true) = (hops.is_empty(), self.client, self.trusted_hops > 0) {
            add(&mut hops, shown(client).as_bytes());
        }
        if let Some(peer) = self.peer {
            add(&mut hops, shown(peer).as_bytes());
        }
        match HeaderValue::from_bytes(&hops) {
            Ok(value) if !hops.is_empty() => headers.insert(X_FORWARDED_FOR, value),
            _ => headers.remove(X_FORWARDED_FOR),
        };
    }
}

fn add(hops: &mut Vec<u8>, hop: &[u8]) {
    if !hops.is_empty() {
        hops.extend_from_slice(b", ");
    }
    hops.extend_from_slice(hop);
}

/// Takes off what is not believed: what only proxies may say, if none is trusted; and `Forwarded`, since what it says
/// is in `X-Forwarded-For`, to which this proxy adds.
pub fn remove_disbelieved(headers: &mut HeaderMap, trusted_hops: u8) {
    match trusted_hops {
        0 => remove_claims(headers),
        _ => drop(headers.remove(header::FORWARDED)),
    }
}

/// Takes off what only proxies may say.
pub fn remove_claims(headers: &mut HeaderMap) {
    remove_all(headers, is_claim);
}

/// Whether only proxies may say it: of whom a request comes, and for which path and host it was. Some servers take that
/// for the request's own.
fn is_claim(name: &HeaderName) -> bool {
    match name.as_str() {
        "via" | "forwarded" => true,
        "x-real-ip" | "x-remote-ip" | "x-remote-addr" | "x-originating-ip" => true,
        "cf-connecting-ip" | "cf-connecting-ipv6" | "x-envoy-external-address" => true,
        "x-host" | "x-http-host-override" | "x-rewrite-url" | "x-envoy-original-path" => true,
        other => {
            other.ends_with(CLIENT_IP) || other.starts_with(X_FORWARDED) || other.starts_with(X_ORIGINAL)
        }
    }
}

/// Puts cookies that came apart, as over HTTP/2, into one header (RFC 9113, section 8.2.3): what servers make of
/// several over HTTP/1, they don't agree on.
pub fn join_cookies(headers: &mut HeaderMap) {
    let mut cookies = headers.get_all(header::COOKIE).iter();
    if cookies.next().is_none() || cookies.next().is_none() {
        return;
    }
    let all: Vec<&[u8]> = headers.get_all(header::COOKIE).iter().map(HeaderValue::as_bytes).collect();
    // If the parts are good, so is the whole.
    if let Ok(joined) = HeaderValue::from_bytes(&all.join(&b"; "[..])) {
        headers.insert(header::COOKIE, joined);
    }
}

#[cfg(test)]
mod tests {
    //! What servers get to see of what clients send.

    use super::*;

    fn headers(lines: &[(&str, &str)]) -> HeaderMap {
        lines
            .iter()
            .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap()))
            .collect()
    }

    fn shown(headers: &HeaderMap) -> Vec<String> {
        let line =
            |(name, value): (&HeaderName, &HeaderValue)| format!("{name}: {}", value.to_str().unwrap());
        let mut lines: Vec<String> = headers.iter().map(line).collect();
        lines.sort();
        lines
    }

    #[test]
    fn what_belongs_to_a_connection_is_taken_off() {
        let mut all = headers(&[
            ("connection", "close, X-Mine"),
            ("connection", "host,content-length, te, x-forwarded-for, Forwarded, x-real-ip"),
            ("keep-alive", "1"),
            ("proxy-connection", "keep-alive"),
            ("proxy", "http://192.0.2.1"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("http2-settings", "AA"),
            ("te", "trailers"),
            ("x-mine", "1"),
            ("host", "x"),
            ("content-length", "1"),
            ("x-other", "1"),
            ("x-forwarded-for", "192.0.2.1"),
        ]);
        remove_those_of_connection(&mut all);
        assert_eq!(shown(&all), ["content-length: 1", "host: x", "x-forwarded-for: 192.0.2.1", "x-other: 1"]);
    }

    fn told(lines: &[(&str, &str)], client: &str, trusted_hops: u8) -> Vec<String> {
        let mut all = headers(lines);
        let authority = HeaderValue::from_static("shop:8000");
        let peer = "10.0.0.1".parse().ok();
        let client = client.parse().ok();
        remove_disbelieved(&mut all, trusted_hops);
        Origin { peer, client, trusted_hops, is_tls: true, is_http1: true, authority: &authority }
            .tell(&mut all);
        shown(&all)
    }

    #[test]
    fn what_a_client_says_of_itself_is_replaced() {
        let lies = [
            ("x-forwarded-for", "192.0.2.1"),
            ("x-forwarded-proto", "http"),
            ("x-forwarded-host", "other"),
            ("x-forwarded-port", "1"),
            ("forwarded", "for=192.0.2.1"),
            ("x-real-ip", "192.0.2.1"),
            ("client-ip", "192.0.2.1"),
            ("fastly-client-ip", "192.0.2.1"),
            ("x-envoy-external-address", "192.0.2.1"),
            ("x-original-url", "/free"),
            ("x-rewrite-url", "/free"),
            ("via", "1.0 lie"),
        ];
        let expected = [
            "via: 1.1 ratelimit",
            "x-forwarded-for: 10.0.0.1",
            "x-forwarded-host: shop:8000",
            "x-forwarded-proto: https",
        ];
        assert_eq!(told(&lies, "10.0.0.1", 0), expected);
    }

    #[test]
    fn what_trusted_proxies_say_is_passed_on() {
        let said =
            [("x-forwarded-for", "192.0.2.9,192.0.2.1"), ("x-forwarded-proto", "http"), ("via", "1.1 edge")];
        let expected = [
            "via: 1.1 edge",
            "via: 1.1 ratelimit",
            "x-forwarded-for: 192.0.2.9, 192.0.2.1, 10.0.0.1",
            "x-forwarded-host: shop:8000",
            "x-forwarded-proto: http",
        ];
        assert_eq!(told(&said, "192.0.2.1", 1), expected);
        let other = told(&[("forwarded", "for=192.0.2.1")], "192.0.2.1", 1);
        assert!(other.contains(&"x-forwarded-for: 192.0.2.1, 10.0.0.1".to_owned()), "{other:?}");
    }

    #[test]
    fn names_that_servers_take_for_others_are_taken_off() {
        let mut all =
            headers(&[("x_forwarded_for", "1"), ("x_plan", "paid"), ("x.plan", "paid"), ("x-plan", "free")]);
        remove_ambiguous(&mut all);
        assert_eq!(shown(&all), ["x-plan: free"]);
    }

    #[test]
    fn cookies_that_came_apart_are_one_header() {
        let mut all = headers(&[("cookie", "a=1"), ("cookie", "b=2")]);
        join_cookies(&mut all);
        assert_eq!(shown(&all), ["cookie: a=1; b=2"]);
    }
}
