//! A body as text, whatever it is. One byte of a client's that is no text, in a body that is right otherwise, must not
//! take a request out of its limits.

use std::borrow::Cow;

/// What stands for what is no text.
const REPLACEMENT: &str = "\\ufffd";

/// A body with U+FFFD for bytes that are no UTF-8, and for escapes of JSON that are halves of a character.
pub fn of(body: &[u8]) -> Cow<'_, str> {
    // Nearly all are text, and looked at as a whole, that is seen fastest.
    match str::from_utf8(body) {
        Ok(text) => without_halves(text),
        Err(_) => Cow::Owned(without_halves(&String::from_utf8_lossy(body)).into_owned()),
    }
}

fn without_halves(text: &str) -> Cow<'_, str> {
    let mut written = String::new();
    let (mut at, mut kept) = (0, 0);
    while let Some(found) = text.get(at..).and_then(|rest| rest.find('\\')) {
        let escape = at + found;
        let (length, is_half) = match unit(text, escape) {
            None => (2, false),
            Some(0xd800..=0xdbff) if matches!(unit(text, escape + 6), Some(0xdc00..=0xdfff)) => (12, false),
            Some(unit) => (6, matches!(unit, 0xd800..=0xdfff)),
        };
        at = text.ceil_char_boundary(escape + length);
        if is_half {
            written.extend([&text[kept..escape], REPLACEMENT]);
            kept = at;
        }
    }
    if kept == 0 {
        return Cow::Borrowed(text);
    }
    written += &text[kept..];
    Cow::Owned(written)
}

/// What an escape of four hexadecimal digits says that stands there.
fn unit(text: &str, at: usize) -> Option<u16> {
    let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
    digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then(|| u16::from_str_radix(digits, 16).ok())?
}

#[cfg(test)]
mod tests {
    //! What is no text is replaced, and all else stays.

    use super::*;

    #[test]
    fn what_is_no_text_is_replaced() {
        for (body, expected) in [
            (&b"\"plain\""[..], "\"plain\""),
            (b"\"\xff\"", "\"\u{fffd}\""),
            (b"\"\\ud800\"", "\"\\ufffd\""),
            (b"\"\\uDFFF\\ud83d\\ude00\"", "\"\\ufffd\\ud83d\\ude00\""),
            (b"\"\\ud83d\\ud83d\\ude00\"", "\"\\ufffd\\ud83d\\ude00\""),
            (b"\"\\ud83dx\\n\\udc00", "\"\\ufffdx\\n\\ufffd"),
            (b"\"\\\\ud800\"", "\"\\\\ud800\""),
            (b"\"\\u00fc\\", "\"\\u00fc\\"),
            (b"\"\\u+123\\ud80", "\"\\u+123\\ud80"),
            (b"\\\xc3\xbc\\\xff", "\\ü\\\u{fffd}"),
            (b"", ""),
        ] {
            assert_eq!(of(body), expected, "{}", body.escape_ascii());
        }
        assert!(matches!(of(b"{\"a\\n\": \"\\u00fc\"}"), Cow::Borrowed(_)));
    }
}
