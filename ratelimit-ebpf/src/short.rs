//! The short way of a packet, see [`ratelimit_common::pipeline::short`], over the maps.

use aya_ebpf::{bindings::xdp_md, programs::XdpContext};
use ratelimit_common::{
    classify::{Dimension, Tables},
    lists::Listed,
    packet::{Address, Flag},
    pipeline::{Hooks, Outcome, Way, short},
    time::Now,
    wire::{Globals, KeyMask, Rule},
};

use crate::{
    bans, bench,
    classify::{self, Maps},
    clock,
    frame::XdpFrame,
    globals::{self, globals},
    lists,
    size::Size,
    stats,
    table::{Set, set},
    walk,
};

/// Judges a packet, unless it has to go the long way.
#[inline(always)]
pub fn judge(ctx: &XdpContext, size: Size) -> Outcome {
    let bytes = size.bytes();
    match globals().way {
        // No call, since that takes as long as a third of all this. There is no stack for more of them.
        SIMPLE_BY_ARRIVAL => {
            short::judge_simple::<true, _, _>(&Program, &XdpFrame::<false>::of_length(ctx, bytes))
        }
        SIMPLE => Outcome::from_number(judge_simple(ctx.ctx, bytes)),
        ANY_BY_ARRIVAL => Outcome::from_number(judge_by_arrival(ctx.ctx, bytes)),
        ANY => Outcome::from_number(judge_any(ctx.ctx, bytes)),
        _ => Outcome::UNUSUAL,
    }
}

const SIMPLE_BY_ARRIVAL: u32 = Way::SimpleByArrival as u32;
const SIMPLE: u32 = Way::Simple as u32;
const ANY_BY_ARRIVAL: u32 = Way::AnyByArrival as u32;
const ANY: u32 = Way::Any as u32;

// With symbols, so that what comes after them is verified once.

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn judge_simple(context: *mut xdp_md, bytes: u64) -> u64 {
    let frame = XdpFrame::<false>::of_length(&XdpContext::new(context), bytes);
    short::judge_simple::<false, _, _>(&Program, &frame).number()
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn judge_by_arrival(context: *mut xdp_md, bytes: u64) -> u64 {
    let frame = XdpFrame::<true>::of_length(&XdpContext::new(context), bytes);
    short::judge::<true, _, _>(&Program, &frame).number()
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn judge_any(context: *mut xdp_md, bytes: u64) -> u64 {
    let frame = XdpFrame::<true>::of_length(&XdpContext::new(context), bytes);
    short::judge::<false, _, _>(&Program, &frame).number()
}

/// The maps, the clock and the counters of the program.
struct Program;

impl Tables for Program {
    #[inline(always)]
    fn asks(&self, dimension: Dimension) -> bool {
        Maps.asks(dimension)
    }

    #[inline(always)]
    fn row(&self, dimension: Dimension, row: u64) -> u64 {
        Maps.row(dimension, row)
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
    type Set = Set;

    #[inline(always)]
    fn globals(&self) -> &Globals {
        globals()
    }

    #[inline(always)]
    fn rule(&self, index: u64) -> &Rule {
        globals::rule(index)
    }

    #[inline(always)]
    fn first_rule(&self) -> &Rule {
        globals::first_rule()
    }

    #[inline(always)]
    fn key_mask<'r>(&self, rule: &'r Rule, family: Flag) -> &'r KeyMask {
        globals::key_mask(rule, family)
    }

    #[inline(always)]
    fn index_of(&self, bit: u64) -> u64 {
        walk::index_of(bit)
    }

    #[inline(always)]
    fn set(&self, bits: u64) -> Option<Set> {
        set(bits & globals().set_mask)
    }

    #[inline(always)]
    fn now(&self) -> Now {
        clock::now()
    }

    #[inline(always)]
    fn listed(&self, source: &Address) -> Listed {
        lists::find(source)
    }

    #[inline(always)]
    fn is_banned(&self, source: &Address) -> bool {
        bans::contains(source)
    }

    #[inline(always)]
    fn count_rule(&self, counters: u64, dropped: bool, bytes: u64) {
        stats::count_rule(counters, dropped, Size(bytes));
    }

    #[inline(always)]
    fn counts_as(&self, own: &Address) -> Address {
        Address { bits: bench::source(own.bits), family: own.family }
    }
}
