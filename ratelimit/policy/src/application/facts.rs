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

/// What a request has under a name that it may have several times. Some applications take the first of several values,
/// some the last: whoever sends another one each time must not have a limit for each.
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

    /// The value of lines of a header whose name is in lower case. What is no text counts, too: otherwise one byte
    /// would take a request out of its limits.
    pub fn of_header(name: &str, lines: impl IntoIterator<Item = &'r [u8]>) -> Self {
        let values = lines.into_iter().map(String::from_utf8_lossy);
        if name == "authorization" {
            return values.map(credentials).collect();
        }
        values.collect()
    }

    /// The value that counts among all that servers may find under one name, each with whether all of them do.
    /// Otherwise somebody would choose what is judged, and have the server take something else.
    pub(super) fn of_readings(readings: impl IntoIterator<Item = (Cow<'r, str>, bool)>) -> Self {
        let mut is_certain = false;
        let values = readings.into_iter().map(|(value, of_all)| {
            is_certain |= of_all;
            bare(value)
        });
        match values.collect() {
            Self::One(_) if !is_certain => Self::Several,
            value => value,
        }
    }
}

impl<'r> FromIterator<Cow<'r, str>> for FactValue<'r> {
    fn from_iter<I: IntoIterator<Item = Cow<'r, str>>>(values: I) -> Self {
        let mut values = values.into_iter();
        let Some(first) = values.next() else { return Self::Absent };
        if values.all(|value| value == first) { Self::One(first) } else { Self::Several }
    }
}

/// Without blanks around it, and without what follows a NUL: applications often take both off.
fn bare(value: Cow<'_, str>) -> Cow<'_, str> {
    let trimmed = value.split('\0').next().unwrap_or_default().trim_ascii();
    if trimmed.len() == value.len() { value } else { Cow::Owned(trimmed.to_owned()) }
}

/// Schemes of credentials, as most clients write them.
const SCHEMES: [&str; 6] = ["Basic", "Bearer", "Digest", "DPoP", "Negotiate", "Token"];

/// Credentials in one form: of their scheme, capitals count for nothing, nor do further blanks behind it (RFC 9110,
/// section 11.1).
fn credentials(value: Cow<'_, str>) -> Cow<'_, str> {
    let Some((scheme, rest)) = value.split_once([' ', '\t']) else { return value };
    let Some(known) = SCHEMES.iter().find(|known| known.eq_ignore_ascii_case(scheme)) else { return value };
    Cow::Owned(format!("{known} {}", rest.trim_ascii_start()))
}

/// Whether something is there under a name that is written like this: `Some(true)` if it is that name, and
/// `Some(false)` if only some servers take it for that. They pass over case, over blanks before it, and over what
/// follows a NUL or an opening bracket, and take dots and blanks in it for `_`.
pub(super) fn is_named(written: &[u8], name: &str) -> Option<bool> {
    if written == name.as_bytes() {
        return Some(true);
    }
    let has_brackets = name.contains('[');
    let is_same = taken_for(written, has_brackets).eq(taken_for(name.as_bytes(), has_brackets));
    is_same.then_some(false)
}

fn taken_for(name: &[u8], has_brackets: bool) -> impl Iterator<Item = u8> {
    let is_end = |byte: &u8| *byte == 0 || *byte == b'[' && !has_brackets;
    let end = name.iter().position(is_end).unwrap_or(name.len());
    let name = name.get(..end).unwrap_or_default().trim_ascii();
    name.iter().map(|byte| if matches!(byte, b'.' | b' ') { b'_' } else { byte.to_ascii_lowercase() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_header_are_one_value_or_several() {
        let of = |lines: &[&'static str]| {
            FactValue::of_header("x-plan", lines.iter().map(|line| line.as_bytes())).text()
        };
        assert_eq!(of(&["a"]), Some("a".into()));
        assert_eq!(of(&["a", "a"]), Some("a".into()));
        assert_eq!(of(&["a", "b"]), Some(SEVERAL_VALUES.into()));
        assert_eq!(of(&["a", ""]), Some(SEVERAL_VALUES.into()));
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn credentials_have_one_form() {
        for (lines, expected) in [
            (&["Bearer abc"][..], "Bearer abc"),
            (&["bearer abc"], "Bearer abc"),
            (&["BEARER \t abc"], "Bearer abc"),
            (&["bearer\tabc", "Bearer abc"], "Bearer abc"),
            (&["Bearer abc", "Bearer abd"], SEVERAL_VALUES),
            (&["Bearer ABC"], "Bearer ABC"),
            (&["dpop abc d"], "DPoP abc d"),
            (&["ApiKey  abc"], "ApiKey  abc"),
            (&["abc"], "abc"),
        ] {
            let value = FactValue::of_header("authorization", lines.iter().map(|line| line.as_bytes()));
            assert_eq!(value.text().as_deref(), Some(expected), "{lines:?}");
        }
        let other = FactValue::of_header("x-other", [&b"bearer abc"[..]]);
        assert_eq!(other.text().as_deref(), Some("bearer abc"));
    }

    #[test]
    fn names_are_those_that_servers_take_for_them() {
        for (written, name, expected) in [
            ("key", "key", Some(true)),
            ("KEY", "key", Some(false)),
            (" key ", "key", Some(false)),
            ("key\0x", "key", Some(false)),
            ("key[]", "key", Some(false)),
            ("key[0", "key", Some(false)),
            ("my.key", "my_key", Some(false)),
            ("my key", "my_key", Some(false)),
            ("my_key", "my.key", Some(false)),
            ("keys", "key", None),
            ("mykey", "my_key", None),
            ("[key]", "key", None),
            ("", "key", None),
            ("a[b]", "a[b]", Some(true)),
            ("A[b]", "a[b]", Some(false)),
            ("a[c]", "a[b]", None),
        ] {
            assert_eq!(is_named(written.as_bytes(), name), expected, "{written:?} {name:?}");
        }
    }
}
