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

/// Numbers above this are written as this: what reads JSON refuses those that are too large for a `f64`, and a client's
/// cost may be one.
const MOST: f64 = 1e300;

/// JSON with no number above [`MOST`], and none below its negative; `None` if it has no other.
pub fn bounded(text: &str) -> Option<String> {
    let mut written = String::new();
    let (mut at, mut kept) = (0, 0);
    while let Some(found) = text.get(at..).and_then(|rest| rest.find(starts_number_or_string)) {
        let start = at + found;
        let rest = &text[start..];
        if rest.starts_with('"') {
            at = start + string_length(rest);
            continue;
        }
        at = start + rest.find(|c| !is_of_number(c)).unwrap_or(rest.len());
        let Some(number) = text[start..at].parse().ok().filter(|number: &f64| number.abs() > MOST) else {
            continue;
        };
        let sign = if number < 0.0 { "-" } else { "" };
        written.extend([&text[kept..start], sign, "1e300"]);
        kept = at;
    }
    (kept > 0).then(|| written + &text[kept..])
}

fn starts_number_or_string(character: char) -> bool {
    matches!(character, '"' | '-' | '0'..='9')
}

fn is_of_number(character: char) -> bool {
    matches!(character, '0'..='9' | '+' | '-' | '.' | 'e' | 'E')
}

/// The bytes of a string that the text begins with, quotation marks included.
fn string_length(text: &str) -> usize {
    let mut bytes = text.bytes().enumerate().skip(1);
    while let Some((index, byte)) = bytes.next() {
        match byte {
            b'"' => return index + 1,
            b'\\' => drop(bytes.next()),
            _ => {}
        }
    }
    text.len()
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

    #[test]
    fn numbers_that_nothing_can_hold_are_bounded() {
        for (text, expected) in [
            ("1e999", Some("1e300")),
            ("[1, -1e999,2e400 , 3]", Some("[1, -1e300,1e300 , 3]")),
            (r#"{"\"1e999":"\\","a":1E+9999999999999999999}"#, Some(r#"{"\"1e999":"\\","a":1e300}"#)),
            (r#"["1e999", 1e299, 0e999, 1e-999, 1e, -, "ü", "1e999"#, None),
            ("1.7976931348623157e308", Some("1e300")),
            ("\"", None),
            ("", None),
        ] {
            assert_eq!(bounded(text).as_deref(), expected, "{text}");
        }
        assert_eq!(bounded(&"9".repeat(400)).as_deref(), Some("1e300"));
    }
}
