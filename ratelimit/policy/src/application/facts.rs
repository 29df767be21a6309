//! What is known about one request.

use std::{borrow::Cow, net::IpAddr};

/// The address of all clients together that can't be told apart.
pub const UNKNOWN_CLIENT: &str = "unknown";

/// The value of all requests together that have several values under one name.
pub const SEVERAL_VALUES: &str = "(several)";

/// What is known about one request.
pub trait Facts {
    /// The client's address, if it can be told.
    fn client_address(&self) -> Option<IpAddr>;
    /// What stands for an address that can't be told; `None` if descriptors of it are left out.
    fn unknown_client(&self) -> Option<&'static str> {
        Some(UNKNOWN_CLIENT)
    }
    /// The method.
    fn method(&self) -> Option<Cow<'_, str>>;
    /// The path in its one form, without query.
    fn path(&self) -> Option<Cow<'_, str>>;
    /// The host that is asked, in its one form.
    fn host(&self) -> Option<Cow<'_, str>>;
    /// The value of a header whose name is in lower case.
    fn header(&self, name: &str) -> FactValue<'_>;
    /// The value of a cookie.
    fn cookie(&self, name: &str) -> FactValue<'_>;
    /// The value of a parameter of the query, decoded.
    fn query(&self, name: &str) -> FactValue<'_>;
}

/// What a request has under a name that it may have several times. Some applications take the first of several values, some
/// the last: whoever sends another one each time must not have a limit for each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FactValue<'r> {
    /// Nothing.
    #[default]
    Absent,
    /// One value, maybe several times.
    One(Cow<'r, str>),
    /// Several values.
    Several,
}

impl<'r> FactValue<'r> {
    /// The value that counts.
    #[must_use]
    pub fn text(self) -> Option<Cow<'r, str>> {
        match self {
            Self::Absent => None,
            Self::One(value) => Some(value),
            Self::Several => Some(SEVERAL_VALUES.into()),
        }
    }

    /// The value of lines of a header. What is no text counts, too: otherwise one byte would take a request out of its limits.
    pub fn of_lines(lines: impl IntoIterator<Item = &'r [u8]>) -> Self {
        lines.into_iter().map(String::from_utf8_lossy).collect()
    }

    /// The value of a cookie in lines of `Cookie`. Quotes around a value and escapes in it are for transport.
    pub fn of_cookie(lines: impl IntoIterator<Item = &'r [u8]>, name: &str) -> Self {
        let pairs = lines.into_iter().flat_map(|line| line.split(|byte| *byte == b';'));
        let value = |pair: &'r [u8]| {
            let at = pair.iter().position(|byte| *byte == b'=')?;
            let (key, value) = (pair.get(..at)?, pair.get(at + 1..)?.trim_ascii());
            (key.trim_ascii() == name.as_bytes()).then(|| decoded(unquoted(value)))
        };
        pairs.filter_map(value).collect()
    }
}

impl<'r> FromIterator<Cow<'r, str>> for FactValue<'r> {
    fn from_iter<I: IntoIterator<Item = Cow<'r, str>>>(values: I) -> Self {
        let mut values = values.into_iter();
        let Some(first) = values.next() else { return Self::Absent };
        if values.all(|value| value == first) { Self::One(first) } else { Self::Several }
    }
}

fn unquoted(value: &[u8]) -> &[u8] {
    value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value)
}

/// Without percent escapes, which some applications take out of cookies.
fn decoded(value: &[u8]) -> Cow<'_, str> {
    if !value.contains(&b'%') {
        return String::from_utf8_lossy(value);
    }
    let (mut bytes, mut rest) = (Vec::with_capacity(value.len()), value);
    while let Some((&byte, after)) = rest.split_first() {
        let escape = after.first_chunk().filter(|_| byte == b'%').and_then(super::target::unescaped);
        bytes.push(escape.unwrap_or(byte));
        rest = if escape.is_some() { after.get(2..).unwrap_or_default() } else { after };
    }
    Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_has_one_value_or_several() {
        let one = |text: &'static str| FactValue::One(text.into());
        for (lines, expected) in [
            (&["sid=a"][..], one("a")),
            (&["x=1; sid=a; y=2"], one("a")),
            (&["x=1;sid = \"a\" ;y"], one("a")),
            (&["sid=%61"], one("a")),
            (&["sid=a%"], one("a%")),
            (&["sid=a=b"], one("a=b")),
            (&["sid="], one("")),
            (&["sid=a; sid=a"], one("a")),
            (&["sid=a", "x=1", "sid=\"%61\""], one("a")),
            (&["sid=a; sid=b"], FactValue::Several),
            (&["sid=a", "sid=b"], FactValue::Several),
            (&["sid=a; sid="], FactValue::Several),
            (&["sid"], FactValue::Absent),
            (&["SID=a; xsid=b; sidx=c"], FactValue::Absent),
            (&[], FactValue::Absent),
        ] {
            let value = FactValue::of_cookie(lines.iter().map(|line| line.as_bytes()), "sid");
            assert_eq!(value, expected, "{lines:?}");
        }
        assert_eq!(FactValue::of_cookie([&b"sid=\xff"[..]], "sid"), one("\u{fffd}"));
    }

    #[test]
    fn lines_of_a_header_are_one_value_or_several() {
        let of =
            |lines: &[&'static str]| FactValue::of_lines(lines.iter().map(|line| line.as_bytes())).text();
        assert_eq!(of(&["a"]), Some("a".into()));
        assert_eq!(of(&["a", "a"]), Some("a".into()));
        assert_eq!(of(&["a", "b"]), Some(SEVERAL_VALUES.into()));
        assert_eq!(of(&["a", ""]), Some(SEVERAL_VALUES.into()));
        assert_eq!(of(&[]), None);
    }
}
