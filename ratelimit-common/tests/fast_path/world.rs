//! Rules, buckets and counters in plain memory, and another processor that comes in between now and then.

use std::cell::{Cell, RefCell};

use ratelimit_common::{
    classify::{Dimension, Exceptions, Tables},
    limit::Limit,
    lists::Listed,
    packet::{Address, Flag},
    pipeline::{
        Evaluation, FrameSize, Hooks, PacketContext,
        bucket::{self, BucketOp, BucketResult},
        several::{self, Settled},
    },
    table::{self, Home, Key, LEAST_SETS, SLOTS, Tag},
    time::Now,
    wire::{CompiledRule, Conditions, Globals, KeyMask, RULE_NUMBERS},
};

/// Which path packets take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    Fast,
    Slow,
}

pub struct World {
    pub path: Path,
    pub globals: Globals,
    pub rules: Vec<CompiledRule>,
    pub now: Cell<Now>,
    pub slots: Vec<[Cell<u64>; 2]>,
    /// What each rule has passed and dropped.
    pub counters: RefCell<Vec<[i64; 3]>>,
    pub banned: RefCell<Vec<[u64; 2]>>,
    /// At which exchange of a state, counted down, another processor is at the same bucket first.
    pub other_at: Cell<u32>,
}

impl World {
    pub fn new(path: Path, globals: Globals, rules: Vec<CompiledRule>, now: Now) -> Self {
        let slots = (0..LEAST_SETS as usize * SLOTS).map(|_| [Cell::new(0), Cell::new(0)]).collect();
        let counters = RefCell::new(vec![[0; 3]; RULE_NUMBERS]);
        let (banned, other_at) = (RefCell::default(), Cell::new(0));
        Self { path, globals, rules, now: Cell::new(now), slots, counters, banned, other_at }
    }

    /// Whether the other processor has been at a bucket, of which `state` is what it found.
    fn is_other_first(&self, [key, state]: &[Cell<u64>; 2]) -> bool {
        let left = self.other_at.get();
        self.other_at.set(left.saturating_sub(1));
        let limit = Key::of_slot(key.get(), 0).and_then(|key| (&self).limit_of(key.tag()));
        let Some(limit) = limit.filter(|_| left == 1) else { return false };
        let before = state.get();
        state.set(table::decide(limit, before, self.now.get(), 1).1);
        state.get() != before
    }
}

trait Limits {
    fn limit_of(&self, tag: Tag) -> Option<&Limit>;
}

impl Limits for &World {
    fn limit_of(&self, tag: Tag) -> Option<&Limit> {
        self.rules
            .iter()
            .find(|rule| u64::from(rule.number) == CompiledRule::number_of(tag))
            .map(|rule| &rule.limit)
    }
}

#[derive(Clone, Copy)]
pub struct Set<'w>(&'w World, usize);

#[derive(Clone, Copy)]
pub struct Slot<'w>(&'w World, &'w [Cell<u64>; 2]);

impl<'w> table::Set for Set<'w> {
    type Slot = Slot<'w>;

    fn slot(self, index: usize) -> Slot<'w> {
        Slot(self.0, &self.0.slots[self.1 * SLOTS + index])
    }
}

impl table::Slot for Slot<'_> {
    fn key(self) -> u64 {
        self.1[0].get()
    }

    fn state(self) -> u64 {
        self.1[1].get()
    }

    fn swap_key(self, key: u64) {
        self.1[0].set(key);
    }

    fn replace_state(self, current: u64, new: u64) -> bool {
        let is_current = !self.0.is_other_first(self.1) && self.state() == current;
        if is_current {
            self.1[1].set(new);
        }
        is_current
    }

    fn release_state(self, new: u64) {
        self.1[1].set(new);
    }
}

impl<'w> table::Table for &'w World {
    type Set = Set<'w>;

    fn home(&self, key: &Key) -> Option<Home<Set<'w>>> {
        let set = |bits: u64| Set(self, bits as usize % LEAST_SETS as usize);
        Some(Home { first: set(key.first()), second: set(key.second()), stamp: 0 })
    }

    fn limit(&self, tag: Tag) -> Option<&Limit> {
        self.limit_of(tag)
    }

    fn on_live_eviction(&self) {}
}

/// Most of the rules in each row, by a hash.
impl Tables for &World {
    fn asks(&self, dimension: Dimension) -> bool {
        self.globals.matches.dimensions & dimension.bit() != 0
    }

    fn row(&self, dimension: Dimension, row: u64) -> u64 {
        all_in(dimension, row) & self.globals.matches.rules
    }

    fn source(&self, address: &Address) -> u64 {
        self.globals.matches.source(address, 0)
    }

    fn destination(&self, address: &Address) -> u64 {
        self.globals.matches.destination(address, 1 << 21)
    }
}

/// What rules match in a row, of all that there could be.
pub fn all_in(dimension: Dimension, row: u64) -> u64 {
    spread(row << 8 | dimension as u64)
}

/// What rules except, likewise.
#[derive(Clone, Copy)]
pub struct Excepts<'w>(&'w World);

impl Tables for Excepts<'_> {
    fn asks(&self, dimension: Dimension) -> bool {
        self.0.globals.excepts.dimensions & dimension.bit() != 0
    }

    fn row(&self, dimension: Dimension, row: u64) -> u64 {
        spread(row << 8 | dimension as u64 | 1 << 40) & self.0.globals.excepts.rules
    }

    fn source(&self, address: &Address) -> u64 {
        self.0.globals.excepts.source(address, 1 << 20)
    }

    fn destination(&self, address: &Address) -> u64 {
        self.0.globals.excepts.destination(address, 1 << 22)
    }
}

impl Exceptions for Excepts<'_> {
    fn further(&self) -> u64 {
        self.0.globals.further_excepts
    }

    fn rules_of(&self, row: u64) -> u64 {
        // As the rows of tables are: what two bits stand for is both.
        let bits = (0..8).filter(|bit| row >> bit & 1 != 0);
        bits.fold(0, |rules, bit| rules | 1 << (spread(row >> 8 << 3 | bit) % 64)) & self.0.globals.excepting
    }
}

trait Addresses {
    fn source(&self, address: &Address, seed: u64) -> u64;
    fn destination(&self, address: &Address, seed: u64) -> u64;
}

impl Addresses for Conditions {
    fn source(&self, address: &Address, seed: u64) -> u64 {
        if self.sources == [0; 2] { self.rules } else { of_address(address, seed) & self.rules }
    }

    fn destination(&self, address: &Address, seed: u64) -> u64 {
        if self.destinations == [0; 2] { self.rules } else { of_address(address, seed) & self.rules }
    }
}

fn of_address(address: &Address, seed: u64) -> u64 {
    spread(address.bits[0] ^ address.bits[1] ^ seed)
}

/// About three quarters of all bits are set.
fn spread(number: u64) -> u64 {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed | mixed.rotate_left(23)
}

impl<'w> Hooks for &'w World {
    type Set = Set<'w>;
    type Excepts = Excepts<'w>;

    fn globals<'h>(self) -> &'h Globals
    where
        Self: 'h,
    {
        &self.globals
    }

    fn excepts(self) -> Excepts<'w> {
        Excepts(self)
    }

    fn rule<'h>(self, index: u64) -> &'h CompiledRule
    where
        Self: 'h,
    {
        &self.rules[index as usize]
    }

    fn key_mask(self, rule: &CompiledRule, family: Flag) -> &KeyMask {
        &rule.masks[family as usize]
    }

    fn index_of(self, bit: u64) -> u64 {
        bit.trailing_zeros().into()
    }

    fn set(self, bits: u64) -> Option<Set<'w>> {
        Some(Set(self, bits as usize % LEAST_SETS as usize))
    }

    fn now(self) -> Now {
        self.now.get()
    }

    fn listed(self, source: &Address) -> Listed {
        match source.bits[0] >> 32 & 0xff {
            250 => Listed::Allowed,
            251 => Listed::Denied,
            _ => Listed::No,
        }
    }

    fn is_banned(self, source: &Address) -> bool {
        self.banned.borrow().contains(&source.bits)
    }

    fn repeat<T, F: Fn(&mut T) -> bool + Copy>(self, most: u32, carried: &mut T, turn: F) {
        let _ = (0..most).all(|_| turn(carried));
    }

    fn attempt(self, what: BucketOp, context: &PacketContext, index: u64) -> BucketResult {
        bucket::attempt(self, &self, what, context, index)
    }

    fn charge_several(self, evaluation: &mut Evaluation) -> Settled {
        if self.path == Path::Slow {
            Settled::UNUSUAL
        } else if several::are_two(evaluation.left) {
            several::charge_two(self, evaluation)
        } else {
            several::charge(self, evaluation)
        }
    }

    fn ban(self, context: &PacketContext, _: u64) {
        self.banned.borrow_mut().push(context.source);
    }

    fn count_rule(self, rule: &CompiledRule, dropped: bool, _: FrameSize) {
        self.counters.borrow_mut()[rule.counters as usize][usize::from(dropped)] += 1;
    }

    fn count_observed(self, rule: &CompiledRule, _: FrameSize) {
        self.counters.borrow_mut()[rule.counters as usize][2] += 1;
    }

    fn discount_rule(self, rule: &CompiledRule, _: FrameSize) {
        self.counters.borrow_mut()[rule.counters as usize][0] -= 1;
    }

    fn on_exhausted_tries(self) {
        panic!("nobody comes in between so often");
    }

    fn note_denied(self, _: u64) {}
}
