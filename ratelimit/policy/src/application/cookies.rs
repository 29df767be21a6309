//! Values of cookies.

use std::borrow::Cow;

use super::{
    facts::{FactValue, is_named},
    target::unescaped,
};

impl<'r> FactValue<'r> {
    /// The value of a cookie in lines of `Cookie`. Quotes around a value and escapes in it are for transport.
    pub fn of_cookie(lines: impl IntoIterator<Item = &'r [u8]>, name: &str) -> Self {
        let pairs = lines.into_iter().flat_map(|line| line.split(|byte| *byte == b';'));
        Self::of_readings(pairs.flat_map(pieces).filter_map(|(piece, is_first)| {
            let at = piece.iter().position(|byte| *byte == b'=')?;
            let (written, value) = (piece.get(..at)?.trim_ascii(), trimmed(piece.get(at + 1..)?));
            // Escapes in names count for some servers alone.
            let is_name = match decoded(written) {
                Cow::Borrowed(written) => is_named(written, name)?,
                Cow::Owned(meant) => is_named(&meant, name).map(|_| false)?,
            };
            let value = String::from_utf8_lossy(&decoded(&unquoted(value))).into_owned();
            Some((value.into(), is_name && is_first))
        }))
    }
}

/// What servers make of that which lies between two semicolons: one pair, or several, if they take commas or blanks to
/// lie between pairs, too. The first one is there for all of them.
fn pieces(pair: &[u8]) -> impl Iterator<Item = (&[u8], bool)> {
    let mut rest = Some(pair);
    let mut is_first = true;
    std::iter::from_fn(move || {
        let whole = rest?;
        let (piece, behind) = whole.split_at_checked(end(whole)).unwrap_or((whole, b""));
        rest = Some(behind).filter(|behind| !behind.is_empty());
        Some((piece, std::mem::replace(&mut is_first, false)))
    })
}

/// Where some servers take another pair to begin.
fn end(text: &[u8]) -> usize {
    let (mut has_name, mut has_text) = (false, false);
    for (at, byte) in text.iter().enumerate() {
        // Blanks around a name, and before a value, mean nothing.
        let is_between = *byte == b',' || is_blank(*byte) && has_text;
        let after = text.get(at + 1..).unwrap_or_default();
        if is_between && begins_pair(after) {
            return at + 1;
        }
        has_text = (has_text || !is_blank(*byte)) && (has_name || *byte != b'=');
        has_name |= *byte == b'=';
    }
    text.len()
}

const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// A value without what lies around it.
fn trimmed(mut value: &[u8]) -> &[u8] {
    while let [rest @ .., b',' | b' ' | b'\t'] = value {
        value = rest;
    }
    value.trim_ascii_start()
}

/// Whether a name and an equals sign come next.
fn begins_pair(text: &[u8]) -> bool {
    let end = text.iter().position(|byte| matches!(byte, b'=' | b',' | b'"') || is_blank(*byte));
    end.is_some_and(|end| end > 0 && text.get(end) == Some(&b'='))
}

/// A value without quotes around it, and then without backslashes (RFC 2109, section 10.1.3): some servers still write
/// `\101` for `A`.
fn unquoted(value: &[u8]) -> Cow<'_, [u8]> {
    let Some(inner) = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")) else {
        return value.into();
    };
    if !inner.contains(&b'\\') {
        return inner.into();
    }
    let (mut bytes, mut rest) = (Vec::with_capacity(inner.len()), inner);
    while let Some((&byte, after)) = rest.split_first() {
        let (meant, next) = match (byte, after) {
            (b'\\', [high @ b'0'..=b'3', middle @ b'0'..=b'7', low @ b'0'..=b'7', after @ ..]) => {
                (((high - b'0') << 6) | ((middle - b'0') << 3) | (low - b'0'), after)
            }
            (b'\\', [meant, after @ ..]) => (*meant, after),
            _ => (byte, after),
        };
        bytes.push(meant);
        rest = next;
    }
    bytes.into()
}

/// Without percent escapes, which some applications take out of cookies.
fn decoded(value: &[u8]) -> Cow<'_, [u8]> {
    if !value.contains(&b'%') {
        return value.into();
    }
    let (mut bytes, mut rest) = (Vec::with_capacity(value.len()), value);
    while let Some((&byte, after)) = rest.split_first() {
        let escape = after.first_chunk().filter(|_| byte == b'%').and_then(unescaped);
        bytes.push(escape.unwrap_or(byte));
        rest = if escape.is_some() { after.get(2..).unwrap_or_default() } else { after };
    }
    bytes.into()
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
            (&["xsid=b; sidx=c"], FactValue::Absent),
            (&[], FactValue::Absent),
            // Escapes within quotes.
            (&["sid=\"\\141\""], one("a")),
            (&["sid=\"\\a\""], one("a")),
            (&["sid=\"\\\"\\400\""], one("\"400")),
            (&["sid=\\141"], one("\\141")),
            (&["sid=a%00b"], one("a")),
            (&["sid=%20a%20"], one("a")),
            (&["sid=\""], one("\"")),
            // What only some servers take for its name.
            (&["SID=a"], FactValue::Several),
            (&["%73id=a"], FactValue::Several),
            (&["sid=a; Sid=a"], one("a")),
            (&["sid=a; Sid=b"], FactValue::Several),
            // What only some servers take for a pair.
            (&["x=1, sid=a"], FactValue::Several),
            (&["x=1 sid=a"], FactValue::Several),
            (&["x, sid=a"], FactValue::Several),
            (&["x=,sid=a"], FactValue::Several),
            (&["sid=a, sid=b"], FactValue::Several),
            (&["sid=a sid=b"], FactValue::Several),
            (&["sid=a,sid=a"], one("a")),
            (&["sid=a,x=1"], one("a")),
            (&["sid=a  x=1"], one("a")),
            (&["sid=a== x=1"], one("a==")),
            (&["sid=a,, x=1"], one("a")),
            (&["sid=a,,"], one("a")),
            (&["sid=,, x=1"], one("")),
            (&["sid=a,b"], one("a,b")),
            (&["sid={\"a\":1,\"b\":2}"], one("{\"a\":1,\"b\":2}")),
            (&["sid= a=b"], one("a=b")),
            (&[" sid =a"], one("a")),
        ] {
            let value = FactValue::of_cookie(lines.iter().map(|line| line.as_bytes()), "sid");
            assert_eq!(value, expected, "{lines:?}");
        }
        assert_eq!(FactValue::of_cookie([&b"sid=\xff"[..]], "sid"), one("\u{fffd}"));
    }
}
