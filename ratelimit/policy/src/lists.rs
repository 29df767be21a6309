//! Where the prefixes of lists come from: files, and the configuration itself.

use std::{path::PathBuf, sync::Arc};

use super::{PrefixList, RuleName};

/// The part of a list that is from one place.
#[derive(Clone, Debug, PartialEq)]
pub struct ListPart {
    /// The list.
    pub list: ListPurpose,
    /// The file; without one it is written in the configuration itself.
    pub file: Option<PathBuf>,
    /// What it has.
    pub prefixes: Arc<PrefixList>,
    /// Whether the file has become empty, so that these are from before.
    pub is_kept: bool,
}

/// What a list of prefixes is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListPurpose {
    /// Sources that are never limited.
    Allow,
    /// Sources of which everything is dropped.
    Deny,
    /// Sources that a rule is about.
    Source(RuleName),
    /// Destinations that a rule is about.
    Destination(RuleName),
    /// Sources that a rule never judges.
    ExceptSource(RuleName),
    /// Destinations that a rule never judges.
    ExceptDestination(RuleName),
}

impl ListPurpose {
    /// The key under which a configuration has it.
    #[must_use]
    pub const fn key(&self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
            Self::Source(_) => "match.source",
            Self::Destination(_) => "match.destination",
            Self::ExceptSource(_) => "except.source",
            Self::ExceptDestination(_) => "except.destination",
        }
    }

    /// The rule that it is of, if it is one's.
    #[must_use]
    pub const fn rule(&self) -> Option<&RuleName> {
        match self {
            Self::Allow | Self::Deny => None,
            Self::Source(rule)
            | Self::Destination(rule)
            | Self::ExceptSource(rule)
            | Self::ExceptDestination(rule) => Some(rule),
        }
    }
}
