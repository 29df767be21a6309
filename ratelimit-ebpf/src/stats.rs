//! Counters, one copy for each processor.

use core::ptr;

use aya_ebpf::{macros::map, maps::PerCpuArray};
use ratelimit_common::{
    pipeline::FrameSize,
    wire::{CompiledRule, Counter, RULE_NUMBERS, Reason, RuleCounters, Sampled, TableCounters},
};

use crate::{look_up::look_up, size};

#[map]
static REASONS: PerCpuArray<Sampled> = PerCpuArray::with_max_entries(Reason::ALL.len() as u32, 0);

#[map]
static RULE_COUNTERS: PerCpuArray<RuleCounters> = PerCpuArray::with_max_entries(RULE_NUMBERS as u32, 0);

/// Packets that each rule would have dropped while it only observed.
#[map]
static RULE_OBSERVED: PerCpuArray<Counter> = PerCpuArray::with_max_entries(RULE_NUMBERS as u32, 0);

/// Bans that each rule has made.
#[map]
static RULE_BANS: PerCpuArray<u64> = PerCpuArray::with_max_entries(RULE_NUMBERS as u32, 0);

#[map]
static TABLE_COUNTERS: PerCpuArray<TableCounters> = PerCpuArray::with_max_entries(1, 0);

/// Counts packets that came as one under the reason for their verdict; returns whether one is a sample.
#[inline(always)]
pub fn count(reason: Reason, size: FrameSize) -> bool {
    let Some(counters) = with_reason(reason) else { return false };
    add(&mut counters.count, size);
    counters.sampler.is_due(counters.count.packets)
}

/// The counters of a reason.
#[inline(always)]
pub fn with_reason(reason: Reason) -> Option<&'static mut Sampled> {
    // SAFETY: the map's own memory, which only this processor writes.
    REASONS.get_ptr_mut(reason as u32).map(|counters| unsafe { &mut *counters })
}

/// Counts packets that a rule allowed and that passed, or that it denied.
#[inline(always)]
pub fn count_rule(rule: &CompiledRule, dropped: bool, size: FrameSize) {
    if let Some(counters) = of_rule(rule) {
        add(if dropped { &mut counters.dropped } else { &mut counters.passed }, size);
    }
}

/// Counts packets that a rule would have dropped if it did not only observe.
#[inline(always)]
pub fn count_observed(rule: &CompiledRule, size: FrameSize) {
    // SAFETY: the map has such values, and this is its own memory, which only this processor writes.
    let counter = unsafe {
        look_up::<Counter>(ptr::from_ref(&RULE_OBSERVED).cast(), &rule.counters).map(|counter| &mut *counter)
    };
    if let Some(counter) = counter {
        add(counter, size);
    }
}

/// Takes back [`count_rule`] of packets that passed this rule, but not a later one.
#[inline(always)]
pub fn discount_rule(rule: &CompiledRule, size: FrameSize) {
    if let Some(counters) = of_rule(rule) {
        let (packets, bytes) = size::parts(size);
        counters.passed.packets -= packets;
        counters.passed.bytes -= bytes;
    }
}

/// Counts a ban that a rule has made.
#[inline(always)]
pub fn count_ban(rule: &CompiledRule) {
    if let Some(bans) = RULE_BANS.get_ptr_mut(rule.counters) {
        // SAFETY: the map's own memory, which only this processor writes.
        unsafe { *bans += 1 };
    }
    count_table(|counters| counters.bans_made += 1);
}

/// The counters of a rule.
#[inline(always)]
fn of_rule(rule: &CompiledRule) -> Option<&'static mut RuleCounters> {
    // SAFETY: the map has such values, and this is its own memory, which only this processor writes.
    unsafe {
        look_up::<RuleCounters>(ptr::from_ref(&RULE_COUNTERS).cast(), &rule.counters)
            .map(|counters| &mut *counters)
    }
}

#[inline(always)]
fn add(counter: &mut Counter, size: FrameSize) {
    // Taken apart here, so that it is one word until the counters are found.
    let size = size::in_order(size);
    let (packets, bytes) = size::parts(size);
    counter.packets += packets;
    counter.bytes += bytes;
}

/// Counts what happened to the table.
#[inline(always)]
pub fn count_table(event: impl FnOnce(&mut TableCounters)) {
    if let Some(counters) = TABLE_COUNTERS.get_ptr_mut(0) {
        // SAFETY: as above.
        event(unsafe { &mut *counters });
    }
}
