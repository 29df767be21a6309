//! The bucket table, looked at and mended from outside.

use std::sync::atomic::Ordering;

use aya::maps::Map;
use ratelimit_common::{
    algorithm,
    limit::Limit,
    table::{self, BUSY, Home, Key, SLOTS, Tag},
    time::Now,
    wire::CompiledRule,
};

use super::{
    Error,
    sets::{MappedSet, Sets},
};

/// The mapped table.
#[derive(Debug)]
pub(super) struct BucketTable(Sets);

/// No bucket is made from here, so none gives way.
impl<'b> table::Table for &'b BucketTable {
    type Set = MappedSet<'b>;

    fn home(&self, key: &Key) -> Option<Home<MappedSet<'b>>> {
        Some(Home { first: self.0.set(key.first())?, second: self.0.set(key.second())?, stamp: 0 })
    }

    fn limit(&self, _: Tag) -> Option<&Limit> {
        None
    }

    fn on_live_eviction(&self) {}
}

impl BucketTable {
    pub(super) fn map(map: &Map, sets: u32) -> Result<Self, Error> {
        Sets::map(map, sets).map(Self)
    }

    /// The state of a key's bucket; `None` if it has none.
    pub(super) fn state(&self, key: &Key) -> Option<u64> {
        // One that is being changed will be something else in a moment.
        (0..TRIES).find_map(|_| match table::state(&self, key) {
            Some(BUSY) => None,
            found => Some(found),
        })?
    }

    /// Makes a key's bucket as good as new; says whether it had one.
    pub(super) fn reset(&self, key: &Key, now: Now) -> bool {
        let is_there = self.state(key).is_some();
        is_there && (0..TRIES).any(|_| table::update(&self, key, |_| algorithm::fresh(now)))
    }

    /// Makes the buckets of those keys as good as new.
    pub(super) fn reset_all(&self, now: Now, is_meant: impl Fn(&Key) -> bool) {
        for (index, [key, _]) in (0..).zip(self.0.slots()) {
            let key = Key::of_slot(key.load(Ordering::Acquire), index / SLOTS as u64);
            if let Some(key) = key.filter(|key| is_meant(key)) {
                self.reset(&key, now);
            }
        }
    }

    /// Empties the buckets of rule numbers that no program uses.
    pub(super) fn forget(&self, numbers: &[u32]) {
        if numbers.is_empty() {
            return;
        }
        let is_forgotten = |number| numbers.iter().any(|&forgotten| u64::from(forgotten) == number);
        self.change_slots(|number| is_forgotten(number).then_some(()), |(), _| 0);
    }

    /// Makes no bucket emptier than empty, after limits have become smaller.
    pub(super) fn clamp(&self, rules: &[CompiledRule], now: Now) {
        self.change_all(rules, |rule, state| algorithm::clamp(&rule.limit, state, now));
    }

    /// Replaces the state of each bucket of these rules by what `change` makes of it.
    pub(super) fn change_all(&self, rules: &[CompiledRule], change: impl Fn(&CompiledRule, u64) -> u64) {
        let rule_of = |number| rules.iter().find(|rule| u64::from(rule.number) == number);
        self.change_slots(rule_of, change);
    }

    /// Replaces the states of the slots whose rule numbers have an owner here. Another processor may take such a slot
    /// for another bucket meanwhile, and so a state is replaced only if it is still what was seen.
    fn change_slots<O: Copy>(&self, owner: impl Fn(u64) -> Option<O>, change: impl Fn(O, u64) -> u64) {
        for (index, [key, state]) in (0..).zip(self.0.slots()) {
            for _ in 0..TRIES {
                let before = state.load(Ordering::Acquire);
                let key = Key::of_slot(key.load(Ordering::Acquire), index / SLOTS as u64);
                let number = key.map(|key| CompiledRule::number_of(key.tag()));
                let Some(owner) = number.and_then(&owner) else { break };
                // Somebody is at it.
                if before == BUSY {
                    continue;
                }
                let after = change(owner, before);
                let is_done = after == before
                    || state.compare_exchange(before, after, Ordering::AcqRel, Ordering::Relaxed).is_ok();
                if is_done {
                    break;
                }
            }
        }
    }
}

/// How often a slot may be found being changed. Each change takes some nanoseconds.
const TRIES: u32 = 1_000;

#[cfg(test)]
mod tests {
    use ratelimit_common::table::{LEAST_SETS, Secret};

    use super::*;

    #[test]
    fn what_is_forgotten_is_idle_unless_its_slot_is_being_taken_for_another_bucket() {
        let table = BucketTable(Sets::anonymous(LEAST_SETS as u32));
        let secret = Secret::new([1, 2, 3, 4].map(|word: u64| word.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        let slot = |number, identity| {
            let key = secret.key(CompiledRule::tag_of(number, 0), identity);
            let set = key.first() & (LEAST_SETS - 1);
            let slot = &table.0.slots()[set as usize * SLOTS];
            slot[0].store(key.first_word(), Ordering::Release);
            slot[1].store(900 + number, Ordering::Release);
            slot
        };
        let [gone, kept, taken] = [slot(7, 1), slot(8, 2), slot(7, 3)];
        taken[1].store(BUSY, Ordering::Release);
        table.forget(&[7]);
        let states = [gone, kept, taken].map(|slot| slot[1].load(Ordering::Acquire));
        assert_eq!(states, [0, 908, BUSY]);
    }
}
