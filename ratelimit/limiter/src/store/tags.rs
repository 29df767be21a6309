//! Which tag a rule's buckets carry.
//!
//! A rule keeps its tag from one generation to the next, for the tag is part of its buckets' keys. There are 2,047.
//! When none is unused, that of the rule out of force for longest goes to another rule; its buckets stay apart, since
//! identities differ by rule. If more rules than tags are in force, rules with states of the same shape share one:
//! their buckets stay apart too, but when one must give way, it is judged by the wrong numbers.

use std::collections::{HashMap, HashSet};

use ratelimit_common::{
    limit::{Limit, StateKind},
    table::Tag,
    time::Nanos,
};

/// A rule and the shape of its states: what buckets belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Owner {
    /// The rule's name, hashed.
    rule: u64,
    kind: u8,
    window: Nanos,
}

impl Owner {
    pub(super) fn new(rule: u64, limit: &Limit) -> Self {
        let (kind, window) = limit.shape();
        Self { rule, kind: kind_number(kind), window }
    }

    const fn shape(&self) -> (u8, Nanos) {
        (self.kind, self.window)
    }
}

/// The same in every version, for it is in the keys of saved buckets.
const fn kind_number(kind: StateKind) -> u8 {
    kind as u8
}

/// All tags given so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Tags {
    given: HashMap<Owner, Given>,
    /// How many generations there were.
    generation: u64,
}

#[derive(Clone, Copy, Debug)]
struct Given {
    tag: Tag,
    /// The last generation that had the rule.
    generation: u64,
}

/// Tag 0 is reserved.
const MOST: usize = Tag::END as usize - 1;

impl Tags {
    /// The tags of a generation's rules.
    pub(super) fn assign(&mut self, owners: &[Owner]) -> Vec<Tag> {
        self.generation += 1;
        for owner in owners {
            if let Some(given) = self.given.get_mut(owner) {
                given.generation = self.generation;
            }
        }
        owners.iter().map(|owner| self.tag_of(owner)).collect()
    }

    /// All that was given, as numbers, to be kept elsewhere.
    pub(super) fn save(&self) -> Vec<[u64; 5]> {
        let row = |(owner, given): (&Owner, &Given)| {
            [owner.rule, owner.kind.into(), owner.window.0, given.tag.number().into(), given.generation]
        };
        self.given.iter().map(row).collect()
    }

    /// From what [`Self::save`] gave; `None` if that can't be.
    pub(super) fn restore(rows: impl IntoIterator<Item = [u64; 5]>) -> Option<Self> {
        let mut tags = Self::default();
        let mut seen = HashSet::new();
        for [rule, kind, window, tag, generation] in rows {
            let owner = Owner { rule, kind: u8::try_from(kind).ok()?, window: Nanos(window) };
            let number = u16::try_from(tag).ok().filter(|number| (1..Tag::END).contains(number))?;
            // So many generations nobody can have loaded.
            if generation > u64::MAX / 2
                || !seen.insert(number)
                || tags.given.insert(owner, Given { tag: Tag::new(number), generation }).is_some()
            {
                return None;
            }
            tags.generation = tags.generation.max(generation);
        }
        // Tags are given in order, so these are the first ones.
        let is_dense = seen.iter().all(|&number| usize::from(number) <= seen.len());
        is_dense.then_some(tags)
    }

    fn tag_of(&mut self, owner: &Owner) -> Tag {
        if let Some(given) = self.given.get(owner) {
            return given.tag;
        }
        let Some(tag) = self.unused().or_else(|| self.take_back()) else { return self.shared(owner) };
        self.given.insert(*owner, Given { tag, generation: self.generation });
        tag
    }

    fn unused(&self) -> Option<Tag> {
        // Tags are given in order, and pass from hand to hand.
        let count = self.given.len();
        (count < MOST).then(|| Tag::new(count as u16 + 1))
    }

    /// The tag of the rule out of force for longest.
    fn take_back(&mut self) -> Option<Tag> {
        let retired = self.given.iter().filter(|(_, given)| given.generation < self.generation);
        let (&owner, _) = retired.min_by_key(|(_, given)| (given.generation, given.tag.number()))?;
        self.given.remove(&owner).map(|given| given.tag)
    }

    /// A tag whose states have the same shape, if there is one.
    fn shared(&self, owner: &Owner) -> Tag {
        let mut alike: Vec<u16> = self
            .given
            .iter()
            .filter(|(other, _)| other.shape() == owner.shape())
            .map(|(_, given)| given.tag.number())
            .collect();
        alike.sort_unstable();
        let pick = |count: usize| (owner.rule % count as u64) as usize;
        match alike.len() {
            0 => Tag::new(pick(MOST) as u16 + 1),
            count => Tag::new(alike[pick(count)]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owners(rules: impl IntoIterator<Item = u64>) -> Vec<Owner> {
        rules.into_iter().map(|rule| Owner { rule, kind: 0, window: Nanos(0) }).collect()
    }

    #[test]
    fn a_rule_keeps_its_tag_whatever_comes_and_goes() {
        let mut tags = Tags::default();
        let first = tags.assign(&owners(0..10));
        assert_eq!(first, (1..=10).map(Tag::new).collect::<Vec<_>>());
        tags.assign(&owners(100..600));
        assert_eq!(tags.assign(&owners((0..10).rev())), first.into_iter().rev().collect::<Vec<_>>());
    }

    #[test]
    fn another_window_is_another_bucket() {
        let mut tags = Tags::default();
        let owner = Owner { rule: 1, kind: 2, window: Nanos(60) };
        let other = Owner { window: Nanos(61), ..owner };
        let given = tags.assign(&[owner, other]);
        assert_ne!(given[0], given[1]);
    }

    #[test]
    fn tags_of_retired_rules_are_given_again_oldest_first() {
        let mut tags = Tags::default();
        tags.assign(&owners(0..2));
        tags.assign(&owners(1..MOST as u64));
        assert_eq!(tags.assign(&owners(5000..5003)), [1, 2, 3].map(Tag::new));
        // The oldest that are not in force now: rules 3, 4 and so on, from the second generation.
        assert_eq!(tags.assign(&owners([3, 6000])), [4, 5].map(Tag::new));
    }

    #[test]
    fn more_rules_than_tags_share_those_of_their_shape() {
        let mut tags = Tags::default();
        let mut rules = owners(0..3000);
        for rule in rules.iter_mut().step_by(2) {
            rule.window = Nanos(60);
        }
        let given = tags.assign(&rules);
        assert!(given.iter().all(|tag| tag.number() > 0));
        for (index, tag) in given.iter().enumerate().skip(MOST) {
            let holder = given.iter().position(|other| other == tag).unwrap();
            assert!(holder < MOST && rules[holder].window == rules[index].window);
        }
    }
}
