//! The bucket table over a map: an array whose values are whole sets, so that a look-up is a few instructions without a
//! lock or a call.

use core::{arch::asm, ptr};

use aya_ebpf::{bindings::BPF_F_MMAPABLE, macros::map, maps::Array};
use ratelimit_common::{
    algorithm::decide_by_arrival,
    limit::{Limit, StateKind},
    table::{self, BucketRequest, Home, Key, Position, SLOTS, Slot as _, Tag},
    time::{Nanos, Now},
    wire::{CompiledRule, SetWords},
};

use crate::{
    globals, stats,
    verified::{Argument, verified_once},
};

#[map]
static BUCKETS: Array<SetWords> = Array::with_max_entries(1, BPF_F_MMAPABLE);

/// The table, for the rule at an index.
pub struct BucketMap(pub u64);

/// The set with this number.
#[inline(always)]
pub fn set(number: u64) -> Option<MapSet> {
    // SAFETY: a value of the map.
    BUCKETS.get_ptr_mut(number as u32).map(|words| unsafe { MapSet::new(words) })
}

/// Two sets by their numbers; the stamp carries these along.
#[inline(always)]
fn home(first: u64, second: u64) -> Option<Home<MapSet>> {
    Some(Home { first: set(first)?, second: set(second)?, stamp: first << 32 | second })
}

impl table::Table for BucketMap {
    type Set = MapSet;

    #[inline(always)]
    fn home(&self, key: &Key) -> Option<Home<MapSet>> {
        let mask = globals::globals().set_mask;
        home(key.first() & mask, key.second() & mask)
    }

    #[inline(always)]
    fn limit(&self, tag: Tag) -> Option<&Limit> {
        globals::rule_numbered(CompiledRule::number_of(tag)).map(|rule| &rule.limit)
    }

    #[inline(always)]
    fn on_live_eviction(&self) {
        stats::count_table(|counters| counters.live_evictions += 1);
    }

    #[inline(always)]
    fn nearest_to_fresh(&self, home: &Home<MapSet>, now: Now) -> Option<Position> {
        nearest_to_fresh(home.stamp, now.0.0)
    }

    #[inline(always)]
    fn decide(&self, request: &BucketRequest<'_>, state: u64) -> (bool, u64) {
        match request.limit.kind() {
            StateKind::ArrivalTime => decide_by_arrival(request.limit, state, request.now, request.cost),
            _ => decide_under(self.0, state, request.now, request.cost),
        }
    }

    #[inline(always)]
    fn share_used(&self, tag: Tag, state: u64, now: Now) -> u64 {
        share_used(tag.number().into(), state, now.0.0)
    }

    #[inline(always)]
    fn is_elsewhere(&self, home: &Home<MapSet>, word: u64, mine: Position) -> bool {
        is_elsewhere(home.stamp, word, mine.rank() as u64)
    }
}

verified_once! {
    fn nearest_to_fresh(stamp: u64, now: u64) -> Option<Position> {
        let home = home(stamp >> 32, stamp & 0xffff_ffff)?;
        table::nearest_to_fresh(&BucketMap(0), &home, Now(Nanos(now)))
    } else None;
}

/// Whether the rule at `index` allows a request, and the state after it.
#[inline(always)]
pub fn decide_under(index: u64, state: u64, now: Now, cost: u32) -> (bool, u64) {
    let mut after = 0;
    let allowed = decide(index, state, now.0.0, cost.into(), &mut after);
    (allowed, after)
}

verified_once! {
    /// Whether the rule at `index` allows a request; `after` becomes the state after it.
    fn decide(index: u64, state: u64, now: u64, cost: u64, after: &mut u64) -> bool {
        let limit = &globals::rule(index).limit;
        let (allowed, state) = table::decide(limit, state, Now(Nanos(now)), cost as u32);
        *after = state;
        allowed
    } else false;
}

verified_once! {
    fn share_used(tag: u64, state: u64, now: u64) -> u64 {
        table::share_used(&BucketMap(0), Tag::new(tag as u16), state, Now(Nanos(now)))
    } else 0;
}

verified_once! {
    fn is_elsewhere(stamp: u64, word: u64, rank: u64) -> bool {
        let Some(home) = home(stamp >> 32, stamp & 0xffff_ffff) else { return true };
        table::is_elsewhere(&home, word, Position::of_rank(rank as usize))
    } else true;
}

/// A set in the map's memory.
#[derive(Clone, Copy)]
pub struct MapSet(*mut SetWords);

impl MapSet {
    /// The set that lies there.
    ///
    /// # Safety
    /// It must be a value of a map, which stays as long as the program does.
    #[inline(always)]
    pub const unsafe fn new(words: *mut SetWords) -> Self {
        Self(words)
    }
}

/// Not as a reference: other processors write to it.
impl Argument for MapSet {
    type Raw = *mut SetWords;

    #[inline(always)]
    fn raw(self) -> *mut SetWords {
        self.0
    }

    #[inline(always)]
    unsafe fn from_raw(raw: *mut SetWords) -> Option<Self> {
        if raw.is_null() { None } else { Some(Self(raw)) }
    }
}

impl table::Set for MapSet {
    type Slot = MapSlot;

    #[inline(always)]
    fn slot(self, index: usize) -> MapSlot {
        // SAFETY: a set has SLOTS slots, and the table asks for no others.
        MapSlot(unsafe { self.0.cast::<[u64; 2]>().add(index) })
    }

    /// Both lines of the cache that it lies in. Nothing waits for what is read.
    #[inline(always)]
    fn touch(self) {
        let _ = (self.slot(0).key(), self.slot(SLOTS - 1).key());
    }

    #[inline(always)]
    fn survey(self, base: u64, present: u64) -> u64 {
        survey(self, base, present)
    }

    #[inline(always)]
    fn holders(self, word: u64) -> u64 {
        holders(self, word)
    }
}

verified_once! {
    fn survey(set: MapSet, base: u64, present: u64) -> u64 {
        table::survey(set, base, present)
    } else 0;
}

verified_once! {
    fn holders(set: MapSet, word: u64) -> u64 {
        table::holders_in(set, word)
    } else 0;
}

/// A slot in the map's memory.
#[derive(Clone, Copy)]
pub struct MapSlot(*mut [u64; 2]);

impl MapSlot {
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

impl table::Slot for MapSlot {
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
