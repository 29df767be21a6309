//! The stages of a packet, in their order: trial, parse, lists, bans, neighbour discovery, classify, rules.

use aya_ebpf::{bindings::xdp_md, programs::XdpContext};
use ratelimit_common::{
    classify::matching,
    lists::Listed,
    packet::{self, Packet},
    wire::Reason,
};

use crate::{
    bans, bucket::Subject, classify::Maps, dry_run, frame::XdpFrame, globals::globals, lists, rules, trial,
};

/// A packet's verdict.
pub struct Judged {
    pub reason: Reason,
    pub bytes: u64,
}

#[inline(always)]
pub fn judge(ctx: &XdpContext) -> Judged {
    let mut found = Found { subject: Subject::EMPTY, matching: 0 };
    let early = examine(ctx.ctx, &mut found);
    let bytes = found.subject.bytes;
    let reason = match Reason::of(early) {
        Some(reason) => reason,
        None => match rules::denying(&mut found.subject, found.matching) {
            rules::NONE if early == WHOLE_HEADERS => Reason::Passed,
            rules::NONE if globals().drop_malformed == 0 => Reason::Malformed,
            rules::NONE => Reason::MalformedDropped,
            rule => {
                bans::after_denial(&found.subject, rule);
                Reason::Limited
            }
        },
    };
    Judged { reason, bytes }
}

/// What the rules must know of a packet.
#[repr(C)]
struct Found {
    subject: Subject,
    /// The bits of the rules that match.
    matching: u64,
}

/// No reason yet, and no broken header; one less if there is one.
const WHOLE_HEADERS: u64 = u64::MAX;

/// All stages before the rules. A function of its own, so that the rules have its stack; and one with a symbol, so that they
/// are not verified again for each way through it.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn examine(context: *mut xdp_md, found: *mut Found) -> u64 {
    // SAFETY: the caller's, or null, which it never is.
    let Some(found) = (unsafe { found.as_mut() }) else { return Reason::NotIp as u64 };
    if globals().reads_whole == 0 && globals().dry_run == 0 {
        examine_frame::<false>(context, found)
    } else {
        examine_frame::<true>(context, found)
    }
}

#[inline(always)]
fn examine_frame<const WHOLE: bool>(context: *mut xdp_md, found: &mut Found) -> u64 {
    let ctx = XdpContext::new(context);
    let frame = XdpFrame::<WHOLE>::new(&ctx);
    let bytes = frame.wire_length();
    found.subject.bytes = bytes;
    if trial::has_failed() {
        return Reason::Reverted as u64;
    }
    let packet = match packet::parse(&frame) {
        Ok(packet) => packet,
        Err(not_ip) => {
            dry_run::note_not_ip(not_ip);
            return Reason::of_not_ip(not_ip) as u64;
        }
    };
    if WHOLE && globals().dry_run != 0 {
        dry_run::note_packet(&packet, classify(&packet, bytes));
    }
    match lists::find(&packet.source) {
        Listed::Allowed => return Reason::Allowed as u64,
        Listed::Denied => return Reason::Denied as u64,
        Listed::No if bans::contains(&packet.source) => return Reason::Banned as u64,
        Listed::No => {}
    }
    // A flood must not cut the host off its own link.
    if packet.is_neighbour_discovery != 0 {
        return Reason::NeighbourDiscovery as u64;
    }
    *found = Found { subject: Subject::new(&packet, bytes), matching: classify(&packet, bytes) };
    WHOLE_HEADERS - packet.malformed
}

#[inline(always)]
fn classify(packet: &Packet, bytes: u64) -> u64 {
    if globals().classifies == 0 { globals().rules } else { matching(&Maps, packet, bytes) }
}
