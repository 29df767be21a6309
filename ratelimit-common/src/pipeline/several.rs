//! Several rules that match one packet and drop: each bucket is looked up and decided once, and only if all allow the packet,
//! what was decided is put in force, bucket by bucket.
//!
//! That is for limits that keep arrival times, and for buckets that are there and that nobody else is at; all others are
//! asked one by one.

use super::{Found, Hooks};
use crate::{algorithm::decide_by_arrival, limit::Kind, table::Place, wire::Rule};

/// The most rules for which there is room.
pub const MOST: usize = 8;

/// What came of it. A number, because functions that the kernel verifies once return nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Settled(u64);

impl Settled {
    /// All have allowed the packet and are charged and counted.
    pub const ALLOWED: Self = Self(0);
    /// The first of those that are left has denied it, and nothing was charged.
    pub const DENIED: Self = Self(1);
    /// Those that are left have not been charged, since somebody else was at the bucket of the first one.
    pub const DISTURBED: Self = Self(2);
    /// Nothing has changed, and the rules must be asked one by one.
    pub const UNUSUAL: Self = Self(3);

    /// The one with this number.
    #[must_use]
    #[inline(always)]
    pub const fn from_number(number: u64) -> Self {
        Self(number)
    }

    /// Its number.
    #[must_use]
    #[inline(always)]
    pub const fn number(self) -> u64 {
        self.0
    }
}

/// What was decided about buckets, and where they lie.
struct Decided<const N: usize> {
    places: [Place; N],
    states: [(u64, u64); N],
}

/// Asks the rules that are left, and charges them if all of them allow the packet. `N`: for how many there is room.
#[inline(always)]
pub fn charge<const N: usize, H: Hooks>(hooks: H, found: &mut Found) -> Settled {
    let rules = found.left;
    let mut decided = Decided { places: [Place::default(); N], states: [(0, 0); N] };
    let mut count = 0;
    while let (Some(place), Some(states)) = (decided.places.get_mut(count), decided.states.get_mut(count)) {
        match ask(hooks, found, next(hooks, found)) {
            Ok(what) => (*place, *states) = what,
            Err(settled) => {
                if settled == Settled::UNUSUAL {
                    found.left = rules;
                }
                return settled;
            }
        }
        count += 1;
        found.left &= found.left.wrapping_sub(1);
        if found.left == 0 {
            break;
        }
    }
    let are_all = found.left == 0;
    found.left = rules;
    if are_all { take_all(hooks, found, &decided) } else { Settled::UNUSUAL }
}

/// The first rule that is left.
#[inline(always)]
fn next<'h, H: Hooks + 'h>(hooks: H, found: &Found) -> &'h Rule {
    hooks.rule(hooks.index_of(found.left & found.left.wrapping_neg()))
}

/// Where a rule's bucket lies, and its states before and after the packet.
#[inline(always)]
fn ask<H: Hooks>(hooks: H, found: &Found, rule: &Rule) -> Result<(Place, (u64, u64)), Settled> {
    if rule.limit.kind() != Kind::ArrivalTime {
        return Err(Settled::UNUSUAL);
    }
    let request = found.subject.request(hooks, rule);
    let Some(known) = hooks.find(&request.key) else { return Err(Settled::UNUSUAL) };
    let Some(before) = known.state() else { return Err(Settled::UNUSUAL) };
    match decide_by_arrival(&rule.limit, before, request.now, request.cost) {
        (true, after) => Ok((known.place(), (before, after))),
        (false, _) => Err(Settled::DENIED),
    }
}

/// Puts what was decided in force.
#[inline(always)]
fn take_all<const N: usize, H: Hooks>(hooks: H, found: &mut Found, decided: &Decided<N>) -> Settled {
    let rules = found.left;
    for (place, &(before, after)) in decided.places.iter().zip(&decided.states) {
        let is_taken = hooks.set(place.bits()).is_some_and(|set| place.replace(set, before, after));
        if !is_taken {
            return if found.left == rules { Settled::UNUSUAL } else { Settled::DISTURBED };
        }
        let rule = next(hooks, found);
        if rule.is_first != 0 {
            hooks.count_rule(rule, false, found.subject.size);
        }
        found.left &= found.left.wrapping_sub(1);
        if found.left == 0 {
            break;
        }
    }
    Settled::ALLOWED
}
