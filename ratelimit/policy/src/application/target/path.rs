//! Paths in their one form (RFC 3986, section 6.2.2), for those who judge and for those who forward.

use std::{borrow::Cow, fmt::Write as _};

use super::{FactValue, parameter, relative, split};

/// What is one path and what is another, as the servers behind see it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathForm {
    /// Whether upper and lower case are the same.
    pub ignore_case: bool,
    /// What an escaped slash is.
    pub escaped_slashes: EscapedSlashes,
}

/// What `%2F` is, which some servers take for a slash and others for part of a name; and `\`, `%5C` likewise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EscapedSlashes {
    /// Part of a name.
    #[default]
    Keep,
    /// A slash.
    Decode,
    /// A reason to refuse the request, for who forwards it; else part of a name.
    Refuse,
}

/// The target of a request that can be forwarded: servers can't take it for another path than the one that is judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestTarget<'r> {
    forwarded: Cow<'r, str>,
    path: Cow<'r, str>,
}

/// Why a target is not forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// It is `*`, an authority, or nothing.
    #[error("the target does not begin with a slash")]
    NoPath,
    /// A percent sign without two hexadecimal digits.
    #[error(
        "a percent sign in the path is not followed by two hexadecimal digits; a percent sign itself is %25"
    )]
    Escape,
    /// A byte that ends texts in some servers.
    #[error("the path has a NUL in it")]
    Nul,
    /// A control character, escaped or not, or a blank that is not.
    #[error("there is a control character or a blank in the target")]
    Control,
    /// A character of which longer encodings were used to hide it.
    #[error("the path has a character in more bytes than UTF-8 uses for it")]
    Overlong,
    /// `%2F`, `%5C` or `\`.
    #[error(
        "the path has an escaped slash or a backslash, which servers understand in different ways; \
         `escaped_slashes` says what the server behind takes them for"
    )]
    Slash,
}

/// The path of a target, which may be a whole URL, in the form that is judged: without query and fragment, with slashes
/// merged and dot segments resolved, and without parameters of segments (`/a;b=c`), which many servers pass over. What
/// a segment may have as it is, is not escaped; all else is, in capitals.
#[must_use]
pub fn path(target: &[u8], form: PathForm) -> String {
    let (path, _) = split(relative(target));
    let is_absolute =
        path.is_empty() || matches!(units(path, form.escaped_slashes).next(), Some(PathUnit::Slash));
    let mut written = Written { form, is_judged: true, text: String::with_capacity(path.len()) };
    if is_absolute {
        written.resolved(path);
    } else {
        units(path, EscapedSlashes::Keep).for_each(|unit| written.push(unit));
    }
    written.text
}

impl<'r> RequestTarget<'r> {
    /// Reads the path and the query of a request.
    ///
    /// # Errors
    /// It is none, or servers would understand it in different ways.
    pub fn parse(target: &'r [u8], form: PathForm) -> Result<Self, TargetError> {
        let (path, query) = split(target);
        if !path.starts_with(b"/") {
            return Err(TargetError::NoPath);
        }
        if target.iter().any(|byte| *byte <= b' ' || *byte == 0x7F) {
            return Err(if path.contains(&0) { TargetError::Nul } else { TargetError::Control });
        }
        if let (Some(plain), true) = (plain(path), is_plain_query(query))
            && let Ok(forwarded) = str::from_utf8(target)
            && !(form.ignore_case && plain.bytes().any(|byte| byte.is_ascii_uppercase()))
            && forwarded.len() == path.len() + query.len()
        {
            return Ok(Self { forwarded: forwarded.into(), path: plain.into() });
        }
        check(path, form.escaped_slashes)?;
        let mut written = Written { form, is_judged: false, text: String::with_capacity(target.len()) };
        written.resolved(path);
        query.iter().for_each(|byte| written.push_of_query(*byte));
        let judged = self::path(path, form);
        Ok(Self { forwarded: written.text.into(), path: judged.into() })
    }

    /// Path and query for the server behind.
    #[must_use]
    pub fn forwarded(&self) -> &str {
        &self.forwarded
    }

    /// The path that is judged: that of [`Self::forwarded`] without what servers pass over.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The value of a parameter of the query, decoded.
    #[must_use]
    pub fn query(&self, name: &str) -> FactValue<'_> {
        parameter(self.forwarded.as_bytes(), name)
    }
}

/// Whether a path is in its form already, whichever it is: nothing in it is escaped, or could be taken for something
/// else.
fn plain(path: &[u8]) -> Option<&str> {
    let is_plain = |byte: &u8| is_of_segment(*byte) && *byte != b';' || *byte == b'/';
    let has_dots = |path: &[u8]| path.windows(2).any(|two| matches!(two, b"//" | b"/."));
    if !path.iter().all(is_plain) || has_dots(path) {
        return None;
    }
    str::from_utf8(path).ok()
}

fn is_plain_query(query: &[u8]) -> bool {
    query.iter().all(|byte| is_of_query(*byte))
}

/// Whether a query may have it as it is. A percent sign by itself is common there.
const fn is_of_query(byte: u8) -> bool {
    is_of_segment(byte) || matches!(byte, b'/' | b'?' | b'%' | b'[' | b']' | b'|' | b'^' | b'{' | b'}')
}

/// Refuses what servers understand in different ways.
fn check(path: &[u8], slashes: EscapedSlashes) -> Result<(), TargetError> {
    let mut before = None;
    let mut rest = path;
    while let Some((&byte, after)) = rest.split_first() {
        let (meant, is_escaped, next) = match byte {
            b'%' => {
                let digits = after.first_chunk().and_then(unescaped).ok_or(TargetError::Escape)?;
                (digits, true, after.get(2..).unwrap_or_default())
            }
            byte => (byte, false, after),
        };
        let is_slash = meant == b'\\' || meant == b'/' && is_escaped;
        if meant == 0 {
            return Err(TargetError::Nul);
        } else if meant.is_ascii_control() {
            // Expressions that are to match a whole path end before a last `%0A`, and others pass over `%09`.
            return Err(TargetError::Control);
        } else if is_slash && slashes == EscapedSlashes::Refuse {
            return Err(TargetError::Slash);
        } else if is_overlong(before, meant) {
            return Err(TargetError::Overlong);
        }
        (before, rest) = (Some(meant), next);
    }
    Ok(())
}

/// Whether two bytes begin a character in more bytes than it needs (RFC 3629, section 3).
const fn is_overlong(first: Option<u8>, second: u8) -> bool {
    match first {
        Some(0xC0 | 0xC1) => matches!(second, 0x80..=0xBF),
        Some(0xE0) => matches!(second, 0x80..=0x9F),
        Some(0xF0) => matches!(second, 0x80..=0x8F),
        _ => false,
    }
}

/// A part of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PathUnit {
    /// Between two segments.
    Slash,
    /// A byte of a segment, as it was written.
    Byte(u8),
    /// One that was escaped.
    Escaped(u8),
}

/// The parts of a path. What looks like an escape and is none is a percent sign.
fn units(path: &[u8], slashes: EscapedSlashes) -> impl Iterator<Item = PathUnit> {
    let mut rest = path;
    let is_decoded = slashes == EscapedSlashes::Decode;
    std::iter::from_fn(move || {
        let (&byte, after) = rest.split_first()?;
        let escape = if byte == b'%' { after.first_chunk().and_then(unescaped) } else { None };
        rest = if escape.is_some() { after.get(2..).unwrap_or_default() } else { after };
        Some(match (byte, escape) {
            (b'/', _) | (_, Some(b'/')) | (b'\\', _) | (_, Some(b'\\')) if is_decoded => PathUnit::Slash,
            (b'/', _) => PathUnit::Slash,
            (_, Some(meant)) => PathUnit::Escaped(meant),
            (byte, None) => PathUnit::Byte(byte),
        })
    })
}

impl PathUnit {
    /// Whether a segment's parameters begin with it.
    const fn begins_parameters(self) -> bool {
        matches!(self, Self::Byte(b';') | Self::Escaped(b';'))
    }

    const fn is_dot(self) -> bool {
        matches!(self, Self::Byte(b'.') | Self::Escaped(b'.'))
    }
}

/// A path that is being written in one of its forms.
struct Written {
    form: PathForm,
    /// Whether it is the one to judge by, else the one to forward.
    is_judged: bool,
    text: String,
}

impl Written {
    /// Writes a path without empty segments and dots. Parameters hide dots from some servers (`/..;/`) and not from
    /// others.
    fn resolved(&mut self, path: &[u8]) {
        let units: Vec<PathUnit> = units(path, self.form.escaped_slashes).collect();
        let mut kept: Vec<&[PathUnit]> = Vec::new();
        let mut is_directory = true;
        for segment in units.split(|unit| *unit == PathUnit::Slash) {
            let end = segment.iter().position(|unit| unit.begins_parameters()).unwrap_or(segment.len());
            let name = segment.get(..end).unwrap_or_default();
            let dots = name.len() <= 2 && name.iter().all(|unit| unit.is_dot());
            is_directory = dots;
            match (dots, name.len()) {
                (true, 2) => drop(kept.pop()),
                (true, _) => {}
                (false, _) if self.is_judged => kept.push(name),
                (false, _) => kept.push(segment),
            }
        }
        for segment in &kept {
            self.text.push('/');
            segment.iter().for_each(|unit| self.push(*unit));
        }
        if is_directory || kept.is_empty() {
            self.text.push('/');
        }
        let last = units.rsplit(|unit| *unit == PathUnit::Slash).next().unwrap_or_default();
        if !self.is_judged && last.first().is_some_and(|unit| unit.begins_parameters()) {
            last.iter().for_each(|unit| self.push(*unit));
        }
    }

    fn push(&mut self, unit: PathUnit) {
        let (meant, is_escaped) = match unit {
            PathUnit::Slash => return self.text.push('/'),
            PathUnit::Byte(byte) => (byte, false),
            PathUnit::Escaped(byte) => (byte, true),
        };
        let is_plain =
            if self.is_judged || !is_escaped { is_of_segment(meant) } else { is_unreserved(meant) };
        if !is_plain {
            // Writing to a string does not fail.
            let _ = write!(self.text, "%{meant:02X}");
        } else if self.form.ignore_case && self.is_judged {
            self.text.push(meant.to_ascii_lowercase().into());
        } else {
            self.text.push(meant.into());
        }
    }

    fn push_of_query(&mut self, byte: u8) {
        if is_of_query(byte) {
            self.text.push(byte.into());
        } else {
            // See above.
            let _ = write!(self.text, "%{byte:02X}");
        }
    }
}

/// The byte that two hexadecimal digits say.
pub(in crate::application) fn unescaped(digits: &[u8; 2]) -> Option<u8> {
    let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    Some((digit(digits[0])? << 4) | digit(digits[1])?)
}

/// What means the same escaped and not, to everybody (RFC 3986, section 2.3).
const fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// Whether a path's segment may have it (RFC 3986, section 3.3). Applications take what is escaped of it for the same.
const fn is_of_segment(byte: u8) -> bool {
    let is_delimiter =
        matches!(byte, b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'=');
    is_unreserved(byte) || matches!(byte, b':' | b'@') || is_delimiter
}
