//! Banning clients whose requests are denied again and again: for those who can drop packets.

use std::num::NonZeroU32;

use ratelimit_common::time::Nanos;

/// When somebody is banned, and for how long: the same for packets and for requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BanTerms {
    /// After so many denials
    pub after: NonZeroU32,
    /// within this time
    pub within: Nanos,
    /// for this one.
    pub length: Nanos,
}

impl BanTerms {
    /// The longest ban.
    pub const LONGEST: Nanos = Nanos::YEAR;
}

/// A client of which a limit has denied so many requests within a time is banned for another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestBan {
    /// When, and for how long.
    pub terms: BanTerms,
    /// How many bits of its IPv4 address are banned.
    pub ipv4: u8,
    /// How many bits of its IPv6 address are.
    pub ipv6: u8,
    /// The entry of the descriptor that has the address, if a gateway says it; else it is who is connected to the proxy.
    pub source_entry: Option<String>,
}
