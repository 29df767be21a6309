//! What people see of single packets: samples for the heaviest sources, and events of packets that were dropped.
//!
//! The cost for a packet that is no sample is one comparison, with a number beside the counter that it is counted
//! under.

use aya_ebpf::{
    EbpfContext as _,
    bindings::xdp_md,
    helpers::generated::bpf_get_prandom_u32,
    macros::map,
    maps::{PerCpuArray, RingBuf},
    programs::XdpContext,
};
use ratelimit_common::{
    packet::Packet,
    pipeline::{FrameSize, StageOutcome},
    wire::{DropEvent, EACH_EVENT, EVENT_BYTES, EventCounters, Reason, Sampled},
};

use crate::{
    clock, frame,
    globals::{self, globals},
    size, sketch, stats,
    verified::verified_once,
};

#[map]
static EVENTS: RingBuf = RingBuf::with_byte_size(EVENT_BYTES, 0);

#[map]
static EVENT_COUNTERS: PerCpuArray<EventCounters> = PerCpuArray::with_max_entries(1, 0);

/// Packets that a rule that observes would have dropped: sampled apart, since they pass among many.
#[map]
static OBSERVED: PerCpuArray<Sampled> = PerCpuArray::with_max_entries(1, 0);

/// What is known of a packet that may be looked at more closely, in one number: its outcome, and beside that what it is
/// a sample of.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct SampleFlags(u64);

impl SampleFlags {
    /// The packet is the sample of its reason that is due.
    const IS_SAMPLE: u64 = 1 << 32;
    /// A rule that observes would have dropped it; once it is drawn, it is a sample of these.
    const IS_OBSERVED: u64 = 1 << 33;
    /// The packet could be read.
    const IS_IP: u64 = 1 << 34;
    /// From this bit on: how many packets a sample stands for.
    const WEIGHT: u32 = 40;

    #[inline(always)]
    const fn with(self, flag: u64) -> Self {
        Self(self.0 | flag)
    }

    #[inline(always)]
    const fn is(self, flag: u64) -> bool {
        self.0 & flag != 0
    }

    #[inline(always)]
    const fn outcome(self) -> StageOutcome {
        StageOutcome::from_number(self.0 & u32::MAX as u64)
    }

    /// How many packets it stands for: 0 if it is no sample of its reason.
    #[inline(always)]
    const fn weight(self) -> u64 {
        self.0 >> Self::WEIGHT
    }
}

/// Looks at a packet that has been counted.
#[inline(always)]
pub fn sample(ctx: &XdpContext, outcome: StageOutcome, size: FrameSize, is_sample: bool) {
    // In this order, because there is as good as always none.
    if (is_sample || outcome.is_observed()) && globals().samples != 0 {
        let sample = if is_sample { SampleFlags::IS_SAMPLE } else { 0 };
        let observed = if outcome.is_observed() { SampleFlags::IS_OBSERVED } else { 0 };
        let now = clock::monotonic();
        let drawn = draw(outcome.number() | sample | observed, now, size::packets(size));
        if drawn != 0 {
            look_closely(ctx.as_ptr().cast(), outcome.number() | drawn, size.0, now);
        }
    }
}

/// What is known of a sample besides its packet.
#[repr(C)]
struct SampleContext {
    now: u64,
    look: SampleFlags,
    size: FrameSize,
    /// The index of its interface.
    interface: u64,
}

// What needs stack is split between several functions: the kernel has little.

verified_once! {
    /// Draws it as a sample of its reason, or of what would have been dropped; zero if it is neither.
    fn draw(look: u64, now: u64, packets: u64) -> u64 {
        let look = SampleFlags(look);
        let is_observed = look.is(SampleFlags::IS_OBSERVED) && is_observed_sample(now);
        take(look, now, packets) << SampleFlags::WEIGHT | if is_observed { SampleFlags::IS_OBSERVED } else { 0 }
    } else 0;
}

verified_once! {
    fn look_closely(context: *mut xdp_md, look: u64, size: u64, now: u64) -> () {
        // SAFETY: the caller's context.
        let interface = unsafe { (*context).ingress_ifindex }.into();
        let mut packet = Packet::EMPTY;
        let is_ip = frame::parse_whole(context, &mut packet).is_ok();
        let look = if is_ip { SampleFlags(look).with(SampleFlags::IS_IP) } else { SampleFlags(look) };
        let seen = SampleContext { now, look, size: FrameSize(size), interface };
        let is_drop = look.outcome().reason().is_some_and(Reason::is_drop);
        if look.weight() != 0 {
            weigh(&packet, &seen, is_drop.into());
        }
        if is_drop || look.is(SampleFlags::IS_OBSERVED) {
            write(&packet, &seen);
        }
    } else ();
}

verified_once! {
    /// Counts it among the heaviest sources.
    fn weigh(packet: &Packet, seen: &SampleContext, is_drop: u64) -> () {
        let packet = if seen.look.is(SampleFlags::IS_IP) { Some(packet) } else { None };
        sketch::count(packet, seen.now, is_drop, seen.look.weight(), size::bytes_each(seen.size));
    } else ();
}

/// Takes the sample that is due, and returns how many packets it stands for; zero if none is.
#[inline(always)]
fn take(look: SampleFlags, now: u64, packets: u64) -> u64 {
    if !look.is(SampleFlags::IS_SAMPLE) {
        return 0;
    }
    let Some(counters) = look.outcome().reason().and_then(stats::with_reason) else { return 0 };
    counters.sampler.take(counters.count.packets, packets, now, random())
}

/// Whether a packet that would have been dropped is a sample of these.
#[inline(always)]
fn is_observed_sample(now: u64) -> bool {
    // SAFETY: the map's own memory, which only this processor writes.
    let Some(observed) = OBSERVED.get_ptr_mut(0).map(|observed| unsafe { &mut *observed }) else {
        return false;
    };
    observed.count.packets += 1;
    let is_due = observed.sampler.is_due(observed.count.packets);
    if is_due {
        let _ = observed.sampler.take(observed.count.packets, 1, now, random());
    }
    is_due
}

#[inline(always)]
fn random() -> u32 {
    // SAFETY: the helper takes nothing.
    unsafe { bpf_get_prandom_u32() }
}

/// Whether an event's time has come; if so, it is taken.
#[inline(always)]
fn may_write(now: u64) -> bool {
    with_events(|counters| {
        let ahead = counters.busy_until.saturating_sub(now);
        // Further ahead than that only a clock that has stepped back can be.
        if ahead > 100 * EACH_EVENT && ahead < 200 * EACH_EVENT {
            return false;
        }
        counters.busy_until = if ahead < 200 * EACH_EVENT { now + ahead } else { now } + EACH_EVENT;
        true
    })
}

#[inline(always)]
fn with_events(what: impl FnOnce(&mut EventCounters) -> bool) -> bool {
    match EVENT_COUNTERS.get_ptr_mut(0) {
        // SAFETY: as above.
        Some(counters) => what(unsafe { &mut *counters }),
        None => false,
    }
}

verified_once! {
    /// Hands over an event, if its time has come and there is room.
    fn write(packet: &Packet, seen: &SampleContext) -> () {
        if !may_write(seen.now) {
            return;
        }
        let Some(mut entry) = EVENTS.reserve::<DropEvent>(0) else {
            return count_event(|counters| counters.lost += 1);
        };
        entry.write(DropEvent {
            time: seen.now,
            source: packet.source.bits,
            destination: packet.destination.bits,
            ports: packet.ports(),
            bytes: seen.size.bytes(),
            interface: seen.interface as u32,
            reason: seen.look.outcome().reason().map_or(0, |reason| reason as u32),
            rule: seen.look.outcome().denied_by().map_or(0, |index| globals::rule(index).counters as u32),
            is_ip: seen.look.is(SampleFlags::IS_IP).into(),
        });
        entry.submit(0);
        count_event(|counters| counters.written += 1);
    } else ();
}

#[inline(always)]
fn count_event(what: impl FnOnce(&mut EventCounters)) {
    with_events(|counters| {
        what(counters);
        true
    });
}
