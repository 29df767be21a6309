//! The short way: plain headers, at most one rule that matches, and a bucket that is there and that nobody else is at.

use super::{Hooks, Outcome, Size, Subject};
use crate::{
    algorithm::decide_by_arrival,
    classify::matching,
    lists::Listed,
    packet::{Address, Frame, Packet, Ports, parse_plain},
    table::{Known, decide},
    time::{Nanos, Now},
    wire::{Reason, Rule, TAKES_BYTES},
};

/// Judges a frame under the only rule, which is about all packets and asks for their source alone; or under none.
/// `BY_ARRIVAL`: whether rules limit packets by arrival times. Where the rules have to be asked one by one, `ask` gets the
/// packet and the bits of those that match.
#[inline(always)]
pub fn judge_simple<const BY_ARRIVAL: bool, H: Hooks, F: Frame + ?Sized>(
    hooks: H,
    frame: &F,
    ask: impl FnOnce(Subject, u64) -> Outcome,
) -> Outcome {
    let Some(packet) = parse_plain(frame) else { return Outcome::UNUSUAL };
    let source = hooks.counts_as(&packet.source);
    if let Some(reason) = look_up(hooks, &source) {
        return Outcome::of(reason);
    }
    if hooks.globals().rules == 0 {
        return Outcome::of(Reason::Passed);
    }
    let ports = Ports(source.family << 63);
    let mut subject = subject(&source, [0; 2], ports, frame);
    match charge::<BY_ARRIVAL, H>(hooks, &mut subject, 0, hooks.first_rule()) {
        Outcome::UNUSUAL => ask(subject, 1),
        outcome => outcome,
    }
}

/// Judges a frame under rules of all sorts.
#[inline(always)]
pub fn judge<const BY_ARRIVAL: bool, H: Hooks, F: Frame + ?Sized>(
    hooks: H,
    frame: &F,
    ask: impl FnOnce(Subject, u64) -> Outcome,
) -> Outcome {
    let Some(packet) = parse_plain(frame) else { return Outcome::UNUSUAL };
    let source = hooks.counts_as(&packet.source);
    if let Some(reason) = look_up(hooks, &source) {
        return Outcome::of(reason);
    }
    let rules = rules(hooks, frame, &packet);
    if rules == 0 {
        return Outcome::of(Reason::Passed);
    }
    let mut subject = subject(&source, packet.destination.bits, packet.ports(), frame);
    if rules & (rules - 1) != 0 {
        return ask(subject, rules);
    }
    let index = hooks.index_of(rules);
    match charge::<BY_ARRIVAL, H>(hooks, &mut subject, index, hooks.rule(index)) {
        Outcome::UNUSUAL => ask(subject, rules),
        outcome => outcome,
    }
}

#[inline(always)]
fn subject<F: Frame + ?Sized>(source: &Address, destination: [u64; 2], ports: Ports, frame: &F) -> Subject {
    Subject { source: source.bits, destination, ports, now: Now(Nanos(0)), size: Size(frame.length()) }
}

/// The bits of the rules that a packet matches.
#[inline(always)]
fn rules<H: Hooks, F: Frame + ?Sized>(hooks: H, frame: &F, packet: &Packet) -> u64 {
    match hooks.globals().classifies {
        0 => hooks.globals().rules,
        _ => matching(&hooks, packet, frame.length()),
    }
}

/// What lists and bans say about a source.
#[inline(always)]
fn look_up<H: Hooks>(hooks: H, source: &Address) -> Option<Reason> {
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
    hooks: H,
    subject: &mut Subject,
    index: u64,
    rule: &Rule,
) -> Outcome {
    let mask = hooks.key_mask(rule, subject.ports.family());
    let key = mask.key(&hooks.globals().secret, subject.source, subject.destination, subject.ports);
    let Some(first) = hooks.set(key.first()) else { return Outcome::UNUSUAL };
    // Only now: the set's memory is on its way while the clock is read.
    let now = hooks.now();
    subject.now = now;
    let Some(known) = Known::find(first, || hooks.set(key.second()), &key) else { return Outcome::UNUSUAL };
    let Some(before) = known.state() else { return Outcome::UNUSUAL };
    let (allowed, after) = if BY_ARRIVAL {
        decide_by_arrival(&rule.limit, before, now, 1)
    } else if rule.takes == TAKES_BYTES {
        decide(&rule.limit, before, now, subject.size.bytes() as u32)
    } else {
        // The same again: what one packet takes is known beforehand.
        decide(&rule.limit, before, now, 1)
    };
    if !allowed {
        return deny(hooks, &known, (before, after), subject.size, index, rule);
    }
    if !known.replace(before, after) {
        return Outcome::UNUSUAL;
    }
    hooks.count_rule(rule.counters, false, subject.size);
    Outcome::of(Reason::Passed)
}

#[inline(always)]
fn deny<H: Hooks>(
    hooks: H,
    known: &Known<H::Set>,
    (before, after): (u64, u64),
    size: Size,
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
    hooks.count_rule(rule.counters, true, size);
    Outcome::denied(if is_enforced { Reason::Limited } else { Reason::Passed }, index)
}
