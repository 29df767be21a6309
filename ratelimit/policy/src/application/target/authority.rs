//! Hosts in their one form.

use std::{borrow::Cow, net::Ipv6Addr};

/// The host and port of a request that can be forwarded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authority<'r> {
    host: Cow<'r, str>,
    port: Option<u16>,
}

/// Why an authority is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthorityError {
    /// No name, or a longer one than DNS has.
    #[error("the host is empty or longer than {LONGEST} bytes")]
    Length,
    /// Neither a name nor an address.
    #[error(
        "the host is neither a name of letters, digits, `-`, `.` and `_` nor an IPv6 address in brackets"
    )]
    Host,
    /// Not a number of a port.
    #[error("the port is not a number from 0 to 65535")]
    Port,
}

/// A name in DNS has no more characters (RFC 1035, section 2.3.4).
const LONGEST: usize = 255;

/// A host in its one form: in lower case, without a port and without dots at the end. Clients write any port, and
/// gateways take a request to the same host for all of them.
#[must_use]
pub fn host(host: &str) -> String {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !is_cut(name) => name,
        _ => host,
    };
    match ipv6(name) {
        Some(address) => format!("[{address}]"),
        None => name.trim_end_matches('.').to_lowercase(),
    }
}

/// Whether what follows a colon still belongs to an IPv6 address.
fn is_cut(name: &str) -> bool {
    name.starts_with('[') && !name.ends_with(']')
}

fn ipv6(name: &str) -> Option<Ipv6Addr> {
    name.strip_prefix('[')?.strip_suffix(']')?.parse().ok()
}

impl<'r> Authority<'r> {
    /// Reads `Host` or `:authority`.
    ///
    /// # Errors
    /// It is none, or servers would understand it in different ways.
    pub fn parse(text: &'r [u8]) -> Result<Self, AuthorityError> {
        let text = str::from_utf8(text).map_err(|_| AuthorityError::Host)?;
        let (name, port) = match text.rsplit_once(':') {
            Some((name, port)) if !is_cut(name) => (name, Some(port)),
            _ => (text, None),
        };
        // In `host:`, the port is the scheme's (RFC 3986, section 3.2.3).
        let port = port.filter(|port| !port.is_empty()).map(parse_port).transpose()?;
        if let Some(address) = ipv6(name) {
            return Ok(Self { host: format!("[{address}]").into(), port });
        }
        let name = name.trim_end_matches('.');
        if name.is_empty() || name.len() > LONGEST {
            return Err(AuthorityError::Length);
        }
        if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_')) {
            return Err(AuthorityError::Host);
        }
        let is_lower = !name.bytes().any(|byte| byte.is_ascii_uppercase());
        let host = if is_lower { name.into() } else { name.to_ascii_lowercase().into() };
        Ok(Self { host, port })
    }

    /// The host in its one form.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port, if there is one.
    #[must_use]
    pub const fn port(&self) -> Option<u16> {
        self.port
    }
}

fn parse_port(text: &str) -> Result<u16, AuthorityError> {
    // `parse` alone would take `+80`.
    let port = text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
    port.ok_or(AuthorityError::Port)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_host_has_one_form() {
        for (text, expected) in [
            ("Shop.Example", "shop.example"),
            ("shop.example:443", "shop.example"),
            ("shop.example.:80", "shop.example"),
            ("shop.example.", "shop.example"),
            ("shop.example..", "shop.example"),
            ("shop.example:8443", "shop.example"),
            ("shop.example:0443", "shop.example"),
            ("shop.example.:1", "shop.example"),
            ("shop.example:", "shop.example"),
            ("shop.example:x", "shop.example:x"),
            ("[2001:DB8::80]:1", "[2001:db8::80]"),
            ("[2001:db8::80]", "[2001:db8::80]"),
            ("[2001:db8:0:0::80]", "[2001:db8::80]"),
            ("", ""),
            ("[2001:DB8::80]:80", "[2001:db8::80]"),
            ("[2001:db8::1:80]", "[2001:db8::1:80]"),
        ] {
            assert_eq!(host(text), expected, "{text}");
        }
    }

    #[test]
    fn an_authority_is_a_host_and_a_port() {
        for (text, expected) in [
            ("Shop.Example", Ok(("shop.example", None))),
            ("shop.example:8443", Ok(("shop.example", Some(8443)))),
            ("shop.example.:0080", Ok(("shop.example", Some(80)))),
            ("shop_1.example:", Ok(("shop_1.example", None))),
            ("192.0.2.1:80", Ok(("192.0.2.1", Some(80)))),
            ("[2001:DB8:0::80]:1", Ok(("[2001:db8::80]", Some(1)))),
            ("[::1]", Ok(("[::1]", None))),
            ("", Err(AuthorityError::Length)),
            (".", Err(AuthorityError::Length)),
            (":80", Err(AuthorityError::Length)),
            ("::1", Err(AuthorityError::Host)),
            ("a b", Err(AuthorityError::Host)),
            ("a/b", Err(AuthorityError::Host)),
            ("a,b", Err(AuthorityError::Host)),
            ("a@b", Err(AuthorityError::Host)),
            ("%61.example", Err(AuthorityError::Host)),
            ("b\u{fc}cher.example", Err(AuthorityError::Host)),
            ("[::1", Err(AuthorityError::Host)),
            ("[::1%25eth0]", Err(AuthorityError::Host)),
            ("[a]", Err(AuthorityError::Host)),
            ("a:+1", Err(AuthorityError::Port)),
            ("a:65536", Err(AuthorityError::Port)),
            ("a:b", Err(AuthorityError::Port)),
            ("a:1:2", Err(AuthorityError::Host)),
        ] {
            let parsed = Authority::parse(text.as_bytes());
            let parts = parsed.as_ref().map(|authority| (authority.host(), authority.port()));
            assert_eq!(parts, expected.as_ref().map(|parts| *parts), "{text}");
        }
        assert_eq!(Authority::parse(&[b'a'; 256]), Err(AuthorityError::Length));
        assert_eq!(Authority::parse(b"\xff"), Err(AuthorityError::Host));
    }

    proptest! {
        #[test]
        fn what_is_forwarded_is_what_is_judged(text in "[a-zA-Z0-9.:\\[\\]_-]{0,20}") {
            if let Ok(authority) = Authority::parse(text.as_bytes()) {
                prop_assert_eq!(authority.host(), host(&text));
                let again = Authority::parse(authority.host().as_bytes()).map(|again| again.host().to_owned());
                prop_assert_eq!(again.as_deref(), Ok(authority.host()));
            }
        }
    }
}
