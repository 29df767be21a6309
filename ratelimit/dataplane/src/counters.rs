//! Reading the program's counters: sums over all processors.

use aya::maps::{Map, MapData, PerCpuArray};
use ratelimit_common::wire::{Counter, EventCounters, Reason, RuleCounters, Sampled, TableCounters};
use serde::{Deserialize, Serialize};

use super::{
    Error, EventStatus, ProgramGeneration,
    generation::{RULE_BANS, RULE_OBSERVED},
    kernel::Wire,
};

/// Packets and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PacketCount {
    /// Frames.
    pub packets: u64,
    /// Wire bytes: Ethernet header included, check sequence not.
    pub bytes: u64,
}

impl std::ops::AddAssign<Counter> for PacketCount {
    fn add_assign(&mut self, counter: Counter) {
        self.packets = self.packets.wrapping_add(counter.packets);
        self.bytes = self.bytes.wrapping_add(counter.bytes);
    }
}

/// Packets for one reason.
pub(super) fn reason(map: &Map, reason: Reason) -> Result<PacketCount, Error> {
    let mut sum = PacketCount::default();
    each(map, reason as u32, |counters: Sampled| sum += counters.count)?;
    Ok(sum)
}

/// Packets that a rule passed and dropped.
pub(super) fn rule(map: &Map, number: u32) -> Result<(PacketCount, PacketCount), Error> {
    let (mut passed, mut dropped) = (PacketCount::default(), PacketCount::default());
    each(map, number, |counters: RuleCounters| {
        passed += counters.passed;
        dropped += counters.dropped;
    })?;
    Ok((passed, dropped))
}

/// Packets that a rule would have dropped, but only observed.
pub(super) fn rule_observed(map: &Map, number: u32) -> Result<PacketCount, Error> {
    let mut observed = PacketCount::default();
    each(map, number, |counter: Counter| observed += counter)?;
    Ok(observed)
}

/// Bans that a rule has made.
pub(super) fn rule_bans(map: &Map, number: u32) -> Result<u64, Error> {
    let mut sum = 0_u64;
    each(map, number, |bans: u64| sum = sum.wrapping_add(bans))?;
    Ok(sum)
}

/// What happened to the table.
pub(super) fn table(map: &Map) -> Result<TableCounters, Error> {
    let mut sum = TableCounters::default();
    each(map, 0, |counters: TableCounters| {
        sum.live_evictions = sum.live_evictions.wrapping_add(counters.live_evictions);
        sum.exhausted_tries = sum.exhausted_tries.wrapping_add(counters.exhausted_tries);
        sum.bans_made = sum.bans_made.wrapping_add(counters.bans_made);
        sum.bans_replaced = sum.bans_replaced.wrapping_add(counters.bans_replaced);
    })?;
    Ok(sum)
}

/// Events that were handed over and that were lost.
pub(super) fn events(map: &Map) -> Result<EventStatus, Error> {
    let mut sum = EventStatus { written: 0, lost: 0 };
    each(map, 0, |counters: EventCounters| {
        sum.written = sum.written.wrapping_add(counters.written);
        sum.lost = sum.lost.wrapping_add(counters.lost);
    })?;
    Ok(sum)
}

/// Starts a rule number's counters at zero.
pub(super) fn clear_rule(generation: &mut ProgramGeneration, number: u32) -> Result<(), Error> {
    clear::<RuleCounters>(generation.map_mut("RULE_COUNTERS")?, number)?;
    clear::<Counter>(generation.map_mut(RULE_OBSERVED)?, number)?;
    clear::<u64>(generation.map_mut(RULE_BANS)?, number)
}

fn clear<T>(map: &mut Map, number: u32) -> Result<(), Error>
where
    T: Copy + Default + 'static,
    Wire<T>: aya::Pod,
{
    let mut counters: PerCpuArray<&mut MapData, Wire<T>> = map.try_into()?;
    let processors = counters.get(&number, 0)?.len();
    let zeros = vec![Wire(T::default()); processors];
    let zeros = aya::maps::PerCpuValues::try_from(zeros)
        .map_err(|source| Error::System { what: "the number of processors", source })?;
    Ok(counters.set(number, zeros, 0)?)
}

fn each<T>(map: &Map, index: u32, mut add: impl FnMut(T)) -> Result<(), Error>
where
    T: Copy + 'static,
    Wire<T>: aya::Pod,
{
    let counters: PerCpuArray<&MapData, Wire<T>> = map.try_into()?;
    counters.get(&index, 0)?.iter().for_each(|value| add(value.0));
    Ok(())
}
