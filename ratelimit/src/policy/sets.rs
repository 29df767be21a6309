//! Collections that can only be built if their members go together.

use std::{collections::HashMap, ops::Deref};

use super::{Interface, Prefix, Rule};

/// Interfaces, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interfaces(Vec<Interface>);

/// At most [`Rules::MOST`] rules, whose names differ.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules(Vec<Rule>);

/// Prefixes, sorted, none inside another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowList(Vec<Prefix>);

/// Why things that are each right are not right together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetError {
    /// One has the name of an earlier one.
    #[error("number {} has the same name as number {}", later + 1, earlier + 1)]
    Duplicate {
        /// The later one, from 0.
        later: usize,
        /// The earlier one, from 0.
        earlier: usize,
    },
    /// There are more than fit.
    #[error("{count} rules; at most {} are supported", Rules::MOST)]
    TooManyRules {
        /// How many there are.
        count: usize,
    },
}

impl Interfaces {
    /// Checks that no name is there twice.
    ///
    /// # Errors
    /// One is.
    pub fn new(interfaces: Vec<Interface>) -> Result<Self, SetError> {
        refuse_duplicates(interfaces.iter().map(|interface| interface.name.as_str()))?;
        Ok(Self(interfaces))
    }
}

impl Rules {
    /// The rules that a packet matches are the bits of one 64-bit word.
    pub const MOST: usize = 64;

    /// Checks that they are not too many and that no name is there twice.
    ///
    /// # Errors
    /// They are, or one is.
    pub fn new(rules: Vec<Rule>) -> Result<Self, SetError> {
        if rules.len() > Self::MOST {
            return Err(SetError::TooManyRules { count: rules.len() });
        }
        refuse_duplicates(rules.iter().map(|rule| rule.name.as_str()))?;
        Ok(Self(rules))
    }
}

impl AllowList {
    /// Any prefixes; those inside others are left out, which changes nothing.
    #[must_use]
    pub fn new(mut prefixes: Vec<Prefix>) -> Self {
        // A prefix sorts directly before all that are inside it.
        prefixes.sort_unstable();
        let mut kept: Vec<Prefix> = Vec::with_capacity(prefixes.len());
        for prefix in prefixes {
            if !kept.last().is_some_and(|last| last.contains(&prefix)) {
                kept.push(prefix);
            }
        }
        Self(kept)
    }
}

/// What occurs again, as (later, earlier) positions from 0; the earlier one is the first.
pub fn duplicates<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<(usize, usize)> {
    let mut first = HashMap::new();
    let mut found = Vec::new();
    for (index, name) in names.into_iter().enumerate() {
        let earlier = *first.entry(name).or_insert(index);
        if earlier != index {
            found.push((index, earlier));
        }
    }
    found
}

fn refuse_duplicates<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<(), SetError> {
    match duplicates(names).first() {
        Some(&(later, earlier)) => Err(SetError::Duplicate { later, earlier }),
        None => Ok(()),
    }
}

macro_rules! list_of {
    ($($set:ty => $item:ty),*) => {$(
        impl Deref for $set {
            type Target = [$item];

            fn deref(&self) -> &[$item] {
                &self.0
            }
        }

        impl<'a> IntoIterator for &'a $set {
            type Item = &'a $item;
            type IntoIter = std::slice::Iter<'a, $item>;

            fn into_iter(self) -> Self::IntoIter {
                self.0.iter()
            }
        }
    )*};
}

list_of!(Interfaces => Interface, Rules => Rule, AllowList => Prefix);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::policy::Mode;

    #[test]
    fn an_interface_is_there_once() {
        let interface = |name: &str| Interface { name: name.parse().unwrap(), mode: Mode::Auto };
        assert!(Interfaces::new(vec![interface("a"), interface("b")]).is_ok());
        let error = Interfaces::new(vec![interface("a"), interface("b"), interface("a")]).unwrap_err();
        assert_eq!(error, SetError::Duplicate { later: 2, earlier: 0 });
    }

    #[test]
    fn duplicates_name_the_first() {
        assert_eq!(duplicates(["a", "b", "a", "c", "a"]), [(2, 0), (4, 0)]);
    }

    #[test]
    fn prefixes_inside_others_are_left_out() {
        let prefixes =
            ["10.1.0.0/16", "fe80::/10", "10.0.0.0/8", "fe80::1", "11.0.0.0/8", "10.0.0.0/8", "10.0.0.0/24"];
        let list = AllowList::new(prefixes.iter().map(|text| text.parse().unwrap()).collect());
        let shown: Vec<String> = list.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["10.0.0.0/8", "11.0.0.0/8", "fe80::/10"]);
    }

    proptest! {
        #[test]
        fn an_allow_list_covers_what_its_prefixes_covered(
            networks in prop::collection::vec((0_u32..16, 24_u8..=32), 0..20),
            address in 0_u32..16,
        ) {
            let prefix = |bits: u32, length: u8| {
                let mask = u32::MAX << (32 - u32::from(length));
                Prefix::new(std::net::Ipv4Addr::from_bits(bits & mask).into(), length).unwrap()
            };
            let prefixes: Vec<Prefix> = networks.iter().map(|(bits, length)| prefix(*bits, *length)).collect();
            let host = prefix(address, 32);
            let covered = prefixes.iter().any(|network| network.contains(&host));
            let list = AllowList::new(prefixes);
            prop_assert_eq!(list.iter().filter(|network| network.contains(&host)).count(), usize::from(covered));
        }
    }
}
