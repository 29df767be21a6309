//! The bucket table over a map: an array whose values are whole sets, so that a look-up is a few instructions without a
//! lock or a call.

use core::{arch::asm, ptr};

use aya_ebpf::{bindings::BPF_F_MMAPABLE, macros::map, maps::Array};
use ratelimit_common::{
    limit::Limit,
    table::{self, Home, Key, Position, Request, Tag},
    time::{Nanos, Now},
    verifier::opaque,
    wire::{Rule, SetWords},
};

use crate::{globals, stats};

#[map]
static BUCKETS: Array<SetWords> = Array::with_max_entries(1, BPF_F_MMAPABLE);

/// The table, for the rule at an index.
pub struct Buckets(pub u64);

/// The set with this number.
#[inline(always)]
pub fn set(number: u64) -> Option<Set> {
    BUCKETS.get_ptr_mut(number as u32).map(Set::new)
}

/// Two sets by their numbers; the stamp carries these along.
#[inline(always)]
fn home(first: u64, second: u64) -> Option<Home<Set>> {
    Some(Home { first: set(first)?, second: set(second)?, stamp: first << 32 | second })
}

impl table::Table for Buckets {
    type Set = Set;

    #[inline(always)]
    fn home(&self, key: &Key) -> Option<Home<Set>> {
        let mask = globals::globals().set_mask;
        home(key.first() & mask, key.second() & mask)
    }

    #[inline(always)]
    fn limit(&self, tag: Tag) -> Option<&Limit> {
        globals::rule_numbered(Rule::number_of(tag)).map(|rule| &rule.limit)
    }

    #[inline(always)]
    fn on_live_eviction(&self) {
        stats::count_table(|counters| counters.live_evictions += 1);
    }

    #[inline(always)]
    fn nearest_to_fresh(&self, home: &Home<Set>, now: Now) -> Option<Position> {
        match nearest_to_fresh(home.stamp, now.0.0) {
            NOBODY => None,
            rank => Some(Position::of_rank(rank as usize)),
        }
    }

    #[inline(always)]
    fn decide(&self, request: &Request<'_>, state: u64) -> (bool, u64) {
        let mut after = 0;
        let allowed = decide(self.0, state, request.now.0.0, request.cost.into(), &mut after);
        (opaque(allowed) != 0, after)
    }

    #[inline(always)]
    fn share_used(&self, tag: Tag, state: u64, now: Now) -> u64 {
        share_used(tag.number().into(), state, now.0.0)
    }

    #[inline(always)]
    fn is_elsewhere(&self, home: &Home<Set>, word: u64, mine: Position) -> bool {
        is_elsewhere(home.stamp, word, mine.rank() as u64) != 0
    }
}

const NOBODY: u64 = u64::MAX;

// Functions with a symbol are verified once, whatever calls them; others once for each way to get there. They take and
// return plain numbers.

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn nearest_to_fresh(stamp: u64, now: u64) -> u64 {
    let Some(home) = home(stamp >> 32, stamp & 0xffff_ffff) else { return NOBODY };
    match table::nearest_to_fresh(&Buckets(0), &home, Now(Nanos(now))) {
        Some(position) => position.rank() as u64,
        None => NOBODY,
    }
}

/// Whether the rule at `index` allows a request; `after` becomes the state after it.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn decide(index: u64, state: u64, now: u64, cost: u64, after: *mut u64) -> u64 {
    // SAFETY: the caller's, or null, which it never is.
    let Some(after) = (unsafe { after.as_mut() }) else { return 0 };
    let limit = &globals::rule(index).limit;
    let (allowed, state) = table::decide(limit, state, Now(Nanos(now)), cost as u32);
    *after = state;
    allowed.into()
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn share_used(tag: u64, state: u64, now: u64) -> u64 {
    table::share_used(&Buckets(0), Tag::new(tag as u16), state, Now(Nanos(now)))
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn is_elsewhere(stamp: u64, word: u64, rank: u64) -> u64 {
    let Some(home) = home(stamp >> 32, stamp & 0xffff_ffff) else { return 1 };
    table::is_elsewhere(&home, word, Position::of_rank(rank as usize)).into()
}

/// A set in the map's memory.
#[derive(Clone, Copy)]
pub struct Set(*mut SetWords);

impl Set {
    /// The set that lies there, in the memory of a map.
    #[inline(always)]
    pub const fn new(words: *mut SetWords) -> Self {
        Self(words)
    }
}

impl table::Set for Set {
    type Slot = Slot;

    #[inline(always)]
    fn slot(self, index: usize) -> Slot {
        // SAFETY: a set has SLOTS slots, and the table asks for no others.
        Slot(unsafe { self.0.cast::<[u64; 2]>().add(index) })
    }

    #[inline(always)]
    fn survey(self, base: u64, present: u64) -> u64 {
        survey(self.0, base, present)
    }

    #[inline(always)]
    fn holders(self, word: u64) -> u64 {
        holders(self.0, word)
    }
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn survey(set: *mut SetWords, base: u64, present: u64) -> u64 {
    if set.is_null() { 0 } else { table::survey(Set(set), base, present) }
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn holders(set: *mut SetWords, word: u64) -> u64 {
    if set.is_null() { 0 } else { table::holders_in(Set(set), word) }
}

/// A slot in the map's memory.
#[derive(Clone, Copy)]
pub struct Slot(*mut [u64; 2]);

impl Slot {
    #[inline(always)]
    const fn key_word(self) -> *mut u64 {
        self.0.cast()
    }

    #[inline(always)]
    const fn state_word(self) -> *mut u64 {
        // SAFETY: the second of two words.
        unsafe { self.0.cast::<u64>().add(1) }
    }
}

impl table::Slot for Slot {
    #[inline(always)]
    fn key(self) -> u64 {
        // SAFETY: an aligned word of the map; volatile, so it is one load.
        unsafe { ptr::read_volatile(self.key_word()) }
    }

    #[inline(always)]
    fn state(self) -> u64 {
        // SAFETY: as above.
        unsafe { ptr::read_volatile(self.state_word()) }
    }

    #[inline(always)]
    fn swap_key(self, key: u64) {
        exchange(self.key_word(), key);
    }

    #[inline(always)]
    fn replace_state(self, current: u64, new: u64) -> bool {
        let found: u64;
        // SAFETY: compares and exchanges an aligned word of the map; a full barrier.
        unsafe {
            asm!(
                "r0 = cmpxchg_64({word} + 0, r0, {new})",
                word = in(reg) self.state_word(),
                new = in(reg) new,
                inout("r0") current => found,
                options(nostack),
            );
        }
        found == current
    }

    #[inline(always)]
    fn release_state(self, new: u64) {
        exchange(self.state_word(), new);
    }
}

#[inline(always)]
fn exchange(word: *mut u64, new: u64) {
    // SAFETY: exchanges an aligned word of the map; a full barrier.
    unsafe {
        asm!("{new} = xchg_64({word} + 0, {new})", word = in(reg) word, new = inout(reg) new => _, options(nostack))
    };
}
