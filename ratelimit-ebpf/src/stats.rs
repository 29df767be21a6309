//! Counters, one copy for each processor.

use aya_ebpf::{macros::map, maps::PerCpuArray};
use ratelimit_common::{
    pipeline::Size,
    wire::{Counter, RULE_NUMBERS, Reason, RuleCounters, Sampled, TableCounters},
};

use crate::size;

#[map]
static REASONS: PerCpuArray<Sampled> = PerCpuArray::with_max_entries(Reason::ALL.len() as u32, 0);

#[map]
static RULE_COUNTERS: PerCpuArray<RuleCounters> = PerCpuArray::with_max_entries(RULE_NUMBERS as u32, 0);

#[map]
static TABLE_COUNTERS: PerCpuArray<TableCounters> = PerCpuArray::with_max_entries(1, 0);

/// Counts packets that came as one under the reason for their verdict; returns whether one is a sample.
#[inline(always)]
pub fn count(reason: Reason, size: Size) -> bool {
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
pub fn count_rule(number: u64, dropped: bool, size: Size) {
    if let Some(counters) = RULE_COUNTERS.get_ptr_mut(number as u32) {
        // SAFETY: as above.
        let counters = unsafe { &mut *counters };
        add(if dropped { &mut counters.dropped } else { &mut counters.passed }, size);
    }
}

/// Takes back [`count_rule`] of packets that passed this rule, but not a later one.
#[inline(always)]
pub fn discount_rule(number: u64, size: Size) {
    if let Some(counters) = RULE_COUNTERS.get_ptr_mut(number as u32) {
        // SAFETY: as above.
        let passed = unsafe { &mut (*counters).passed };
        passed.packets -= size::packets(size);
        passed.bytes -= size.bytes();
    }
}

#[inline(always)]
fn add(counter: &mut Counter, size: Size) {
    // Taken apart here, so that it is one word until the counters are found.
    let size = size::in_order(size);
    counter.packets += size::packets(size);
    counter.bytes += size.bytes();
}

/// Counts what happened to the table.
#[inline(always)]
pub fn count_table(event: impl FnOnce(&mut TableCounters)) {
    if let Some(counters) = TABLE_COUNTERS.get_ptr_mut(0) {
        // SAFETY: as above.
        event(unsafe { &mut *counters });
    }
}
