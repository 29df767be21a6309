//! The stages of a packet, in their order: trial, parse, lists, bans, neighbour discovery, classify, rules.

use aya_ebpf::{bindings::xdp_md, programs::XdpContext};
use ratelimit_common::{
    classify::{matching, matching_source},
    lists::Listed,
    packet::{self, Address, Flag, Link, Packet},
    pipeline::Outcome,
    wire::{DRY_RUN, Reason},
};

use crate::{
    bans, bench,
    bucket::Subject,
    classify::Maps,
    dry_run,
    frame::{self, XdpFrame},
    globals::globals,
    lists, routes, rules, short,
    size::Size,
    trial,
    walk::index_of,
};

/// What is known of a packet that goes the long way. In one place, because the kernel has little stack.
#[repr(C)]
pub struct Found {
    pub subject: Subject,
    /// The bits of the rules that match and have not had their turn.
    pub left: u64,
    /// The bits of the rules that denied it, whether they drop or observe.
    pub denied: u64,
}

/// Judges a packet. The reason is that of the outcome.
#[inline(always)]
pub fn judge(ctx: &XdpContext, size: Size) -> (Reason, Outcome) {
    let outcome = short::judge(ctx, size);
    if let Some(reason) = outcome.reason() {
        return (reason, outcome);
    }
    let mut found = Found { subject: Subject::of_size(size), left: 0, denied: 0 };
    let early = examine_any(ctx.ctx, &mut found);
    if let Some(reason) = early.reason() {
        return (reason, early);
    }
    let rule = rules::denying(&mut found);
    let reason = if rule == rules::NONE {
        early.reason_if_allowed(globals().drop_malformed != 0)
    } else {
        bans::after_denial(&found.subject, rule);
        Reason::Limited
    };
    let outcome = match found.denied {
        0 => Outcome::of(reason),
        denied => Outcome::denied(reason, index_of(denied & denied.wrapping_neg())),
    };
    (reason, outcome)
}

/// All stages before the rules.
#[inline(always)]
fn examine_any(context: *mut xdp_md, found: &mut Found) -> Outcome {
    let reads_source = globals().reads_whole == 0 && globals().link == Link::Ethernet as u32;
    // Two functions side by side, so that neither has the other's stack.
    if reads_source && globals().dry_run != DRY_RUN {
        let outcome = Outcome::from_number(examine_source(context, found));
        // Whether it is asks for its destination, too.
        if outcome != Outcome::of(Reason::NeighbourDiscovery) {
            return outcome;
        }
    }
    Outcome::from_number(examine(context, found))
}

// All stages before the rules. Functions of their own, so that the rules have their stack; and with symbols, so that what
// comes after them is not verified again for each way through them, nor for each way through the headers.

const NOT_IP: u64 = Outcome::of(Reason::NotIp).number();

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn examine(context: *mut xdp_md, found: *mut Found) -> u64 {
    // SAFETY: the caller's, or null, which it never is.
    let Some(found) = (unsafe { found.as_mut() }) else { return NOT_IP };
    if trial::has_failed() {
        return Outcome::of(Reason::Reverted).number();
    }
    let mut packet = Packet::EMPTY;
    match frame::parse_whole(context, &mut packet) {
        Ok(()) => {
            // What goes through this host to somebody else is no neighbour's word to it: who is over a limit could send
            // any number of such packets to anybody.
            if packet.is_neighbour_discovery != 0 && globals().dry_run != DRY_RUN {
                packet.is_neighbour_discovery = Flag::from(routes::forwards(context, &packet) == 0);
            }
            examine_packet(&packet, found)
        }
        Err(hides) => {
            dry_run::note_not_ip(&packet);
            Outcome::of(Reason::of_not_ip(hides)).number()
        }
    }
}

/// Of a packet of which nobody wants more than the source.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn examine_source(context: *mut xdp_md, found: *mut Found) -> u64 {
    // SAFETY: as above.
    let Some(found) = (unsafe { found.as_mut() }) else { return NOT_IP };
    if trial::has_failed() {
        return Outcome::of(Reason::Reverted).number();
    }
    let bytes = found.subject.size.bytes();
    match packet::parse(&XdpFrame::<false>::new(&XdpContext::new(context))) {
        Ok(packet) => {
            let matching = || match packet.source {
                _ if globals().classifies == 0 => globals().rules,
                Address { bits: [high, low], family } => classify_source(high, low, family, bytes),
            };
            examine_parsed(&packet, found, matching).number()
        }
        Err(not_ip) => Outcome::of(Reason::of_not_ip(not_ip.hides)).number(),
    }
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn examine_packet(packet: *const Packet, found: *mut Found) -> u64 {
    // SAFETY: the caller's, or null, which they never are.
    match unsafe { (packet.as_ref(), found.as_mut()) } {
        (Some(packet), Some(found)) => {
            let bytes = found.subject.size.bytes();
            let matching = || match globals().classifies {
                0 => globals().rules,
                _ => classify(packet, bytes),
            };
            examine_parsed(packet, found, matching).number()
        }
        _ => NOT_IP,
    }
}

#[inline(always)]
fn examine_parsed(packet: &Packet, found: &mut Found, matching: impl Fn() -> u64) -> Outcome {
    if globals().dry_run == DRY_RUN {
        dry_run::note_packet(packet, matching());
    }
    let source = Address { bits: bench::source(packet.source.bits), family: packet.source.family };
    match lists::find(&source) {
        Listed::Allowed => return Outcome::of(Reason::Allowed),
        Listed::Denied => return Outcome::of(Reason::Denied),
        Listed::No if bans::contains(&source) => return Outcome::of(Reason::Banned),
        Listed::No => {}
    }
    // A flood must not cut the host off its own link.
    if packet.is_neighbour_discovery != 0 {
        return Outcome::of(Reason::NeighbourDiscovery);
    }
    found.left = matching();
    found.subject.describe(packet, source.bits);
    Outcome::ask_rules(packet.malformed)
}

// The bits of the rules that it matches. Of their own, because the keys of the tries need stack.

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn classify(packet: *const Packet, bytes: u64) -> u64 {
    // SAFETY: as above.
    unsafe { packet.as_ref() }.map_or(0, |packet| matching(&Maps, packet, bytes))
}

/// Of rules that ask for nothing but the source and the length.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn classify_source(high: u64, low: u64, family: u64, bytes: u64) -> u64 {
    matching_source(&Maps, &Address { bits: [high, low], family }, bytes)
}
