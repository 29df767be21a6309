//! Names that can only be built if they are good.

use std::{fmt, str::FromStr};

use crate::text::is_hidden;

/// Bytes of an instance's or a rule's name at most.
const LONGEST: usize = 63;

/// Bytes of an interface's name at most (`IFNAMSIZ`, less the NUL).
const LONGEST_INTERFACE: usize = 15;

/// Why a text is not a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Nothing.
    #[error("must not be empty")]
    Empty,
    /// Too long.
    #[error("too long: {length} bytes, at most {most}")]
    TooLong {
        /// Its bytes.
        length: usize,
        /// How many there may be.
        most: usize,
    },
    /// A character that can't be in it.
    #[error("must not contain {found:?}; accepted: {accepted}")]
    Character {
        /// The first such character.
        found: char,
        /// What may be in it.
        accepted: &'static str,
    },
    /// A name that means something else.
    #[error("`.` and `..` are not names")]
    Dots,
}

/// The name of a daemon's pinned directory: letters, digits, `.`, `_`, `-`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstanceName(String);

/// The name of a network interface.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InterfaceName(String);

/// The name of a rule, as it appears in counters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleName(String);

impl Default for InstanceName {
    fn default() -> Self {
        Self("default".to_owned())
    }
}

impl FromStr for InstanceName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        // It becomes a directory of the BPF file system, which refuses dots in names.
        check(text, LONGEST, good, "letters a to z and A to Z, digits, `_`, `-`")?;
        Ok(Self(text.to_owned()))
    }
}

impl FromStr for InterfaceName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        // The kernel's rule, `dev_valid_name`; a control character would only hide in the logs.
        let good = |c: char| !c.is_whitespace() && !is_hidden(c) && !matches!(c, '/' | ':');
        check(text, LONGEST_INTERFACE, good, "anything but blanks, `/`, `:` and control characters")?;
        refuse_dots(text)?;
        Ok(Self(text.to_owned()))
    }
}

impl FromStr for RuleName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        if text.trim().is_empty() {
            return Err(NameError::Empty);
        }
        check(text, LONGEST, |c| !is_hidden(c), "anything but control characters")?;
        Ok(Self(text.to_owned()))
    }
}

fn check(
    text: &str,
    most: usize,
    good: impl Fn(char) -> bool,
    accepted: &'static str,
) -> Result<(), NameError> {
    if text.is_empty() {
        return Err(NameError::Empty);
    }
    if text.len() > most {
        return Err(NameError::TooLong { length: text.len(), most });
    }
    match text.chars().find(|c| !good(*c)) {
        Some(found) => Err(NameError::Character { found, accepted }),
        None => Ok(()),
    }
}

fn refuse_dots(text: &str) -> Result<(), NameError> {
    if matches!(text, "." | "..") { Err(NameError::Dots) } else { Ok(()) }
}

macro_rules! text_of {
    ($($name:ty),*) => {$(
        impl $name {
            /// The name.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }
    )*};
}

text_of!(InstanceName, InterfaceName, RuleName);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instance_names() {
        for good in ["default", "a", "A-1_bc", &"x".repeat(63)] {
            assert_eq!(InstanceName::from_str(good).map(|name| name.to_string()), Ok(good.to_owned()));
        }
        for bad in ["", ".", "..", "a.b", "a/b", "a b", "ä", "a\n", &"x".repeat(64)] {
            assert!(InstanceName::from_str(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn interface_names() {
        for good in ["eth0", "wlp0s20f3", "br-lan", "eth0.100", "veth@x", "fünf", "123456789012345"] {
            assert!(InterfaceName::from_str(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            ".",
            "..",
            "a/b",
            "a b",
            "a\tb",
            "eth0:1",
            "a\0",
            "a\u{a0}b",
            "a\u{202e}b",
            "1234567890123456",
        ] {
            assert!(InterfaceName::from_str(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn rule_names() {
        for good in ["every-source", "SYN to 80/443", "größe", &"x".repeat(63)] {
            assert!(RuleName::from_str(good).is_ok(), "{good}");
        }
        for bad in ["", "  ", "a\nb", "a\u{1b}[0m", "a\u{85}", "a\u{202e}b", &"ü".repeat(32)] {
            assert!(RuleName::from_str(bad).is_err(), "{bad:?}");
        }
    }
}
