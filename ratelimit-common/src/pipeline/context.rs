//! What the rules are asked about: a packet without its bytes.

use super::Hooks;
use crate::{
    packet::{Address, Packet, Ports},
    table::{BucketRequest, Key},
    time::{Nanos, Now},
    wire::{CompiledRule, TAKES_BYTES, TAKES_ONE},
};

/// How large a frame is: bytes, and in the upper half how many packets were joined to it, where several may be. One
/// word, because the kernel has little stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct FrameSize(pub u64);

impl FrameSize {
    /// The bits of the bytes.
    pub const BYTES: u64 = u32::MAX as u64;

    /// The size of a frame to which so many packets were joined.
    #[must_use]
    #[inline(always)]
    pub const fn of(bytes: u64, packets: u64) -> Self {
        Self(bytes | packets << 32)
    }

    /// Its bytes on the wire; if several packets were joined, without the headers of all but the first.
    #[must_use]
    #[inline(always)]
    pub const fn bytes(self) -> u64 {
        self.0 & Self::BYTES
    }

    /// As how many packets it counts, if a frame may stand for several.
    #[must_use]
    #[inline(always)]
    pub const fn joined(self) -> u64 {
        self.0 >> 32
    }
}

/// One packet. Only numbers, so that it can be passed to functions that are verified by themselves.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PacketContext {
    /// Where it comes from, as in [`Address::bits`].
    pub source: [u64; 2],
    /// Where it goes to.
    pub destination: [u64; 2],
    /// IP version, ports and protocol.
    pub ports: Ports,
    /// When it is judged.
    pub now: Now,
    /// How large it is.
    pub size: FrameSize,
}

impl PacketContext {
    /// A packet of which nothing is known but its size.
    #[must_use]
    #[inline(always)]
    pub const fn of_size(size: FrameSize) -> Self {
        Self { source: [0; 2], destination: [0; 2], ports: Ports(0), now: Now(Nanos(0)), size }
    }

    /// Notes what the packet says, and the source that it counts as.
    #[inline(always)]
    pub const fn describe(&mut self, packet: &Packet, source: &Address) {
        self.source = source.bits;
        self.destination = packet.destination.bits;
        self.ports = packet.ports();
    }

    /// Where it comes from.
    #[must_use]
    #[inline(always)]
    pub const fn address(&self) -> Address {
        Address { bits: self.source, family: self.ports.family() }
    }

    /// The packet, of which the rest is that of another one.
    #[must_use]
    #[inline(always)]
    pub(super) const fn packet(&self, rest: &Packet) -> Packet {
        let family = self.ports.family();
        Packet {
            source: Address { bits: self.source, family },
            destination: Address { bits: self.destination, family },
            protocol: self.ports.protocol() as u32,
            source_port: self.ports.source() as u32,
            destination_port: self.ports.destination() as u32,
            ..*rest
        }
    }

    /// The key of its bucket under a rule.
    #[inline(always)]
    pub fn key<H: Hooks>(&self, hooks: H, rule: &CompiledRule) -> Key {
        let mask = hooks.key_mask(rule, self.ports.family());
        mask.key(&hooks.globals().secret, self.source, self.destination, self.ports)
    }

    /// What it asks of a rule.
    #[inline(always)]
    pub fn request<'l, H: Hooks>(&self, hooks: H, rule: &'l CompiledRule) -> BucketRequest<'l> {
        let (key, cost) = (self.key(hooks, rule), self.cost(hooks, rule));
        BucketRequest { key, limit: &rule.limit, now: self.now, cost }
    }

    /// What it costs under a rule.
    #[inline(always)]
    pub fn cost<H: Hooks>(&self, hooks: H, rule: &CompiledRule) -> u32 {
        match rule.takes {
            TAKES_BYTES => self.size.bytes() as u32,
            TAKES_ONE => 1,
            _ if hooks.globals().joins == 0 => 1,
            // More than the capacity would never pass.
            _ => self.size.joined().min(rule.limit.capacity()) as u32,
        }
    }
}

/// What a [`PacketContext`] does not say of a packet with plain headers: its tags and its TCP flags, 16 bits each.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct VlansAndFlags(pub u64);

impl VlansAndFlags {
    /// Takes them from a packet.
    #[inline(always)]
    pub(super) const fn of(packet: &Packet) -> Self {
        let [outer, inner] = packet.vlans;
        Self(outer as u64 | (inner as u64) << 16 | (packet.tcp_flags as u64) << 32)
    }

    /// The packet.
    #[inline(always)]
    pub(super) const fn packet(self, context: &PacketContext) -> Packet {
        let vlans = [self.0 as u32 & 0xffff, (self.0 >> 16) as u32 & 0xffff];
        context.packet(&Packet { vlans, tcp_flags: (self.0 >> 32) as u32, ..Packet::EMPTY })
    }
}

/// A packet under its rules, once it has left the fast path: which of them are left, and which have denied it. In one
/// place, because the kernel has little stack.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Evaluation {
    /// The packet.
    pub context: PacketContext,
    /// The bits of the rules that match and have not had their turn.
    pub left: u64,
    /// The bits of the rules that denied it, whether they drop or observe.
    pub denied: u64,
}

impl Evaluation {
    /// Nothing but the packet's size.
    #[must_use]
    #[inline(always)]
    pub const fn of_size(size: FrameSize) -> Self {
        Self { context: PacketContext::of_size(size), left: 0, denied: 0 }
    }
}
