//! The stages of a packet, in their order, over whatever a host of them has for maps, clock and counters.
//!
//! Most packets take the [`fast_path`]; one about which something is unusual leaves it before anything has changed, and
//! goes through all [`stages`]: that is the slow path.

pub mod bucket;
mod context;
pub mod fast_path;
mod rules;
pub mod several;
pub mod stages;

pub use self::context::{Evaluation, FrameSize, PacketContext, VlansAndFlags};
use self::{
    bucket::{BucketOp, BucketResult},
    several::Settled,
};
use crate::{
    classify::{Exceptions, Tables},
    lists::Listed,
    packet::{Address, Flag},
    table::{self, BucketRef, Key, Set},
    time::Now,
    wire::{CompiledRule, Globals, KeyMask, Reason},
};

/// What differs between the XDP program and a process: memory, clock, counters, loops, and which stages are functions
/// of their own. The program's has no size, because nothing but code gets into the kernel's loops.
pub trait Hooks: Tables + Copy {
    /// A set of the bucket table.
    type Set: Set;

    /// The tables of what rules except.
    type Excepts: Exceptions;

    /// The constants that are not rules.
    fn globals<'h>(self) -> &'h Globals
    where
        Self: 'h;
    /// What rules except; what they match is its own.
    fn excepts(self) -> Self::Excepts;
    /// [`fast_path::excepting`].
    #[inline(always)]
    fn excepting(self, context: &PacketContext, rest: VlansAndFlags) -> u64 {
        fast_path::excepting(self, context, rest)
    }
    /// The limit at `index`, which is below the number of limits.
    fn rule<'h>(self, index: u64) -> &'h CompiledRule
    where
        Self: 'h;
    /// The limit at 0.
    #[inline(always)]
    fn first_rule<'h>(self) -> &'h CompiledRule
    where
        Self: 'h,
    {
        self.rule(0)
    }
    /// What makes the key of a rule in packets of a family.
    fn key_mask(self, rule: &CompiledRule, family: Flag) -> &KeyMask;
    /// The place of a set's only bit.
    fn index_of(self, bit: u64) -> u64;
    /// The set of the bucket table with the number in these bits; `None` only if the memory can't be reached.
    fn set(self, bits: u64) -> Option<Self::Set>;
    /// The bucket with this key, if there is one.
    #[inline(always)]
    fn find(self, key: &Key) -> Option<BucketRef<Self::Set>> {
        BucketRef::find(self.set(key.first())?, || self.set(key.second()), key)
    }
    /// The time.
    fn now(self) -> Now;
    /// The source that a packet counts as: its own, but for benchmarks.
    #[inline(always)]
    fn counts_as(self, own: &Address) -> Address {
        *own
    }
    /// What the lists say about a source.
    fn listed(self, source: &Address) -> Listed;
    /// Whether everything of a source is to be dropped.
    fn is_banned(self, source: &Address) -> bool;

    /// Takes a turn after the other, up to `most`, until one says that it was the last.
    fn repeat<T, F: Fn(&mut T) -> bool + Copy>(self, most: u32, carried: &mut T, turn: F);
    /// [`bucket::attempt`] at the bucket of the rule at `index`.
    fn attempt(self, what: BucketOp, context: &PacketContext, index: u64) -> BucketResult;
    /// [`table::decide`] under the limit at `index`: a call of its own in the kernel, for all but the commonest
    /// algorithms.
    #[inline(always)]
    fn decide(self, index: u64, state: u64, now: Now, cost: u32) -> (bool, u64) {
        table::decide(&self.rule(index).limit, state, now, cost)
    }
    /// [`several::charge_two`] of two rules, else [`several::charge`].
    #[inline(always)]
    fn charge_several(self, evaluation: &mut Evaluation) -> Settled {
        if several::are_two(evaluation.left) {
            several::charge_two(self, evaluation)
        } else {
            several::charge(self, evaluation)
        }
    }
    /// [`stages::is_one_too_many`].
    #[inline(always)]
    fn is_one_too_many(self, context: &PacketContext, index: u64) -> bool {
        stages::is_one_too_many(self, context, index)
    }
    /// Bans the source of a packet that the rule at `index` has denied.
    fn ban(self, context: &PacketContext, index: u64);

    /// Counts a packet under a rule's counters.
    fn count_rule(self, rule: &CompiledRule, dropped: bool, size: FrameSize);
    /// Counts a packet that a rule would have dropped if it did not only observe.
    fn count_observed(self, rule: &CompiledRule, size: FrameSize);
    /// Takes back that it passed this rule.
    fn discount_rule(self, rule: &CompiledRule, size: FrameSize);
    /// Counts a packet that is denied since every try met another processor at the same slot.
    fn on_exhausted_tries(self);
    /// Notes rules that have denied it, for dry runs.
    fn note_denied(self, rules: u64);
}

/// The fast path that packets of a generation try first. The numbers are those of [`Globals::fast_path`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum FastPath {
    /// None of them: all packets take the slow path.
    None = 0,
    /// All are under the only rule, or there is none, and nobody asks for more than the source: see
    /// [`fast_path::judge_simple`].
    Simple = 1,
    /// Rules of all sorts: see [`fast_path::judge`].
    Any = 2,
    /// Nobody asks for more than the source and the IP version: see [`fast_path::judge_source`].
    Sources = 3,
    /// Keys are made of the source alone, and rules match by what [`fast_path::judge_ports`] reads.
    Ports = 4,
}

/// What the stages came to: a reason, with the first rule that denied the packet, or that the slow path has to
/// be gone. One number, because functions that the kernel verifies once return nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct StageOutcome(u64);

impl StageOutcome {
    /// Nothing has changed, and the slow path has to be taken.
    pub const UNUSUAL: Self = Self(u64::MAX);
    const REASON: u64 = 0xff;
    /// In the place of a reason: what the rules say is next.
    const ASK_RULES: u64 = 0xfe;
    /// Set if a header is broken.
    const MALFORMED: u32 = 9;
    /// Set if a rule has denied the packet, whether it drops or observes.
    const DENIED: u64 = 1 << 8;
    /// Set if that rule only observes, so that the packet passes.
    const OBSERVED: u64 = 1 << 10;
    /// From this bit on: where that rule is.
    const RULE: u32 = 16;

    /// A reason alone.
    #[must_use]
    #[inline(always)]
    pub const fn of(reason: Reason) -> Self {
        Self(reason as u64)
    }

    /// With the place of the first rule that denied the packet.
    #[must_use]
    #[inline(always)]
    pub const fn denied(reason: Reason, index: u64) -> Self {
        let observed = if reason.is_drop() { 0 } else { Self::OBSERVED };
        Self(reason as u64 | Self::DENIED | observed | index << Self::RULE)
    }

    /// No reason yet, and what the rules say is next; with whether a header is broken.
    #[must_use]
    #[inline(always)]
    pub const fn ask_rules(malformed: Flag) -> Self {
        Self(Self::ASK_RULES | malformed << Self::MALFORMED)
    }

    /// The reason for a packet that every rule has allowed, of which this is the outcome of the stages before.
    #[must_use]
    #[inline(always)]
    pub const fn reason_if_allowed(self, drop_malformed: bool) -> Reason {
        match (self.0 >> Self::MALFORMED & 1, drop_malformed) {
            (0, _) => Reason::Passed,
            (_, false) => Reason::Malformed,
            (_, true) => Reason::MalformedDropped,
        }
    }

    /// The outcome with this number.
    #[must_use]
    #[inline(always)]
    pub const fn from_number(number: u64) -> Self {
        Self(number)
    }

    /// Its number.
    #[must_use]
    #[inline(always)]
    pub const fn number(self) -> u64 {
        self.0
    }

    /// Whether what the rules say is next.
    #[must_use]
    #[inline(always)]
    pub const fn asks_rules(self) -> bool {
        self.0 & Self::REASON == Self::ASK_RULES
    }

    /// The reason; `None` if what the rules say is next, or if the slow path has to be taken.
    #[must_use]
    #[inline(always)]
    pub const fn reason(self) -> Option<Reason> {
        Reason::of(self.0 & Self::REASON)
    }

    /// Whether a rule has denied the packet, whether it drops or observes.
    #[must_use]
    #[inline(always)]
    pub const fn is_denied(self) -> bool {
        self.0 & Self::DENIED != 0
    }

    /// Whether a rule has denied the packet that passes all the same.
    #[must_use]
    #[inline(always)]
    pub const fn is_observed(self) -> bool {
        self.0 & Self::OBSERVED != 0
    }

    /// Where the first rule is that denied the packet, if one did.
    #[must_use]
    #[inline(always)]
    pub const fn denied_by(self) -> Option<u64> {
        if self.is_denied() { Some(self.0 >> Self::RULE & 0xff) } else { None }
    }
}
