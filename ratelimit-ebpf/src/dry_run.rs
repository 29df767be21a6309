//! Dry runs: what the daemon and the tests put in the place of clock and wire, and what they want to know of a packet.
//! In a generation that is attached to an interface the verifier removes all of it.

use aya_ebpf::{macros::map, maps::Array};
use ratelimit_common::{
    packet::{self, Packet},
    pipeline::FrameSize,
    wire::{self, DryRun, Reason},
};

use crate::globals::globals;

#[map]
static DRY_RUN: Array<DryRun> = Array::with_max_entries(1, 0);

#[inline(always)]
fn value() -> Option<*mut DryRun> {
    if globals().dry_run == wire::DRY_RUN { DRY_RUN.get_ptr_mut(0) } else { None }
}

/// CLOCK_MONOTONIC as the dry run wants it.
#[inline(always)]
pub fn clock() -> Option<u64> {
    if globals().dry_run == 0 {
        return None;
    }
    // SAFETY: the map's own memory.
    DRY_RUN.get_ptr_mut(0).map(|value| unsafe { (*value).clock })
}

/// The frame's length as the dry run wants it.
#[inline(always)]
pub fn wire_length() -> Option<u64> {
    // SAFETY: as above.
    value().map(|value| unsafe { (*value).wire_length } & FrameSize::BYTES).filter(|&length| length != 0)
}

/// Notes what the parser found, the rules that match, and those that would if they did not except it.
#[inline(always)]
pub fn note_packet(packet: &Packet, matching: u64, excepted: u64) {
    if let Some(value) = value() {
        // SAFETY: as above.
        unsafe { ((*value).packet, (*value).matching, (*value).excepted) = (*packet, matching, excepted) };
    }
}

/// Notes rules that denied it.
#[inline(always)]
pub fn note_denied(rules: u64) {
    if let Some(value) = value() {
        // SAFETY: as above.
        unsafe { (*value).denied |= rules };
    }
}

/// Notes the VLAN tags of what is not IP.
#[inline(always)]
pub fn note_not_ip(packet: &Packet) {
    if let Some(value) = value() {
        // SAFETY: as above.
        unsafe { ((*value).packet.vlans, (*value).packet.protocol) = (packet.vlans, packet::NOT_IP) };
    }
}

/// Notes the reason.
#[inline(always)]
pub fn note_reason(reason: Reason) {
    if let Some(value) = value() {
        // SAFETY: as above.
        unsafe { (*value).reason = reason as u64 };
    }
}
