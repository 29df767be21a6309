//! What the stages in [`ratelimit_common::pipeline`] need of the program: its maps, its clock, its counters.

use ratelimit_common::{
    classify::{Dimension, Tables},
    lists::Listed,
    packet::{Address, Flag},
    pipeline::{
        Evaluation, FrameSize, Hooks, PacketContext, VlansAndFlags,
        bucket::{BucketOp, BucketResult},
        fast_path,
        several::{self, Settled},
        stages,
    },
    time::Now,
    wire::{CompiledRule, Globals, KeyMask},
};

use crate::{
    bans, bench, bucket,
    classify::{self, EXCEPTS, MATCHES, Maps},
    clock, dry_run,
    globals::{self, globals},
    lists, loops, stats,
    table::{self, MapSet, set},
    verified::verified_once,
};

/// The maps, the clock and the counters of the program.
#[derive(Clone, Copy)]
pub struct Program;

/// What rules match.
impl Tables for Program {
    #[inline(always)]
    fn asks(&self, dimension: Dimension) -> bool {
        MATCHES.asks(dimension)
    }

    #[inline(always)]
    fn asks_rarely(&self) -> bool {
        MATCHES.asks_rarely()
    }

    #[inline(always)]
    fn row(&self, dimension: Dimension, row: u64) -> u64 {
        MATCHES.row(dimension, row)
    }

    #[inline(always)]
    fn source(&self, address: &Address) -> u64 {
        classify::of_source(address)
    }

    #[inline(always)]
    fn destination(&self, address: &Address) -> u64 {
        classify::of_destination(address)
    }
}

impl Hooks for Program {
    type Set = MapSet;
    type Excepts = Maps<true>;

    #[inline(always)]
    fn globals<'h>(self) -> &'h Globals {
        globals()
    }

    #[inline(always)]
    fn excepts(self) -> Maps<true> {
        EXCEPTS
    }

    #[inline(always)]
    fn excepting(self, context: &PacketContext, rest: VlansAndFlags) -> u64 {
        excepting(context, rest.0)
    }

    #[inline(always)]
    fn rule<'h>(self, index: u64) -> &'h CompiledRule {
        globals::rule(index)
    }

    #[inline(always)]
    fn first_rule<'h>(self) -> &'h CompiledRule {
        globals::first_rule()
    }

    #[inline(always)]
    fn key_mask(self, rule: &CompiledRule, family: Flag) -> &KeyMask {
        globals::key_mask(rule, family)
    }

    #[inline(always)]
    fn index_of(self, bit: u64) -> u64 {
        loops::index_of(bit)
    }

    #[inline(always)]
    fn set(self, bits: u64) -> Option<MapSet> {
        set(bits & globals().set_mask)
    }

    #[inline(always)]
    fn now(self) -> Now {
        clock::now()
    }

    #[inline(always)]
    fn counts_as(self, own: &Address) -> Address {
        Address { bits: bench::source(own.bits), family: own.family }
    }

    #[inline(always)]
    fn listed(self, source: &Address) -> Listed {
        lists::find(source)
    }

    #[inline(always)]
    fn is_banned(self, source: &Address) -> bool {
        bans::contains(source)
    }

    #[inline(always)]
    fn repeat<T, F: Fn(&mut T) -> bool + Copy>(self, most: u32, carried: &mut T, turn: F) {
        loops::repeat(most, carried, turn);
    }

    #[inline(always)]
    fn attempt(self, what: BucketOp, context: &PacketContext, index: u64) -> BucketResult {
        bucket::attempt(what, context, index)
    }

    #[inline(always)]
    fn decide(self, index: u64, state: u64, now: Now, cost: u32) -> (bool, u64) {
        table::decide_under(index, state, now, cost)
    }

    #[inline(always)]
    fn charge_several(self, evaluation: &mut Evaluation) -> Settled {
        if several::are_two(evaluation.left) { charge_two(evaluation) } else { charge_several(evaluation) }
    }

    #[inline(always)]
    fn is_one_too_many(self, context: &PacketContext, index: u64) -> bool {
        is_one_too_many(context, index)
    }

    #[inline(always)]
    fn ban(self, context: &PacketContext, index: u64) {
        bans::ban(context, index);
    }

    #[inline(always)]
    fn count_rule(self, rule: &CompiledRule, dropped: bool, size: FrameSize) {
        stats::count_rule(rule, dropped, size);
    }

    #[inline(always)]
    fn count_observed(self, rule: &CompiledRule, size: FrameSize) {
        stats::count_observed(rule, size);
    }

    #[inline(always)]
    fn discount_rule(self, rule: &CompiledRule, size: FrameSize) {
        stats::discount_rule(rule, size);
    }

    #[inline(always)]
    fn on_exhausted_tries(self) {
        stats::count_table(|counters| counters.exhausted_tries += 1);
    }

    #[inline(always)]
    fn note_denied(self, rules: u64) {
        dry_run::note_denied(rules);
    }
}

verified_once! {
    fn charge_several(evaluation: &mut Evaluation) -> Settled {
        several::charge(Program, evaluation)
    } else Settled::UNUSUAL;
}

verified_once! {
    fn charge_two(evaluation: &mut Evaluation) -> Settled {
        several::charge_two(Program, evaluation)
    } else Settled::UNUSUAL;
}

verified_once! {
    fn excepting(context: &PacketContext, rest: u64) -> u64 {
        fast_path::excepting(Program, context, VlansAndFlags(rest))
    } else 0;
}

verified_once! {
    fn is_one_too_many(context: &PacketContext, index: u64) -> bool {
        stages::is_one_too_many(Program, context, index)
    } else false;
}
