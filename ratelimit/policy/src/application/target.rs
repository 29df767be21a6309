//! What of a request's target and host counts in descriptors. Gateways and applications take many ways of writing a path
//! for one, so here they are one, too: otherwise each would have a limit of its own.

use std::{borrow::Cow, fmt::Write as _};

/// The path of a target, which may be a whole URL, in its one form: without query and fragment, with slashes merged and dot
/// segments resolved (RFC 3986, section 6.2.2). What a segment may have as it is, is not escaped; all else is, in capitals.
/// An escaped slash stays one.
#[must_use]
pub fn path(target: &[u8]) -> String {
    let path = relative(target).split(|byte| matches!(byte, b'?' | b'#')).next().unwrap_or_default();
    let path = escaped(path);
    if path.starts_with('/') || path.is_empty() { resolved(&path) } else { path }
}

/// The value of a parameter of a target's query, decoded.
#[must_use]
pub fn parameter<'t>(target: &'t [u8], name: &str) -> Option<Cow<'t, str>> {
    let target = target.split(|byte| *byte == b'#').next()?;
    let (_, query) = split_at_byte(target, b'?')?;
    form_urlencoded::parse(query).find_map(|(key, value)| (key == name).then_some(value))
}

/// A host in its one form: in lower case, without a port and without a dot at the end. Clients write any port, and gateways
/// take a request to the same host for all of them.
#[must_use]
pub fn host(host: &str) -> String {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !is_cut(name) => name,
        _ => host,
    };
    name.strip_suffix('.').unwrap_or(name).to_lowercase()
}

/// Whether what follows a colon still belongs to an IPv6 address.
fn is_cut(name: &str) -> bool {
    name.starts_with('[') && !name.ends_with(']')
}

/// A target without scheme and host. One that begins with a slash has none, whatever comes later in it.
fn relative(target: &[u8]) -> &[u8] {
    if target.starts_with(b"/") {
        return target;
    }
    let Some(scheme) = target.windows(3).position(|three| three == b"://") else { return target };
    let authority = target.get(scheme + 3..).unwrap_or_default();
    let end = authority.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#'));
    end.and_then(|end| authority.get(end..)).unwrap_or_default()
}

fn split_at_byte(text: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let place = text.iter().position(|byte| *byte == at)?;
    Some((text.get(..place)?, text.get(place + 1..)?))
}

fn escaped(path: &[u8]) -> String {
    let mut written = String::with_capacity(path.len());
    let mut rest = path;
    while let Some((&byte, after)) = rest.split_first() {
        let hex = if byte == b'%' { after.first_chunk().and_then(unescaped) } else { None };
        rest = if hex.is_some() { after.get(2..).unwrap_or_default() } else { after };
        match hex.unwrap_or(byte) {
            b'/' if hex.is_none() => written.push('/'),
            meant if is_of_segment(meant) => written.push(meant.into()),
            meant => escape(&mut written, meant),
        }
    }
    written
}

fn escape(written: &mut String, byte: u8) {
    // Writing to a string does not fail.
    let _ = write!(written, "%{byte:02X}");
}

/// The byte that two hexadecimal digits say.
fn unescaped(digits: &[u8; 2]) -> Option<u8> {
    let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    Some((digit(digits[0])? << 4) | digit(digits[1])?)
}

/// Whether a path's segment may have it (RFC 3986, section 3.3). Applications take what is escaped of it for the same.
const fn is_of_segment(byte: u8) -> bool {
    let is_mark = matches!(byte, b'-' | b'.' | b'_' | b'~' | b':' | b'@');
    let is_delimiter =
        matches!(byte, b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'=');
    byte.is_ascii_alphanumeric() || is_mark || is_delimiter
}

/// A path without empty segments and dots.
fn resolved(path: &str) -> String {
    let mut segments = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            _ => segments.push(segment),
        }
    }
    let is_directory = matches!(path.rsplit('/').next(), Some("" | "." | ".."));
    let end = if is_directory && !segments.is_empty() { "/" } else { "" };
    format!("/{}{end}", segments.join("/"))
}

#[cfg(test)]
mod tests {
    //! Ways of writing what is one.

    use super::*;

    #[test]
    fn a_path_has_one_form() {
        for (target, expected) in [
            ("/login", "/login"),
            ("/login?next=http://x/home", "/login"),
            ("/login#http://x/home", "/login"),
            ("/a:b@c;d=1,e", "/a:b@c;d=1,e"),
            ("//login", "/login"),
            ("///a//b///", "/a/b/"),
            ("/./login", "/login"),
            ("/x/../login", "/login"),
            ("/../../login", "/login"),
            ("/x/%2e%2E/login", "/login"),
            ("/x//../login/.", "/login/"),
            ("/login/..", "/"),
            ("/.well-known/a..b/...", "/.well-known/a..b/..."),
            ("/%6Cogi%6e", "/login"),
            ("/a%2fb%c3%bc", "/a%2Fb%C3%BC"),
            ("/ü b", "/%C3%BC%20b"),
            ("/a%3Ab%40c%3bd%3D1%2Ce", "/a:b@c;d=1,e"),
            ("/%21%24%26%27%28%29%2A%2B", "/!$&'()*+"),
            ("/a\"<>[]\\^`{|}", "/a%22%3C%3E%5B%5D%5C%5E%60%7B%7C%7D"),
            ("/a%22%3c%3e%5b%5d%5c%5e%60%7b%7c%7d", "/a%22%3C%3E%5B%5D%5C%5E%60%7B%7C%7D"),
            ("/a%3Fb%23c", "/a%3Fb%23c"),
            ("/100%/%4/%zz/%", "/100%25/%254/%25zz/%25"),
            ("/100%25/%254/%25zz/%25", "/100%25/%254/%25zz/%25"),
            ("/%252e%252e/", "/%252e%252e/"),
            ("/", "/"),
            ("", "/"),
            ("https://shop.example/buy?y", "/buy"),
            ("https://shop.example?a=/b", "/"),
            ("https://shop.example", "/"),
            ("*", "*"),
        ] {
            assert_eq!(path(target.as_bytes()), expected, "{target}");
        }
        assert_eq!(path(b"/\xff"), "/%FF");
    }

    #[test]
    fn parameters_are_those_of_the_query() {
        for (target, expected) in [
            ("/a?page=%73tart&page=2", Some("start")),
            ("/a?x=http://y/?page=1&page=3", Some("3")),
            ("/a#?page=1", None),
            ("/a?page=1#&page=2", Some("1")),
            ("/page=1", None),
        ] {
            assert_eq!(parameter(target.as_bytes(), "page").as_deref(), expected, "{target}");
        }
    }

    #[test]
    fn a_host_has_one_form() {
        for (text, expected) in [
            ("Shop.Example", "shop.example"),
            ("shop.example:443", "shop.example"),
            ("shop.example.:80", "shop.example"),
            ("shop.example.", "shop.example"),
            ("shop.example:8443", "shop.example"),
            ("shop.example:0443", "shop.example"),
            ("shop.example.:1", "shop.example"),
            ("shop.example:", "shop.example"),
            ("shop.example:x", "shop.example:x"),
            ("[2001:DB8::80]:1", "[2001:db8::80]"),
            ("[2001:db8::80]", "[2001:db8::80]"),
            ("", ""),
            ("[2001:DB8::80]:80", "[2001:db8::80]"),
            ("[2001:db8::1:80]", "[2001:db8::1:80]"),
        ] {
            assert_eq!(host(text), expected, "{text}");
        }
    }
}
