//! Collections that can only be built if their members go together.

use std::{collections::HashMap, num::NonZeroU32, ops::Deref};

use ratelimit_common::limit::{Limit, LimitError};

use super::{Action, Interface, IpVersion, KeyPart, PacketRule, Prefix};

/// Interfaces, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interfaces(Vec<Interface>);

/// Rules whose names differ, and whose buckets are of at most [`PacketRules::MOST`] kinds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PacketRules {
    rules: Vec<PacketRule>,
    parts: Vec<RulePart>,
}

/// One kind of bucket of a rule. A rule has several if it has several prefix lengths, and then allows a packet if all
/// of them do.
#[derive(Clone, Debug, PartialEq)]
pub struct RulePart {
    /// Which rule's, from 0.
    pub rule: usize,
    /// Bits of the addresses; `None` if it is not about packets of this family. Meaningless for keys without lengths.
    pub ipv4: Option<u8>,
    /// See above.
    pub ipv6: Option<u8>,
    /// The rule's limit, times the factor of the length.
    pub limit: Limit,
    /// Whether it is the first one that the rule's packets meet.
    pub is_first: bool,
}

/// Prefixes, sorted, none inside another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PrefixList(Vec<Prefix>);

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
    #[error(
        "{count} rules; at most {} are supported (a rule counts once for each of its prefix lengths)",
        PacketRules::MOST
    )]
    TooManyRules {
        /// How many there are.
        count: usize,
    },
    /// More exceptions than fit.
    #[error(
        "{count} exceptions; at most {} are supported (the first of a rule counts once for each of its prefix lengths)",
        PacketRules::MOST
    )]
    TooManyExceptions {
        /// How many there are.
        count: usize,
    },
    /// A prefix length's factor makes its limit too large.
    #[error("with factor {factor}: {error}")]
    Factor {
        /// The rule, from 0.
        rule: usize,
        /// The factor.
        factor: NonZeroU32,
        /// What is wrong with the limit.
        error: LimitError,
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

impl PacketRules {
    /// The rules that a packet matches are the bits of one 64-bit word.
    pub const MOST: usize = 64;

    /// Checks that they fit together.
    ///
    /// # Errors
    /// A name is there twice, a factor is too large, or they or their exceptions are too many.
    pub fn new(rules: Vec<PacketRule>) -> Result<Self, SetError> {
        refuse_duplicates(rules.iter().map(|rule| rule.name.as_str()))?;
        let mut parts = Vec::new();
        for (index, rule) in rules.iter().enumerate() {
            parts.extend(parts_of(rule, index)?);
        }
        if parts.len() > Self::MOST {
            return Err(SetError::TooManyRules { count: parts.len() });
        }
        let first = parts.iter().filter(|part| !rules[part.rule].except.is_empty()).count();
        let further = rules.iter().map(|rule| rule.except.len().saturating_sub(1)).sum::<usize>();
        if first + further > Self::MOST {
            return Err(SetError::TooManyExceptions { count: first + further });
        }
        Ok(Self { rules, parts })
    }

    /// The kinds of buckets of all rules, in the order of these.
    #[must_use]
    pub fn parts(&self) -> &[RulePart] {
        &self.parts
    }
}

/// The first part of each family has the longest prefixes.
fn parts_of(rule: &PacketRule, index: usize) -> Result<Vec<RulePart>, SetError> {
    let (mut has_ipv4, mut has_ipv6) = (false, false);
    let part = |KeyPart { ipv4, ipv6, factor }| match rule.limit.times(factor) {
        Ok(limit) => {
            let is_first = ipv4.is_some() && !has_ipv4 || ipv6.is_some() && !has_ipv6;
            (has_ipv4, has_ipv6) = (has_ipv4 || ipv4.is_some(), has_ipv6 || ipv6.is_some());
            Ok(RulePart { rule: index, ipv4, ipv6, limit, is_first })
        }
        Err(error) => Err(SetError::Factor { rule: index, factor, error }),
    };
    rule.key.parts().into_iter().map(part).collect()
}

impl PacketRules {
    /// The same rules, but none of them drops anything.
    #[must_use]
    pub fn observing(&self) -> Self {
        let mut rules = self.clone();
        rules.rules.iter_mut().for_each(|rule| rule.action = Action::Observe);
        rules
    }
}

impl PrefixList {
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

    /// Whether it has every address of a version of IP.
    #[must_use]
    pub fn has_all_of(&self, version: IpVersion) -> bool {
        let is_of = |prefix: &&Prefix| prefix.address().is_ipv4() == (version == IpVersion::V4);
        // As none is inside another, their shares add up.
        let share = |prefix: &Prefix| 1_u128.checked_shl(127 - u32::from(prefix.len().min(127)));
        let mut shares = self.0.iter().filter(is_of).map(|prefix| share(prefix).unwrap_or_default());
        shares.try_fold(0_u128, u128::checked_add).is_none_or(|sum| sum == 1 << 127)
    }

    /// The one that all of `prefix` is inside.
    #[must_use]
    pub fn around(&self, prefix: &Prefix) -> Option<Prefix> {
        let before = self.0.get(..self.0.partition_point(|listed| listed <= prefix))?;
        before.last().copied().filter(|listed| listed.contains(prefix))
    }

    /// The first one that has an address of `prefix`.
    #[must_use]
    pub fn meeting(&self, prefix: &Prefix) -> Option<Prefix> {
        let inside = || self.0.get(self.0.partition_point(|listed| listed < prefix)).copied();
        self.around(prefix).or_else(|| inside().filter(|listed| prefix.contains(listed)))
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
    ($($set:ty, $field:tt => $item:ty),*) => {$(
        impl Deref for $set {
            type Target = [$item];

            fn deref(&self) -> &[$item] {
                &self.$field
            }
        }

        impl<'a> IntoIterator for &'a $set {
            type Item = &'a $item;
            type IntoIter = std::slice::Iter<'a, $item>;

            fn into_iter(self) -> Self::IntoIter {
                self.$field.iter()
            }
        }
    )*};
}

list_of!(Interfaces, 0 => Interface, PacketRules, rules => PacketRule, PrefixList, 0 => Prefix);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::AttachMode;

    #[test]
    fn an_interface_is_there_once() {
        let interface = |name: &str| Interface { name: name.parse().unwrap(), mode: AttachMode::Auto };
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
        let list = PrefixList::new(prefixes.iter().map(|text| text.parse().unwrap()).collect());
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
            let list = PrefixList::new(prefixes);
            prop_assert_eq!(list.iter().filter(|network| network.contains(&host)).count(), usize::from(covered));
            for length in [1, 24, 28, 30, 32] {
                let asked = prefix(address & (u32::MAX << (32 - length)), length);
                let around = list.iter().find(|network| network.contains(&asked)).copied();
                prop_assert_eq!(list.around(&asked), around);
                let inside = list.iter().find(|network| asked.contains(network)).copied();
                prop_assert_eq!(list.meeting(&asked), around.or(inside));
            }
        }
    }
}
