//! All stages behind the parser, one after the other: lists, bans, neighbour discovery, what the rules say, and bans that
//! come of it. Where a stage is a function of its own in the kernel, a hook says so.

use super::{Found, Hooks, Outcome, Subject, bucket, rules};
use crate::{lists::Listed, packet::Packet, wire::Reason};

/// The stages before the rules. `matching` says which rules the packet matches.
#[inline(always)]
pub fn examine<H: Hooks>(
    hooks: H,
    packet: &Packet,
    found: &mut Found,
    matching: impl Fn() -> u64,
) -> Outcome {
    let source = hooks.counts_as(&packet.source);
    match hooks.listed(&source) {
        Listed::Allowed => return Outcome::of(Reason::Allowed),
        Listed::Denied => return Outcome::of(Reason::Denied),
        Listed::No if hooks.is_banned(&source) => return Outcome::of(Reason::Banned),
        Listed::No => {}
    }
    // A flood must not cut the host off its own link.
    if packet.is_neighbour_discovery != 0 {
        return Outcome::of(Reason::NeighbourDiscovery);
    }
    found.left = matching();
    found.subject.describe(packet, &source);
    Outcome::ask_rules(packet.malformed.into())
}

/// What the rules say about a packet of which `early` is the outcome of the stages before.
#[inline(always)]
pub fn judge<H: Hooks>(hooks: H, early: Outcome, found: &mut Found) -> Outcome {
    let rule = rules::denying(hooks, found);
    let reason = if rule == rules::NONE {
        early.reason_if_allowed(hooks.globals().drop_malformed != 0)
    } else {
        if hooks.globals().bans != 0 && hooks.is_one_too_many(&found.subject, rule) {
            hooks.ban(&found.subject, rule);
        }
        Reason::Limited
    };
    match found.denied {
        0 => Outcome::of(reason),
        denied => Outcome::denied(reason, hooks.index_of(denied & denied.wrapping_neg())),
    }
}

/// Whether a packet that the rule at `index` has denied was one too many, so that its source is to be banned.
#[inline(always)]
pub fn is_one_too_many<H: Hooks>(hooks: H, subject: &Subject, index: u64) -> bool {
    let rule = hooks.rule(index);
    rule.ban_terms.length != 0 && (rule.ban == 0 || !bucket::charge(hooks, subject, rule.ban as u64))
}
