//! The fast path: plain headers, at most one rule that matches, and a bucket that is there and that nobody else is at.

use core::mem::MaybeUninit;

use super::{Evaluation, FrameSize, Hooks, PacketContext, StageOutcome, VlansAndFlags};
use crate::{
    algorithm::{decide_by_arrival, decide_by_window},
    classify::{self, matching, matching_ports},
    limit::StateKind,
    lists::Listed,
    packet::{Address, Frame, Ports, parse_plain},
    table::{BucketRef, Key},
    time::{Nanos, Now},
    verifier::again,
    wire::{CompiledRule, Reason, TAKES_BYTES},
};

/// Judges a frame under the only rule, which is about all packets and asks for their source alone; or under none. Where
/// the rules have to be asked one by one, `evaluation` gets the packet and the bits of those that match.
#[inline(always)]
pub fn judge_simple<H: Hooks, F: Frame + ?Sized>(
    hooks: H,
    frame: &F,
    evaluation: &mut MaybeUninit<Evaluation>,
) -> StageOutcome {
    let source = match source_of(hooks, frame) {
        Ok(source) => source,
        Err(outcome) => return outcome,
    };
    if hooks.globals().matches.rules == 0 {
        return StageOutcome::of(Reason::Passed);
    }
    let ports = Ports(source.family << 63);
    let size = FrameSize(frame.length());
    let rule = hooks.first_rule();
    let mask = hooks.key_mask(rule, source.family);
    let key = mask.key(&hooks.globals().secret, source.bits, [0; 2], ports);
    let (outcome, now) = charge(hooks, &key, || size, 0, rule);
    if outcome != StageOutcome::UNUSUAL {
        return outcome;
    }
    let context = PacketContext { source: source.bits, destination: [0; 2], ports, now, size };
    evaluation.write(Evaluation { context, left: 1, denied: 0 });
    StageOutcome::ask_rules(0)
}

/// Judges a frame under rules that ask for the source and the IP version alone; `evaluation` likewise.
#[inline(always)]
pub fn judge_source<H: Hooks, F: Frame + ?Sized>(
    hooks: H,
    frame: &F,
    evaluation: &mut MaybeUninit<Evaluation>,
) -> StageOutcome {
    let source = match source_of(hooks, frame) {
        Ok(source) => source,
        Err(outcome) => return outcome,
    };
    let rules = hooks.globals().of_version(source.family);
    let (ports, size) = (Ports(source.family << 63), FrameSize(frame.length()));
    judge_by_source(hooks, &source, ports, size, rules, evaluation)
}

/// Judges a frame under rules that ask for the source, the transport, its ports and the length, but whose keys are made
/// of the source alone; `evaluation` likewise.
#[inline(always)]
pub fn judge_ports<H: Hooks, F: Frame + ?Sized>(
    hooks: H,
    frame: &F,
    evaluation: &mut MaybeUninit<Evaluation>,
) -> StageOutcome {
    let Some(packet) = parse_plain(frame) else { return StageOutcome::UNUSUAL };
    let (source, ports) = (hooks.counts_as(&packet.source), packet.ports());
    if let Some(reason) = look_up(hooks, &source) {
        return StageOutcome::of(reason);
    }
    let size = FrameSize(frame.length());
    let rules = matching_ports(&hooks, &source, ports, size.0);
    judge_by_source(hooks, &source, ports, size, rules, evaluation)
}

/// Judges a packet under the rules that it matches, whose keys are made of the source alone.
#[inline(always)]
fn judge_by_source<H: Hooks>(
    hooks: H,
    source: &Address,
    ports: Ports,
    size: FrameSize,
    rules: u64,
    evaluation: &mut MaybeUninit<Evaluation>,
) -> StageOutcome {
    if rules == 0 {
        return StageOutcome::of(Reason::Passed);
    }
    let context = PacketContext { source: source.bits, destination: [0; 2], ports, now: Now(Nanos(0)), size };
    // From here on the packet is read from there.
    let evaluation = evaluation.write(Evaluation { context, left: rules, denied: 0 });
    judge_under(hooks, evaluation, |_| [0; 2])
}

/// Judges a packet under the rules that it matches, if that is one. `destination` is what keys are made of.
#[inline(always)]
fn judge_under<H: Hooks>(
    hooks: H,
    evaluation: &mut Evaluation,
    destination: impl Fn(&PacketContext) -> [u64; 2],
) -> StageOutcome {
    let rules = evaluation.left;
    if rules & (rules - 1) == 0 {
        let index = hooks.index_of(rules);
        let rule = hooks.rule(index);
        let context = &evaluation.context;
        let (source, destination, ports) =
            (again(&context.source), destination(context), again(&context.ports));
        let mask = hooks.key_mask(rule, ports.family());
        let key = mask.key(&hooks.globals().secret, source, destination, ports);
        let (outcome, now) = charge(hooks, &key, || again(&evaluation.context.size), index, rule);
        if outcome != StageOutcome::UNUSUAL {
            return outcome;
        }
        evaluation.context.now = now;
    }
    StageOutcome::ask_rules(0)
}

/// The source of a frame that no list and no ban is about; else what comes of it.
#[inline(always)]
fn source_of<H: Hooks, F: Frame + ?Sized>(hooks: H, frame: &F) -> Result<Address, StageOutcome> {
    let Some(packet) = parse_plain(frame) else { return Err(StageOutcome::UNUSUAL) };
    let source = hooks.counts_as(&packet.source);
    match look_up(hooks, &source) {
        Some(reason) => Err(StageOutcome::of(reason)),
        None => Ok(source),
    }
}

/// Judges a frame under rules of all sorts; `evaluation` likewise.
#[inline(always)]
pub fn judge<H: Hooks, F: Frame + ?Sized>(
    hooks: H,
    frame: &F,
    evaluation: &mut MaybeUninit<Evaluation>,
) -> StageOutcome {
    let Some(packet) = parse_plain(frame) else { return StageOutcome::UNUSUAL };
    let context = PacketContext {
        source: packet.source.bits,
        destination: packet.destination.bits,
        ports: packet.ports(),
        now: Now(Nanos(0)),
        size: FrameSize(frame.length()),
    };
    // From here on all but its tags and flags is read from there.
    let evaluation = evaluation.write(Evaluation { context, left: 0, denied: 0 });
    evaluation.context.source = hooks.counts_as(&address(&evaluation.context)).bits;
    if let Some(reason) = look_up(hooks, &address(&evaluation.context)) {
        return StageOutcome::of(reason);
    }
    let rules = if hooks.globals().classifies() {
        let context = again(&evaluation.context);
        let rules = matching(&hooks, &context.packet(&packet), context.size.0);
        let is_excepting = rules & hooks.globals().excepting != 0;
        if is_excepting {
            rules & !hooks.excepting(&evaluation.context, VlansAndFlags::of(&packet))
        } else {
            rules
        }
    } else {
        hooks.globals().matches.rules
    };
    if rules == 0 {
        return StageOutcome::of(Reason::Passed);
    }
    evaluation.left = rules;
    judge_under(hooks, evaluation, |context| again(&context.destination))
}

/// The rules that except a packet with plain headers.
#[inline(always)]
pub fn excepting<H: Hooks>(hooks: H, context: &PacketContext, rest: VlansAndFlags) -> u64 {
    classify::excepting(&hooks.excepts(), &rest.packet(context), context.size.0)
}

/// Where a packet comes from, read from there.
#[inline(always)]
fn address(context: &PacketContext) -> Address {
    Address { bits: again(&context.source), family: again(&context.ports).family() }
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
fn charge<H: Hooks>(
    hooks: H,
    key: &Key,
    size: impl Fn() -> FrameSize,
    index: u64,
    rule: &CompiledRule,
) -> (StageOutcome, Now) {
    let Some(first) = hooks.set(key.first()) else { return (StageOutcome::UNUSUAL, Now(Nanos(0))) };
    // Only now: the set's memory is on its way while the clock is read.
    let now = hooks.now();
    let outcome = match BucketRef::find(first, || hooks.set(key.second()), key) {
        Some(known) => charge_known(hooks, &known, now, size, index, rule),
        None => StageOutcome::UNUSUAL,
    };
    (outcome, now)
}

#[inline(always)]
fn charge_known<H: Hooks>(
    hooks: H,
    known: &BucketRef<H::Set>,
    now: Now,
    size: impl Fn() -> FrameSize,
    index: u64,
    rule: &CompiledRule,
) -> StageOutcome {
    let Some(before) = known.state() else { return StageOutcome::UNUSUAL };
    let (allowed, after) = decide(hooks, index, rule, before, now, || size().0 as u32);
    if !allowed {
        return deny(hooks, known, (before, after), size(), index, rule);
    }
    if !known.replace(before, after) {
        return StageOutcome::UNUSUAL;
    }
    hooks.count_rule(rule, false, size());
    StageOutcome::of(Reason::Passed)
}

/// Whether the rule at `index` allows a packet, and the state after it.
#[inline(always)]
fn decide<H: Hooks>(
    hooks: H,
    index: u64,
    rule: &CompiledRule,
    before: u64,
    now: Now,
    bytes: impl Fn() -> u32,
) -> (bool, u64) {
    let limit = &rule.limit;
    let takes_bytes = rule.takes == TAKES_BYTES;
    match limit.kind() {
        // Twice, because what one packet takes is known beforehand.
        StateKind::ArrivalTime if takes_bytes => decide_by_arrival(limit, before, now, bytes()),
        StateKind::ArrivalTime => decide_by_arrival(limit, before, now, 1),
        StateKind::Window => decide_by_window(limit, before, now, if takes_bytes { bytes() } else { 1 }),
        _ => hooks.decide(index, before, now, if takes_bytes { bytes() } else { 1 }),
    }
}

#[inline(always)]
fn deny<H: Hooks>(
    hooks: H,
    known: &BucketRef<H::Set>,
    (before, after): (u64, u64),
    size: FrameSize,
    index: u64,
    rule: &CompiledRule,
) -> StageOutcome {
    let is_enforced = hooks.globals().enforced >> (index & 63) & 1 != 0;
    // A packet too many may lead to a ban.
    if is_enforced && rule.ban_terms.length != 0 {
        return StageOutcome::UNUSUAL;
    }
    if after != before && !known.replace(before, after) {
        return StageOutcome::UNUSUAL;
    }
    if !is_enforced {
        hooks.count_observed(rule, size);
        return StageOutcome::denied(Reason::Passed, index);
    }
    hooks.count_rule(rule, true, size);
    StageOutcome::denied(Reason::Limited, index)
}
