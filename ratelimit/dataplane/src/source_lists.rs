//! What comes before the rules for a source: lists and bans in force, for those who show many sources. It needs no
//! daemon.

use ratelimit_common::lists::Listed;
use serde::Serialize;

use super::{Bans, Error, lists, pins::Pins};
use crate::policy::{InstanceName, Prefix, PrefixList};

/// Why no rule judges a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SourceList {
    /// It is on the allow list.
    Allowed,
    /// It is banned.
    Banned,
    /// It is on the deny list.
    Denied,
}

impl SourceList {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Banned => "banned",
            Self::Denied => "denied",
        }
    }
}

/// Lists and bans of an instance.
#[derive(Debug, Default)]
pub struct SourceLists {
    /// The map that the lists were read from: they are long, and as a rule the same as before.
    map: Option<u32>,
    allow: PrefixList,
    deny: PrefixList,
    bans: PrefixList,
}

impl SourceLists {
    /// With these, as they would be read.
    #[must_use]
    pub fn new(allow: Vec<Prefix>, deny: Vec<Prefix>, bans: Vec<Prefix>) -> Self {
        let [allow, deny, bans] = [allow, deny, bans].map(PrefixList::new);
        Self { map: None, allow, deny, bans }
    }

    /// Reads what is in force now.
    ///
    /// # Errors
    /// The instance is not attached, or its pins can't be used.
    pub fn update(&mut self, instance: &InstanceName) -> Result<(), Error> {
        self.bans = Bans::open(instance)?.prefixes()?;
        if let Some(words) = lists::read_unless(self.map, &Pins::new(instance)?)? {
            self.map = Some(words.map);
            (self.allow, self.deny) = (words.listed(Listed::Allowed), words.listed(Listed::Denied));
        }
        Ok(())
    }

    /// What comes before the rules for all of a prefix, the first one that does.
    #[must_use]
    pub fn of(&self, prefix: &Prefix) -> Option<SourceList> {
        [
            (&self.allow, SourceList::Allowed),
            (&self.bans, SourceList::Banned),
            (&self.deny, SourceList::Denied),
        ]
        .into_iter()
        .find_map(|(list, name)| list.around(prefix).map(|_| name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_allow_list_comes_before_bans_and_these_before_the_deny_list() {
        let prefix = |text: &str| text.parse::<Prefix>().unwrap();
        let lists = SourceLists::new(
            vec![prefix("10.0.1.0/24"), prefix("2001:db8::7")],
            vec![prefix("10.0.0.0/8")],
            vec![prefix("10.0.0.0/16"), prefix("2001:db8::/48")],
        );
        for (source, expected) in [
            ("10.0.1.7", Some(SourceList::Allowed)),
            ("10.0.2.7", Some(SourceList::Banned)),
            ("10.1.2.7", Some(SourceList::Denied)),
            ("11.1.2.7", None),
            // One of its addresses passes, the others do not.
            ("2001:db8::/64", Some(SourceList::Banned)),
            ("2001:db8::7", Some(SourceList::Allowed)),
            ("2001:db8::/32", None),
        ] {
            assert_eq!(lists.of(&prefix(source)), expected, "{source}");
        }
    }
}
