//! The short way: plain headers, at most one rule that matches, and a bucket that is there and that nobody else is at.

use core::mem::MaybeUninit;

use super::{Found, Hooks, Outcome, Rest, Size, Subject};
use crate::{
    algorithm::{decide_by_arrival, decide_by_window},
    classify::matching,
    limit::Kind,
    lists::Listed,
    packet::{Address, Frame, Ports, parse_plain},
    table::{Key, Known},
    time::{Nanos, Now},
    verifier::again,
    wire::{Reason, Rule, TAKES_BYTES},
};

/// Judges a frame under the only rule, which is about all packets and asks for their source alone; or under none. Where the
/// rules have to be asked one by one, `found` gets the packet and the bits of those that match.
#[inline(always)]
pub fn judge_simple<H: Hooks, F: Frame + ?Sized>(
    hooks: H,
    frame: &F,
    found: &mut MaybeUninit<Found>,
) -> Outcome {
    let Some(packet) = parse_plain(frame) else { return Outcome::UNUSUAL };
    let source = hooks.counts_as(&packet.source);
    if let Some(reason) = look_up(hooks, &source) {
        return Outcome::of(reason);
    }
    if hooks.globals().matches.rules == 0 {
        return Outcome::of(Reason::Passed);
    }
    let ports = Ports(source.family << 63);
    let size = Size(frame.length());
    let rule = hooks.first_rule();
    let mask = hooks.key_mask(rule, source.family);
    let key = mask.key(&hooks.globals().secret, source.bits, [0; 2], ports);
    let (outcome, now) = charge(hooks, &key, || size, 0, rule);
    if outcome != Outcome::UNUSUAL {
        return outcome;
    }
    let subject = Subject { source: source.bits, destination: [0; 2], ports, now, size };
    found.write(Found { subject, left: 1, denied: 0 });
    Outcome::ask_rules(0)
}

/// Judges a frame under rules of all sorts; `found` likewise.
#[inline(always)]
pub fn judge<H: Hooks, F: Frame + ?Sized>(hooks: H, frame: &F, found: &mut MaybeUninit<Found>) -> Outcome {
    let Some(packet) = parse_plain(frame) else { return Outcome::UNUSUAL };
    let subject = Subject {
        source: packet.source.bits,
        destination: packet.destination.bits,
        ports: packet.ports(),
        now: Now(Nanos(0)),
        size: Size(frame.length()),
    };
    // From here on all but its tags and flags is read from there.
    let found = found.write(Found { subject, left: 0, denied: 0 });
    found.subject.source = hooks.counts_as(&address(&found.subject)).bits;
    if let Some(reason) = look_up(hooks, &address(&found.subject)) {
        return Outcome::of(reason);
    }
    let rules = if hooks.globals().classifies() {
        let subject = again(&found.subject);
        let rules = matching(&hooks, &subject.packet(&packet), subject.size.0);
        let is_excepting = rules & hooks.globals().excepts.rules != 0;
        if is_excepting { rules & !hooks.excepting(&found.subject, Rest::of(&packet)) } else { rules }
    } else {
        hooks.globals().matches.rules
    };
    if rules == 0 {
        return Outcome::of(Reason::Passed);
    }
    if rules & (rules - 1) == 0 {
        let index = hooks.index_of(rules);
        let rule = hooks.rule(index);
        let subject = &found.subject;
        let (source, destination, ports) =
            (again(&subject.source), again(&subject.destination), again(&subject.ports));
        let key =
            hooks.key_mask(rule, ports.family()).key(&hooks.globals().secret, source, destination, ports);
        let (outcome, now) = charge(hooks, &key, || again(&found.subject.size), index, rule);
        if outcome != Outcome::UNUSUAL {
            return outcome;
        }
        found.subject.now = now;
    }
    found.left = rules;
    Outcome::ask_rules(0)
}

/// The rules that except a packet with plain headers.
#[inline(always)]
pub fn excepting<H: Hooks>(hooks: H, subject: &Subject, rest: Rest) -> u64 {
    matching(&hooks.excepts(), &rest.packet(subject), subject.size.0)
}

/// Where a packet comes from, read from there.
#[inline(always)]
fn address(subject: &Subject) -> Address {
    Address { bits: again(&subject.source), family: again(&subject.ports).family() }
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

/// Charges the only rule that a packet matches. Returns the time, too, if it has been asked for.
#[inline(always)]
fn charge<H: Hooks>(hooks: H, key: &Key, size: impl Fn() -> Size, index: u64, rule: &Rule) -> (Outcome, Now) {
    let Some(first) = hooks.set(key.first()) else { return (Outcome::UNUSUAL, Now(Nanos(0))) };
    // Only now: the set's memory is on its way while the clock is read.
    let now = hooks.now();
    let outcome = match Known::find(first, || hooks.set(key.second()), key) {
        Some(known) => charge_known(hooks, &known, now, size, index, rule),
        None => Outcome::UNUSUAL,
    };
    (outcome, now)
}

#[inline(always)]
fn charge_known<H: Hooks>(
    hooks: H,
    known: &Known<H::Set>,
    now: Now,
    size: impl Fn() -> Size,
    index: u64,
    rule: &Rule,
) -> Outcome {
    let Some(before) = known.state() else { return Outcome::UNUSUAL };
    let (allowed, after) = decide(hooks, index, rule, before, now, || size().0 as u32);
    if !allowed {
        return deny(hooks, known, (before, after), size(), index, rule);
    }
    if !known.replace(before, after) {
        return Outcome::UNUSUAL;
    }
    hooks.count_rule(rule, false, size());
    Outcome::of(Reason::Passed)
}

/// Whether the rule at `index` allows a packet, and the state after it.
#[inline(always)]
fn decide<H: Hooks>(
    hooks: H,
    index: u64,
    rule: &Rule,
    before: u64,
    now: Now,
    bytes: impl Fn() -> u32,
) -> (bool, u64) {
    let limit = &rule.limit;
    let takes_bytes = rule.takes == TAKES_BYTES;
    match limit.kind() {
        // Twice, because what one packet takes is known beforehand.
        Kind::ArrivalTime if takes_bytes => decide_by_arrival(limit, before, now, bytes()),
        Kind::ArrivalTime => decide_by_arrival(limit, before, now, 1),
        Kind::Window => decide_by_window(limit, before, now, if takes_bytes { bytes() } else { 1 }),
        _ => hooks.decide(index, before, now, if takes_bytes { bytes() } else { 1 }),
    }
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
    if is_enforced && rule.ban_terms.length != 0 {
        return Outcome::UNUSUAL;
    }
    if after != before && !known.replace(before, after) {
        return Outcome::UNUSUAL;
    }
    hooks.count_rule(rule, true, size);
    Outcome::denied(if is_enforced { Reason::Limited } else { Reason::Passed }, index)
}
