//! Text that comes from outside, such as names of files and keys: what in it could deceive a reader, and how it is
//! shown.

use std::{
    fmt::{self, Write as _},
    net::IpAddr,
};

/// Whether a character does something to a terminal or to the order of what is read, instead of being seen: controls,
/// line breaks, and those that turn the direction of writing.
#[must_use]
pub fn is_hidden(character: char) -> bool {
    let turns = matches!(character, '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    character.is_control() || turns || matches!(character, '\u{2028}' | '\u{2029}')
}

/// An address as text. The formatter takes several times as long, and each request has such an address.
#[must_use]
pub fn of_address(address: IpAddr) -> String {
    let IpAddr::V4(address) = address else { return address.to_string() };
    let mut text = String::with_capacity("255.255.255.255".len());
    for (place, octet) in address.octets().into_iter().enumerate() {
        if place > 0 {
            text.push('.');
        }
        for (unit, least) in [(100, 100), (10, 10), (1, 0)] {
            if octet >= least {
                text.push(char::from(b'0' + octet / unit % 10));
            }
        }
    }
    text
}

/// Shows text in one line, with what is hidden in it as escapes.
#[derive(Debug)]
pub struct Shown<T>(pub T);

impl<T: fmt::Display> fmt::Display for Shown<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaping { to: f, keeps_lines: false }, "{}", self.0)
    }
}

/// The same for text of several lines.
#[derive(Debug)]
pub struct ShownLines<T>(pub T);

impl<T: fmt::Display> fmt::Display for ShownLines<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaping { to: f, keeps_lines: true }, "{}", self.0)
    }
}

/// The same for what is text at best.
#[derive(Debug)]
pub struct ShownBytes<'b>(pub &'b [u8]);

impl fmt::Display for ShownBytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            write!(f, "{}{}", Shown(chunk.valid()), chunk.invalid().escape_ascii())?;
        }
        Ok(())
    }
}

struct Escaping<'t, 'f> {
    to: &'t mut fmt::Formatter<'f>,
    keeps_lines: bool,
}

impl fmt::Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let is_escaped = |c: char| is_hidden(c) && !(self.keeps_lines && c == '\n');
        let mut rest = text;
        while let Some(index) = rest.find(is_escaped) {
            let (before, after) = rest.split_at(index);
            self.to.write_str(before)?;
            let mut characters = after.chars();
            if let Some(hidden) = characters.next() {
                write!(self.to, "{}", hidden.escape_default())?;
            }
            rest = characters.as_str();
        }
        self.to.write_str(rest)
    }
}

/// Bytes of a name that answers show: proxies refuse answers with long headers, and let requests pass then; and a body
/// can be about thousands of descriptors with one name.
pub const MOST_NAME: usize = 128;

/// What answers show of a name.
#[must_use]
pub fn beginning(name: &str) -> &str {
    &name[..name.floor_char_boundary(MOST_NAME)]
}

/// A number with commas between thousands.
#[derive(Debug)]
pub struct Thousands(pub u64);

impl fmt::Display for Thousands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        for (index, digit) in digits.chars().enumerate() {
            if index > 0 && (digits.len() - index).is_multiple_of(3) {
                f.write_char(',')?;
            }
            f.write_char(digit)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_hidden_is_shown() {
        for (text, expected) in [
            ("größe `a` 'b' \\", "größe `a` 'b' \\"),
            ("a\u{1b}[31mb\n\t", "a\\u{1b}[31mb\\n\\t"),
            ("\u{202e}cba\u{2069}", "\\u{202e}cba\\u{2069}"),
            ("\u{85}\u{2028}\u{7f}", "\\u{85}\\u{2028}\\u{7f}"),
        ] {
            assert_eq!(Shown(text).to_string(), expected);
            assert_eq!(ShownBytes(text.as_bytes()).to_string(), expected);
        }
        assert_eq!(ShownLines("a\nb\r\n").to_string(), "a\nb\\r\n");
        assert_eq!(ShownBytes(b"a\xff\x9bz").to_string(), "a\\xff\\x9bz");
    }

    #[test]
    fn addresses_are_written_as_the_formatter_does() {
        for octet in 0..=u8::MAX {
            let address = IpAddr::from([octet, 255 - octet, 0, octet / 10]);
            assert_eq!(of_address(address), address.to_string());
        }
        assert_eq!(of_address(IpAddr::from([0; 16])), "::");
    }

    #[test]
    fn thousands_are_set_apart() {
        for (number, expected) in
            [(0, "0"), (999, "999"), (1_000, "1,000"), (26_214_400_000, "26,214,400,000")]
        {
            assert_eq!(Thousands(number).to_string(), expected);
        }
    }
}
