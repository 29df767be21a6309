//! All stages behind the parser, one after the other: lists, bans, neighbour discovery, what the rules say, and bans
//! that come of it. Where a stage is a function of its own in the kernel, a hook says so.

use super::{Evaluation, Hooks, PacketContext, StageOutcome, bucket, rules};
use crate::{lists::Listed, packet::Packet, wire::Reason};

/// The stages before the rules. `matching` says which rules the packet matches.
#[inline(always)]
pub fn examine<H: Hooks>(
    hooks: H,
    packet: &Packet,
    evaluation: &mut Evaluation,
    matching: impl Fn() -> u64,
) -> StageOutcome {
    let source = hooks.counts_as(&packet.source);
    match hooks.listed(&source) {
        Listed::Allowed => return StageOutcome::of(Reason::Allowed),
        Listed::Denied => return StageOutcome::of(Reason::Denied),
        Listed::No if hooks.is_banned(&source) => return StageOutcome::of(Reason::Banned),
        Listed::No => {}
    }
    // A flood must not cut the host off its own link.
    if packet.is_neighbour_discovery != 0 {
        return StageOutcome::of(Reason::NeighbourDiscovery);
    }
    evaluation.left = matching();
    evaluation.context.describe(packet, &source);
    StageOutcome::ask_rules(packet.malformed.into())
}

/// What the rules say about a packet of which `early` is the outcome of the stages before.
#[inline(always)]
pub fn judge<H: Hooks>(hooks: H, early: StageOutcome, evaluation: &mut Evaluation) -> StageOutcome {
    let rule = rules::denying(hooks, evaluation);
    let reason = if rule == rules::NONE {
        early.reason_if_allowed(hooks.globals().drop_malformed != 0)
    } else {
        if hooks.globals().bans != 0 && hooks.is_one_too_many(&evaluation.context, rule) {
            hooks.ban(&evaluation.context, rule);
        }
        Reason::Limited
    };
    match evaluation.denied {
        0 => StageOutcome::of(reason),
        denied => StageOutcome::denied(reason, hooks.index_of(denied & denied.wrapping_neg())),
    }
}

/// Whether a packet that the rule at `index` has denied was one too many, so that its source is to be banned.
#[inline(always)]
pub fn is_one_too_many<H: Hooks>(hooks: H, context: &PacketContext, index: u64) -> bool {
    let rule = hooks.rule(index);
    rule.ban_terms.length != 0 && (rule.ban == 0 || !bucket::charge(hooks, context, rule.ban as u64))
}
