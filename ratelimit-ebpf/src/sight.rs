//! What people see of single packets: samples for the heaviest sources, and events of packets that were dropped.
//!
//! The cost for a packet that is no sample is one comparison, with a number beside the counter that it is counted under.

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
    verifier::opaque,
    wire::{EACH_EVENT, EVENT_BYTES, Event, EventCounters, Reason, Sampled},
};

use crate::{
    clock, frame,
    globals::{self, globals},
    pipeline::Found,
    size::Size,
    sketch, stats, walk,
};

#[map]
static EVENTS: RingBuf = RingBuf::with_byte_size(EVENT_BYTES, 0);

#[map]
static EVENT_COUNTERS: PerCpuArray<EventCounters> = PerCpuArray::with_max_entries(1, 0);

/// Packets that a rule that observes would have dropped: sampled apart, since they pass among many.
#[map]
static OBSERVED: PerCpuArray<Sampled> = PerCpuArray::with_max_entries(1, 0);

/// Beside the number of a reason: the packet is the sample of its reason that is due.
const IS_SAMPLE: u64 = 1 << 32;

/// Beside the number of a reason: a rule that observes would have dropped it; once it is drawn, it is a sample of these.
const IS_OBSERVED: u64 = 1 << 33;

/// Beside the number of a reason: the packet could be read.
const IS_IP: u64 = 1 << 34;

/// Beside the number of a reason, from this bit on: how many packets a sample stands for.
const WEIGHT: u32 = 40;

/// Looks at a packet that has been counted.
#[inline(always)]
pub fn look(ctx: &XdpContext, reason: Reason, found: &Found, is_sample: bool) {
    if globals().samples == 0 {
        return;
    }
    let is_observed = found.denied() != 0 && !reason.is_drop();
    if is_sample || is_observed {
        let sample = if is_sample { IS_SAMPLE } else { 0 };
        let observed = if is_observed { IS_OBSERVED } else { 0 };
        let now = clock::monotonic();
        let drawn = draw(reason as u64 | sample | observed, now, found.size().packets());
        if drawn != 0 {
            look_closely(ctx.as_ptr().cast(), reason as u64 | drawn, found.size().0, found.denied(), now);
        }
    }
}

/// What is known of a sample besides its packet.
#[repr(C)]
struct Seen {
    now: u64,
    /// The number of its reason, whether it is about what would have been dropped, whether it
    /// could be read, and how many packets it stands for.
    what: u64,
    size: Size,
    /// The bits of the rules that denied it.
    denied: u64,
    /// The index of its interface.
    interface: u64,
}

// Functions with a symbol are verified once. What needs stack is split between several of them: the kernel has little.

/// Draws it as a sample of its reason, or of what would have been dropped; zero if it is neither.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn draw(what: u64, now: u64, packets: u64) -> u64 {
    let observed = if what & IS_OBSERVED != 0 && is_observed_sample(now) { IS_OBSERVED } else { 0 };
    take(what, now, packets) << WEIGHT | observed
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn look_closely(context: *mut xdp_md, what: u64, size: u64, denied: u64, now: u64) -> u64 {
    // SAFETY: the caller's context.
    let interface = unsafe { (*context).ingress_ifindex }.into();
    let mut packet = Packet::EMPTY;
    let what = if frame::parse_whole(context, &mut packet).is_ok() { what | IS_IP } else { what };
    let seen = Seen { now, what, size: Size(size), denied, interface };
    let is_drop = Reason::of(what & 0xffff_ffff).is_some_and(Reason::is_drop);
    if what >> WEIGHT != 0 {
        weigh(&packet, &seen, is_drop.into());
    }
    if is_drop || what & IS_OBSERVED != 0 {
        write(&packet, &seen);
    }
    0
}

/// Counts it among the heaviest sources.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn weigh(packet: *const Packet, seen: *const Seen, is_drop: u64) -> u64 {
    // SAFETY: the caller's, or null, which they never are.
    let (Some(packet), Some(seen)) = (unsafe { (packet.as_ref(), seen.as_ref()) }) else { return 0 };
    let packet = if seen.what & IS_IP == 0 { None } else { Some(packet) };
    sketch::count(packet, seen.now, is_drop, seen.what >> WEIGHT, seen.size.bytes_each());
    0
}

/// Takes the sample that is due, and returns how many packets it stands for; zero if none is.
#[inline(always)]
fn take(what: u64, now: u64, packets: u64) -> u64 {
    if what & IS_SAMPLE == 0 {
        return 0;
    }
    let Some(counters) = stats::with_reason(what & 0xffff_ffff) else { return 0 };
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

/// Hands over an event, if its time has come and there is room.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn write(packet: *const Packet, seen: *const Seen) -> u64 {
    // SAFETY: the caller's, or null, which they never are.
    let (Some(packet), Some(seen)) = (unsafe { (packet.as_ref(), seen.as_ref()) }) else { return 0 };
    if !may_write(seen.now) {
        return 0;
    }
    let Some(mut entry) = EVENTS.reserve::<Event>(0) else {
        return count_event(|counters| counters.lost += 1);
    };
    entry.write(Event {
        time: seen.now,
        source: packet.source.bits,
        destination: packet.destination.bits,
        ports: packet.ports(),
        bytes: seen.size.bytes(),
        interface: seen.interface as u32,
        reason: seen.what as u32,
        rule: first_rule(seen.denied),
        is_ip: (seen.what & IS_IP != 0).into(),
    });
    entry.submit(0);
    count_event(|counters| counters.written += 1)
}

#[inline(always)]
fn count_event(what: impl FnOnce(&mut EventCounters)) -> u64 {
    with_events(|counters| {
        what(counters);
        true
    });
    0
}

/// The number of the first of these rules; 0 of none.
#[inline(always)]
fn first_rule(denied: u64) -> u32 {
    if opaque(denied) == 0 {
        return 0;
    }
    globals::rule(walk::index_of(denied & denied.wrapping_neg())).counters as u32
}
