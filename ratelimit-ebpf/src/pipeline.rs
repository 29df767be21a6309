//! The stages of a packet, in their order: trial, parse, lists, bans, neighbour discovery, classify, rules.

use core::mem::MaybeUninit;

use aya_ebpf::{bindings::xdp_md, programs::XdpContext};
use ratelimit_common::{
    classify::{judging, judging_source, matching},
    packet::{self, Address, LinkLayer, Packet},
    pipeline::{Evaluation, FrameSize, StageOutcome, stages},
    wire::{DRY_RUN, READS_SOURCE, Reason},
};

use crate::{
    classify::{EXCEPTS, MATCHES},
    dry_run, fast_path,
    frame::{self, XdpFrame},
    globals::globals,
    program::Program,
    routes, trial,
    verified::verified_once,
};

/// Judges a packet. The reason is that of the outcome.
#[inline(always)]
pub fn judge(ctx: &XdpContext, size: FrameSize) -> (Reason, StageOutcome) {
    let mut evaluation = MaybeUninit::uninit();
    let mut early = fast_path::judge(ctx, size, &mut evaluation);
    if let Some(reason) = early.reason() {
        return (reason, early);
    }
    // SAFETY: the fast path has written it, since it came to no reason.
    let evaluation = unsafe { evaluation.assume_init_mut() };
    if !early.asks_rules() {
        early = examine_any(ctx.ctx, evaluation);
        if let Some(reason) = early.reason() {
            return (reason, early);
        }
    }
    let outcome = stages::judge(Program, early, evaluation);
    (outcome.reason().unwrap_or(Reason::Limited), outcome)
}

/// All stages before the rules.
#[inline(always)]
fn examine_any(context: *mut xdp_md, evaluation: &mut Evaluation) -> StageOutcome {
    let reads_source = globals().reads == READS_SOURCE && globals().link == LinkLayer::Ethernet as u32;
    // Two functions side by side, so that neither has the other's stack.
    if reads_source && globals().dry_run != DRY_RUN {
        let outcome = examine_source(context, evaluation);
        // Whether it is asks for its destination, too.
        if outcome != StageOutcome::of(Reason::NeighbourDiscovery) {
            return outcome;
        }
    }
    examine(context, evaluation)
}

// All stages before the rules. Functions of their own, so that the rules have their stack, and so that what comes after
// them is not verified again for each way through the headers.

const NOT_IP: StageOutcome = StageOutcome::of(Reason::NotIp);

verified_once! {
    fn examine(context: *mut xdp_md, evaluation: &mut Evaluation) -> StageOutcome {
        if trial::has_failed() {
            return StageOutcome::of(Reason::Reverted);
        }
        let mut packet = Packet::EMPTY;
        match frame::parse_whole(context, &mut packet) {
            Ok(()) => {
                // What goes through this host to somebody else is no neighbour's word to it: who is over a limit could
                // send any number of such packets to anybody.
                if packet.is_neighbour_discovery != 0 && globals().dry_run != DRY_RUN {
                    packet.is_neighbour_discovery = u32::from(!routes::forwards(context, &packet));
                }
                examine_packet(&packet, evaluation)
            }
            Err(hides) => {
                dry_run::note_not_ip(&packet);
                StageOutcome::of(Reason::of_not_ip(hides))
            }
        }
    } else NOT_IP;
}

verified_once! {
    /// Examines a packet when nobody asks for more than its source.
    fn examine_source(context: *mut xdp_md, evaluation: &mut Evaluation) -> StageOutcome {
        if trial::has_failed() {
            return StageOutcome::of(Reason::Reverted);
        }
        let bytes = evaluation.context.size.bytes();
        match packet::parse(&XdpFrame::<false>::new(&XdpContext::new(context))) {
            Ok(packet) => {
                let matching = || match packet.source {
                    _ if !globals().classifies() => globals().matches.rules,
                    Address { bits: [high, low], family } => classify_source(high, low, family, bytes),
                };
                stages::examine(Program, &packet, evaluation, matching)
            }
            Err(not_ip) => StageOutcome::of(Reason::of_not_ip(not_ip.hides)),
        }
    } else NOT_IP;
}

verified_once! {
    fn examine_packet(packet: &Packet, evaluation: &mut Evaluation) -> StageOutcome {
        let bytes = evaluation.context.size.bytes();
        let matching = || match globals().classifies() {
            false => globals().matches.rules,
            true => classify(packet, bytes),
        };
        if globals().dry_run == DRY_RUN {
            let judging = matching();
            let excepted = if globals().excepting == 0 { 0 } else { classify_all(packet, bytes) & !judging };
            dry_run::note_packet(packet, judging, excepted);
        }
        stages::examine(Program, packet, evaluation, matching)
    } else NOT_IP;
}

// The bits of the rules that judge a packet: functions of their own, because the keys of the tries need stack.

verified_once! {
    fn classify(packet: &Packet, bytes: u64) -> u64 {
        judging(&MATCHES, &EXCEPTS, globals().excepting, packet, bytes)
    } else 0;
}

verified_once! {
    /// Those that except it included.
    fn classify_all(packet: &Packet, bytes: u64) -> u64 {
        matching(&MATCHES, packet, bytes)
    } else 0;
}

verified_once! {
    /// For rules that ask for nothing but the source and the length.
    fn classify_source(high: u64, low: u64, family: u64, bytes: u64) -> u64 {
        let source = Address { bits: [high, low], family };
        judging_source(&MATCHES, &EXCEPTS, globals().excepting, &source, bytes)
    } else 0;
}
