//! What became of a packet, and why.

use crate::packet::Flag;

/// Why a packet passed or was dropped. Each packet has one reason, so their counters add up to all packets seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Reason {
    /// Every rule allowed it.
    Passed = 0,
    /// A rule denied it.
    Limited = 1,
    /// Passed: no IP addresses to judge it by.
    NotIp = 2,
    /// Passed: its source is on the allow list.
    Allowed = 3,
    /// Passed: IPv6 neighbour discovery.
    NeighbourDiscovery = 4,
    /// Passed: every rule allowed it, but a header is broken.
    Malformed = 5,
    /// Dropped: a header is broken, and `on_malformed` is `drop`; or VLAN tags without an id hide what it is.
    MalformedDropped = 6,
    /// Dropped: its source is on the deny list.
    Denied = 7,
    /// Dropped: its source is banned.
    Banned = 8,
    /// Passed: the rules were on trial, and nobody has confirmed them in time.
    Reverted = 9,
}

impl Reason {
    /// All of them, in the order of their counters.
    pub const ALL: [Self; 10] = [
        Self::Passed,
        Self::Limited,
        Self::NotIp,
        Self::Allowed,
        Self::NeighbourDiscovery,
        Self::Malformed,
        Self::MalformedDropped,
        Self::Denied,
        Self::Banned,
        Self::Reverted,
    ];

    /// The reason with a number, if there is one.
    #[must_use]
    #[inline(always)]
    pub const fn of(number: u64) -> Option<Self> {
        Some(match number {
            0 => Self::Passed,
            1 => Self::Limited,
            2 => Self::NotIp,
            3 => Self::Allowed,
            4 => Self::NeighbourDiscovery,
            5 => Self::Malformed,
            6 => Self::MalformedDropped,
            7 => Self::Denied,
            8 => Self::Banned,
            9 => Self::Reverted,
            _ => return None,
        })
    }

    /// The reason for a frame without addresses: it passes, unless it hides something, see
    /// [`crate::packet::NotIp::hides`].
    #[must_use]
    #[inline(always)]
    pub const fn of_not_ip(hides: Flag) -> Self {
        if hides == 0 { Self::NotIp } else { Self::MalformedDropped }
    }

    /// Whether packets with this reason were dropped.
    #[must_use]
    #[inline(always)]
    pub const fn is_drop(self) -> bool {
        Self::DROPS >> self as u32 & 1 != 0
    }

    /// The bits of those with which packets were dropped.
    const DROPS: u32 = 1 << Self::Limited as u32
        | 1 << Self::MalformedDropped as u32
        | 1 << Self::Denied as u32
        | 1 << Self::Banned as u32;

    /// The name that outputs use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Limited => "limited",
            Self::NotIp => "not_ip",
            Self::Allowed => "allowed",
            Self::NeighbourDiscovery => "neighbour_discovery",
            Self::Malformed => "malformed",
            Self::MalformedDropped => "malformed_dropped",
            Self::Denied => "denied",
            Self::Banned => "banned",
            Self::Reverted => "reverted",
        }
    }
}
