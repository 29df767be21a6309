//! What of a request's target and host counts in descriptors. Gateways and applications take many ways of writing a path
//! for one, so here they are one, too: otherwise each would have a limit of its own.

use std::{borrow::Cow, fmt::Write as _};

/// The path of a target, which may be a whole URL, in its one form: without query and fragment, with slashes merged and dot
/// segments resolved (RFC 3986, section 6.2.2). Of what is escaped in it unreserved characters are not, and all others in
/// capitals; so are bytes that a path can't have.
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

/// A host in its one form: in lower case, without the port that is HTTP's or HTTPS' own, and without a dot at the end.
#[must_use]
pub fn host(host: &str) -> String {
    let name = [":80", ":443"].iter().find_map(|port| host.strip_suffix(port)).unwrap_or(host);
    name.strip_suffix('.').unwrap_or(name).to_lowercase()
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
        match hex {
            Some(meant) if !is_unreserved(meant) => escape(&mut written, meant),
            None if !(b'!'..=b'~').contains(&byte) => escape(&mut written, byte),
            meant => written.push(meant.unwrap_or(byte).into()),
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

const fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
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
            ("/100%/%4/%zz/%", "/100%/%4/%zz/%"),
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
            ("shop.example:8443", "shop.example:8443"),
            ("[2001:DB8::80]:80", "[2001:db8::80]"),
            ("[2001:db8::1:80]", "[2001:db8::1:80]"),
        ] {
            assert_eq!(host(text), expected, "{text}");
        }
    }
}
