//! Who has made a ban, and why.

use std::fmt;

use ratelimit_common::bans::{REASON_BYTES, TEXT_BYTES};

use super::notes::BanNote;
use crate::text::is_hidden;

/// Who has made a ban.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Maker {
    /// Nobody knows: a version that did not note it, perhaps.
    Unknown,
    /// Somebody who asked for it, by a command or at the control socket.
    Command,
    /// The rule on packets with this name; `None` if that has been gone for long.
    Rule(Option<String>),
    /// The rule on requests with this name, or the beginning of it.
    RequestRule(String),
}

/// In [`Record::maker`], besides numbers made of rules' names.
const UNKNOWN: u64 = 0;
const COMMAND: u64 = 1;
const REQUEST_RULE: u64 = 2;
/// A text is kept, too.
const HAS_TEXT: u64 = 1 << 8;
/// What those have.
pub(super) const RULE: u64 = 1 << 63;

/// Bytes of a name that are kept.
pub(super) const MOST_NAME: usize = TEXT_BYTES - REASON_BYTES - size_of::<u64>();

impl Maker {
    /// As the record has it, and whether there is a text beside it.
    pub(super) fn number(&self, has_text: bool) -> u64 {
        let flag = if has_text { HAS_TEXT } else { 0 };
        match self {
            Self::Unknown => UNKNOWN | flag,
            Self::Command => COMMAND | flag,
            Self::Rule(name) => name.as_deref().map_or(RULE, number_of),
            Self::RequestRule(_) => REQUEST_RULE | HAS_TEXT,
        }
    }

    /// Whether there is a text beside the record with this number.
    pub(super) const fn has_text(number: u64) -> bool {
        number < RULE && number & HAS_TEXT != 0
    }

    /// From a record, the names of rules that there are or were, and what else is known of the ban.
    pub(super) fn of(number: u64, names: &[String], text: Option<&BanNote>) -> Self {
        match number {
            number if number >= RULE => {
                Self::Rule(names.iter().find(|name| number_of(name) == number).cloned())
            }
            number if number & !HAS_TEXT == COMMAND => Self::Command,
            number if number & !HAS_TEXT == REQUEST_RULE => {
                Self::RequestRule(text.map_or_else(String::new, |text| text.name.clone()))
            }
            _ => Self::Unknown,
        }
    }

    /// The rule's name, if it is one.
    #[must_use]
    pub fn rule(&self) -> Option<&str> {
        match self {
            Self::Rule(name) => name.as_deref(),
            Self::RequestRule(name) => Some(name),
            Self::Unknown | Self::Command => None,
        }
    }

    /// What it is, as JSON has it.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Command => "command",
            Self::Rule(_) => "rule",
            Self::RequestRule(_) => "request_rule",
        }
    }

    /// Whether it is the rule with this name.
    #[must_use]
    pub fn is_rule(&self, name: &str) -> bool {
        match self {
            Self::RequestRule(kept) => kept == beginning(name),
            maker => maker.rule() == Some(name),
        }
    }
}

impl fmt::Display for Maker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("unknown"),
            Self::Command => f.write_str("command"),
            Self::Rule(Some(name)) => write!(f, "rule {name}"),
            Self::Rule(None) => f.write_str("a rule that is gone"),
            Self::RequestRule(name) => write!(f, "request rule {name}"),
        }
    }
}

/// The number of the rule on packets with this name: FNV-1a, of the 64 bits all but the highest, which is set. Numbers
/// of buckets are given to other rules when a rule is gone, while its bans may last.
pub(crate) fn number_of(name: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    name.bytes().fold(0xcbf2_9ce4_8422_2325, step) | RULE
}

/// What is kept of a name.
pub(super) fn beginning(name: &str) -> &str {
    &name[..name.floor_char_boundary(MOST_NAME)]
}

/// Why somebody is banned: at most 64 bytes, all of which can be seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BanReason(String);

/// Why a text is no reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BanReasonError {
    /// Too long.
    #[error("this reason has {0} bytes; at most {REASON_BYTES} are kept, so shorten it")]
    TooLong(usize),
    /// Nothing.
    #[error("the reason is empty: write one, or leave it out")]
    Empty,
    /// Line breaks and the like.
    #[error("a reason is one line of visible characters, which this is not: {0:?}")]
    Hidden(char),
}

impl std::str::FromStr for BanReason {
    type Err = BanReasonError;

    fn from_str(text: &str) -> Result<Self, BanReasonError> {
        if text.is_empty() {
            return Err(BanReasonError::Empty);
        }
        if text.len() > REASON_BYTES {
            return Err(BanReasonError::TooLong(text.len()));
        }
        text.chars()
            .find(|c| is_hidden(*c))
            .map_or_else(|| Ok(Self(text.to_owned())), |c| Err(BanReasonError::Hidden(c)))
    }
}

impl BanReason {
    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn makers_are_told_by_numbers() {
        // The bit that says of other makers that there is a text is one of a rule's number, too.
        let names = ["ssh".to_owned(), "every".to_owned()];
        assert!([0, HAS_TEXT].iter().all(|bit| names.iter().any(|name| number_of(name) & HAS_TEXT == *bit)));
        let text = BanNote { name: "d.client".to_owned(), reason: None };
        for maker in [
            Maker::Unknown,
            Maker::Command,
            Maker::Rule(Some("ssh".to_owned())),
            Maker::Rule(Some("every".to_owned())),
            Maker::RequestRule("d.client".to_owned()),
        ] {
            for has_text in [false, true] {
                let number = maker.number(has_text);
                assert_eq!(Maker::of(number, &names, Some(&text)), maker);
                let is_rule = matches!(maker, Maker::Rule(_));
                let is_request_rule = matches!(maker, Maker::RequestRule(_));
                assert_eq!(Maker::has_text(number), !is_rule && (has_text || is_request_rule));
            }
        }
        assert_eq!(Maker::of(number_of("gone"), &names, None), Maker::Rule(None));
    }

    #[test]
    fn a_rule_is_known_by_the_beginning_of_a_long_name() {
        let long = "é".repeat(200);
        let kept = Maker::RequestRule(beginning(&long).to_owned());
        assert!(kept.is_rule(&long) && !kept.is_rule("é") && beginning(&long).len() <= MOST_NAME);
        assert!(Maker::Rule(Some("syn".to_owned())).is_rule("syn"));
        assert!(!Maker::Command.is_rule("command"));
    }

    #[test]
    fn a_reason_is_short_and_seen() {
        let reason = |text: &str| text.parse::<BanReason>().map(|reason| reason.as_str().to_owned());
        assert_eq!(reason("ssh: 5 failures").unwrap(), "ssh: 5 failures");
        assert!(reason(&"a".repeat(64)).is_ok());
        assert_eq!(reason(&"é".repeat(33)), Err(BanReasonError::TooLong(66)));
        assert_eq!(reason(""), Err(BanReasonError::Empty));
        for hidden in ["a\nb", "\u{1b}[2J", "a\0", "\u{202e}x"] {
            assert!(matches!(reason(hidden), Err(BanReasonError::Hidden(_))), "{hidden:?}");
        }
    }
}
