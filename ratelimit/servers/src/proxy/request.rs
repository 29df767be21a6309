//! A request in the one form in which it is judged and passed on, or why it is not.
//!
//! What servers could understand in another way than this proxy does is refused, or written so that it can be
//! understood in one way only. Framing (lengths, chunks, lines) is hyper's: it reads a body and writes it anew.

use http::{
    HeaderMap, HeaderValue, Method, StatusCode, Uri, Version, header, request::Parts, uri::PathAndQuery,
};

use super::headers;
use crate::policy::application::target::{Authority, AuthorityError, PathForm, RequestTarget, TargetError};

/// A request in its one form.
#[derive(Debug)]
pub struct ProxyRequest {
    /// Its method.
    pub method: Method,
    /// Path and query, as they are passed on.
    pub target: PathAndQuery,
    /// The path, as it is judged, if that is not the same.
    judged: Option<String>,
    /// The host alone, as it is judged.
    pub host: String,
    /// The host with its port, as it is passed on.
    pub authority: HeaderValue,
    /// Its headers, without `Host` and without those of the connection.
    pub headers: HeaderMap,
    /// Whether it came over HTTP/1.
    pub is_http1: bool,
    /// Whether it asks for a WebSocket.
    pub is_websocket: bool,
    /// Whether the client takes trailers.
    pub takes_trailers: bool,
}

/// Why a request is not passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No host.
    #[error("a request has to say which host it is for, in one `Host` header")]
    NoHost,
    /// Several hosts, or one in the target and another in the header.
    #[error("a request is for one host, and this one names several")]
    Hosts,
    /// What is no host.
    #[error(transparent)]
    Host(AuthorityError),
    /// A method that proxies are asked for themselves, or that some servers take for another one.
    #[error("requests with this method are not passed on; methods are written in capitals")]
    Method,
    /// A target that is no path, or that servers would understand in different ways.
    #[error(transparent)]
    Target(TargetError),
    /// An expectation other than to go on.
    #[error("`Expect` can only be `100-continue`")]
    Expectation,
    /// A value that is another one over HTTP/1.
    #[error("the value of a header has a blank at one of its ends")]
    Blank,
    /// A body in a coding that nobody here knows.
    #[error("a body has a length or comes in chunks; no other coding is accepted")]
    Coding,
}

impl Refusal {
    /// The status of the answer.
    #[must_use]
    pub const fn status(self) -> StatusCode {
        match self {
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::Expectation => StatusCode::EXPECTATION_FAILED,
            Self::Coding => StatusCode::NOT_IMPLEMENTED,
            Self::NoHost | Self::Hosts | Self::Host(_) | Self::Target(_) | Self::Blank => {
                StatusCode::BAD_REQUEST
            }
        }
    }
}

impl ProxyRequest {
    /// Brings a request, as it came, into its one form.
    ///
    /// # Errors
    /// Why it is not passed on.
    pub fn new(head: Parts, is_tls: bool, form: PathForm) -> Result<Self, Refusal> {
        let Parts { method, uri, version, mut headers, .. } = head;
        if method == Method::CONNECT || method == Method::TRACE || !is_in_capitals(&method) {
            return Err(Refusal::Method);
        }
        check_framing(&headers)?;
        if version >= Version::HTTP_2 && headers.values().any(has_blank_ends) {
            return Err(Refusal::Blank);
        }
        let (host, authority) = host(&uri, &headers, is_tls)?;
        let (target, judged) = one_form(&uri, form)?;
        let is_http1 = version < Version::HTTP_2;
        let is_websocket = version == Version::HTTP_11 && asks_for_websocket(&method, &headers);
        let takes_trailers =
            headers::tokens(&headers, &header::TE).any(|word| word.eq_ignore_ascii_case(b"trailers"));
        headers::remove_those_of_connection(&mut headers);
        headers::remove_ambiguous(&mut headers);
        headers.remove(header::EXPECT);
        headers.remove(header::HOST);
        headers::join_cookies(&mut headers);
        Ok(Self { method, target, judged, host, authority, headers, is_http1, is_websocket, takes_trailers })
    }

    /// The path, as it is judged.
    #[must_use]
    pub fn path(&self) -> &str {
        self.judged.as_deref().unwrap_or_else(|| self.target.path())
    }
}

/// Some servers take `post` for `POST`, and all methods that there are have capitals.
fn is_in_capitals(method: &Method) -> bool {
    let is_plain =
        |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_');
    method.as_str().bytes().all(is_plain)
}

/// Whether a value has blanks around it, which only HTTP/2 could carry (RFC 9113, section 8.2.1). Behind HTTP/1 it
/// would be another one than was judged.
fn has_blank_ends(value: &HeaderValue) -> bool {
    let is_blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    is_blank(value.as_bytes().first()) || is_blank(value.as_bytes().last())
}

fn check_framing(headers: &HeaderMap) -> Result<(), Refusal> {
    let all = |name, word: &[u8]| {
        headers.get_all(name).iter().all(|value| value.as_bytes().eq_ignore_ascii_case(word))
    };
    if !all(header::EXPECT, b"100-continue") {
        return Err(Refusal::Expectation);
    }
    let codings = headers.get_all(header::TRANSFER_ENCODING).iter().count();
    if codings > 1 || !all(header::TRANSFER_ENCODING, b"chunked") {
        return Err(Refusal::Coding);
    }
    Ok(())
}

/// The host in its one form: alone, and with a port unless it is the usual one.
fn host(uri: &Uri, headers: &HeaderMap, is_tls: bool) -> Result<(String, HeaderValue), Refusal> {
    let mut named = headers.get_all(header::HOST).iter();
    let written = named.next();
    let in_header = written.map(|value| parse_host(value.as_bytes(), is_tls)).transpose()?;
    if named.next().is_some() {
        return Err(Refusal::Hosts);
    }
    let in_target = uri.authority().map(|name| parse_host(name.as_str().as_bytes(), is_tls)).transpose()?;
    let host = match (in_target, in_header) {
        (Some(one), Some(other)) if one != other => return Err(Refusal::Hosts),
        (one, other) => one.or(other).ok_or(Refusal::NoHost)?,
    };
    let (host, port) = host;
    let written = written.map(HeaderValue::as_bytes).or(uri.authority().map(|name| name.as_str().as_bytes()));
    let authority = match (written, port) {
        (Some(written), _) if is_written(written, &host, port) => HeaderValue::from_bytes(written),
        (_, None) => HeaderValue::from_str(&host),
        (_, Some(port)) => HeaderValue::from_str(&format!("{host}:{port}")),
    };
    Ok((host, authority.map_err(|_| Refusal::Host(AuthorityError::Host))?))
}

fn parse_host(text: &[u8], is_tls: bool) -> Result<(String, Option<u16>), Refusal> {
    let authority = Authority::parse(text).map_err(Refusal::Host)?;
    let usual = if is_tls { 443 } else { 80 };
    Ok((authority.host().to_owned(), authority.port().filter(|port| *port != usual)))
}

/// Whether the text of which these came is written as they are.
fn is_written(text: &[u8], host: &str, port: Option<u16>) -> bool {
    match (text.strip_prefix(host.as_bytes()), port) {
        (Some(rest), None) => rest.is_empty(),
        (Some([b':', first, rest @ ..]), Some(_)) => *first != b'0' || rest.is_empty(),
        _ => false,
    }
}

/// Path and query as they are passed on, and the path as it is judged, if that is another one.
fn one_form(uri: &Uri, form: PathForm) -> Result<(PathAndQuery, Option<String>), Refusal> {
    let Some(whole) = uri.path_and_query() else { return Ok((PathAndQuery::from_static("/"), None)) };
    let target = RequestTarget::parse(whole.as_str().as_bytes(), form).map_err(Refusal::Target)?;
    let forwarded = match target.forwarded() {
        // The target of `http://shop#` shows as this, and is written as nothing.
        "/" => PathAndQuery::from_static("/"),
        as_written if as_written == whole.as_str() => whole.clone(),
        other => other.parse().map_err(|_| Refusal::Target(TargetError::Control))?,
    };
    let judged = Some(target.path()).filter(|path| *path != forwarded.path()).map(str::to_owned);
    Ok((forwarded, judged))
}

fn asks_for_websocket(method: &Method, headers: &HeaderMap) -> bool {
    let mut upgrades = headers::tokens(headers, &header::UPGRADE);
    let is_websocket = upgrades.next().is_some_and(|name| name.eq_ignore_ascii_case(b"websocket"));
    let is_only = upgrades.next().is_none();
    let is_told =
        headers::tokens(headers, &header::CONNECTION).any(|name| name.eq_ignore_ascii_case(b"upgrade"));
    *method == Method::GET && is_websocket && is_only && is_told
}

#[cfg(test)]
mod tests {
    //! What is refused, and what is passed on of the rest.

    use super::*;
    use crate::policy::application::target::EscapedSlashes;

    fn asked(method: &str, target: &str, lines: &[(&str, &str)]) -> Result<ProxyRequest, Refusal> {
        let mut request = http::Request::builder().method(method).uri(target);
        for (name, value) in lines {
            request = request.header(*name, *value);
        }
        let form = PathForm { escaped_slashes: EscapedSlashes::Keep, ..PathForm::default() };
        ProxyRequest::new(request.body(()).unwrap().into_parts().0, false, form)
    }

    #[test]
    fn a_request_is_for_one_host() {
        for (target, hosts, expected) in [
            ("/", &["shop.example"][..], Ok("shop.example")),
            ("/", &["Shop.Example.:80"], Ok("shop.example")),
            ("/", &["shop.example:8000"], Ok("shop.example:8000")),
            ("/", &["shop.example:08000"], Ok("shop.example:8000")),
            ("/", &["[2001:DB8::1]:81"], Ok("[2001:db8::1]:81")),
            ("http://shop.example/", &["shop.example"], Ok("shop.example")),
            ("http://shop.example/", &[], Ok("shop.example")),
            ("http://shop.example/", &["other"], Err(Refusal::Hosts)),
            ("http://me@shop.example/", &[], Err(Refusal::Host(AuthorityError::Host))),
            ("/", &[], Err(Refusal::NoHost)),
            ("/", &["a", "a"], Err(Refusal::Hosts)),
            ("/", &["a, b"], Err(Refusal::Host(AuthorityError::Host))),
            ("/", &["a/b"], Err(Refusal::Host(AuthorityError::Host))),
            ("/", &["a@b"], Err(Refusal::Host(AuthorityError::Host))),
            ("/", &["a:b"], Err(Refusal::Host(AuthorityError::Port))),
            ("/", &["a:99999"], Err(Refusal::Host(AuthorityError::Port))),
            ("/", &["[::1"], Err(Refusal::Host(AuthorityError::Host))),
            ("/", &[""], Err(Refusal::Host(AuthorityError::Length))),
        ] {
            let lines: Vec<_> = hosts.iter().map(|host| ("host", *host)).collect();
            let authority =
                asked("GET", target, &lines).map(|asked| asked.authority.to_str().unwrap().to_owned());
            assert_eq!(authority.as_deref(), expected.as_ref().map(|host| *host), "{target} {hosts:?}");
        }
    }

    #[test]
    fn what_is_judged_is_what_is_passed_on() {
        for (target, expected) in [
            ("/login", "/login"),
            ("//x/..//%6cogin?next=//a/..", "/login?next=//a/.."),
            ("/a%2fb", "/a%2Fb"),
            ("/?", "/?"),
            ("http://x//login", "/login"),
            ("http://x", "/"),
            ("http://x#/free", "/"),
        ] {
            let asked = asked("GET", target, &[("host", "x")]).unwrap();
            assert_eq!(Uri::from(asked.target.clone()).to_string(), expected, "{target}");
            assert_eq!(asked.path(), expected.split('?').next().unwrap());
        }
        assert_eq!(
            asked("OPTIONS", "*", &[("host", "x")]).unwrap_err(),
            Refusal::Target(TargetError::NoPath)
        );
    }

    #[test]
    fn what_can_be_understood_in_two_ways_is_refused() {
        for (method, lines, expected) in [
            ("CONNECT", &[][..], Refusal::Method),
            ("TRACE", &[], Refusal::Method),
            ("trace", &[], Refusal::Method),
            ("Post", &[], Refusal::Method),
            ("POST", &[("expect", "100-continue"), ("expect", "x")], Refusal::Expectation),
            ("POST", &[("expect", "200-ok")], Refusal::Expectation),
            ("POST", &[("transfer-encoding", "gzip, chunked")], Refusal::Coding),
            ("POST", &[("transfer-encoding", "chunked"), ("transfer-encoding", "chunked")], Refusal::Coding),
        ] {
            let lines = [lines, &[("host", "x")]].concat();
            assert_eq!(asked(method, "/", &lines).unwrap_err(), expected, "{method} {lines:?}");
        }
    }

    #[test]
    fn only_websockets_upgrade() {
        let ask = |upgrade: &str, connection: &str| {
            let lines = [("host", "x"), ("upgrade", upgrade), ("connection", connection)];
            asked("GET", "/", &lines).unwrap()
        };
        assert!(ask("WebSocket", "keep-alive, Upgrade").is_websocket);
        for (upgrade, connection) in
            [("h2c", "upgrade"), ("websocket, h2c", "upgrade"), ("websocket", "close")]
        {
            let asked = ask(upgrade, connection);
            assert!(!asked.is_websocket && asked.headers.is_empty(), "{upgrade} {connection}: {asked:?}");
        }
    }
}
