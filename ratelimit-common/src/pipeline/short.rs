//! The short way: plain headers, at most one rule that matches, and a bucket that is there and that nobody else is at.

use super::{Hooks, Outcome, Subject};
use crate::{
    algorithm::decide_packet,
    classify::matching,
    lists::Listed,
    packet::{Address, Frame, Ports, parse_plain},
    table::{Known, decide},
    wire::{Reason, Rule, TAKES_BYTES},
};

/// Judges a frame under the only rule, which is about all packets and asks for their source alone; or under none.
/// `BY_ARRIVAL`: whether rules limit packets by arrival times.
#[inline(always)]
pub fn judge_simple<const BY_ARRIVAL: bool, H: Hooks, F: Frame + ?Sized>(hooks: &H, frame: &F) -> Outcome {
    let Some(packet) = parse_plain(frame) else { return Outcome::UNUSUAL };
    let source = hooks.counts_as(&packet.source);
    if let Some(reason) = look_up(hooks, &source) {
        return Outcome::of(reason);
    }
    if hooks.globals().rules == 0 {
        return Outcome::of(Reason::Passed);
    }
    let subject = Subject { source: source.bits, destination: [0; 2], ports: Ports(source.family << 63) };
    charge::<BY_ARRIVAL, H>(hooks, &subject, frame.length(), 0, hooks.first_rule())
}

/// Judges a frame under rules of all sorts.
#[inline(always)]
pub fn judge<const BY_ARRIVAL: bool, H: Hooks, F: Frame + ?Sized>(hooks: &H, frame: &F) -> Outcome {
    let Some(packet) = parse_plain(frame) else { return Outcome::UNUSUAL };
    let source = hooks.counts_as(&packet.source);
    if let Some(reason) = look_up(hooks, &source) {
        return Outcome::of(reason);
    }
    let globals = hooks.globals();
    let rules =
        if globals.classifies == 0 { globals.rules } else { matching(hooks, &packet, frame.length()) };
    if rules == 0 {
        return Outcome::of(Reason::Passed);
    }
    if rules & (rules - 1) != 0 {
        return Outcome::UNUSUAL;
    }
    let subject =
        Subject { source: source.bits, destination: packet.destination.bits, ports: packet.ports() };
    let index = hooks.index_of(rules);
    charge::<BY_ARRIVAL, H>(hooks, &subject, frame.length(), index, hooks.rule(index))
}

/// What lists and bans say about a source.
#[inline(always)]
fn look_up<H: Hooks>(hooks: &H, source: &Address) -> Option<Reason> {
    match hooks.listed(source) {
        Listed::Allowed => Some(Reason::Allowed),
        Listed::Denied => Some(Reason::Denied),
        Listed::No if hooks.is_banned(source) => Some(Reason::Banned),
        Listed::No => None,
    }
}

/// Charges the only rule that a packet matches.
#[inline(always)]
fn charge<const BY_ARRIVAL: bool, H: Hooks>(
    hooks: &H,
    subject: &Subject,
    bytes: u64,
    index: u64,
    rule: &Rule,
) -> Outcome {
    let mask = hooks.key_mask(rule, subject.ports.family());
    let key = mask.key(&hooks.globals().secret, subject.source, subject.destination, subject.ports);
    let Some(first) = hooks.set(key.first()) else { return Outcome::UNUSUAL };
    // Only now: the set's memory is on its way while the clock is read.
    let now = hooks.now();
    let Some(known) = Known::find(first, || hooks.set(key.second()), &key) else { return Outcome::UNUSUAL };
    let Some(before) = known.state() else { return Outcome::UNUSUAL };
    let (allowed, after) = if BY_ARRIVAL {
        decide_packet(&rule.limit, before, now)
    } else if rule.takes == TAKES_BYTES {
        decide(&rule.limit, before, now, bytes as u32)
    } else {
        // The same again: what one packet takes is known beforehand.
        decide(&rule.limit, before, now, 1)
    };
    if !allowed {
        return deny(hooks, &known, (before, after), bytes, index, rule);
    }
    if !known.replace(before, after) {
        return Outcome::UNUSUAL;
    }
    hooks.count_rule(rule.counters, false, bytes);
    Outcome::of(Reason::Passed)
}

#[inline(always)]
fn deny<H: Hooks>(
    hooks: &H,
    known: &Known<<H::Set as crate::table::Set>::Slot>,
    (before, after): (u64, u64),
    bytes: u64,
    index: u64,
    rule: &Rule,
) -> Outcome {
    let is_enforced = hooks.globals().enforced >> (index & 63) & 1 != 0;
    // A packet too many may lead to a ban.
    if is_enforced && rule.ban_length != 0 {
        return Outcome::UNUSUAL;
    }
    if after != before && !known.replace(before, after) {
        return Outcome::UNUSUAL;
    }
    hooks.count_rule(rule.counters, true, bytes);
    Outcome::denied(if is_enforced { Reason::Limited } else { Reason::Passed }, index)
}
