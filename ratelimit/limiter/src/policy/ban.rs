//! Banning clients whose requests are denied again and again: for those who can drop packets.

use std::num::NonZeroU32;

use ratelimit_common::{
    bans::{BanLength, BanSchedule},
    time::Nanos,
};

/// When somebody is banned, and for how long: the same for packets and for requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BanTerms {
    /// After so many denials
    pub after: NonZeroU32,
    /// within this time
    pub within: Nanos,
    /// for this one.
    pub length: BanLength,
    /// Whether those who are banned again are banned for longer.
    pub longer: Option<Lengthening>,
}

/// How bans lengthen. Only those do that have an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lengthening {
    /// So many times as long as the one before
    pub factor: NonZeroU32,
    /// up to this time,
    pub up_to: Nanos,
    /// unless the one before ended longer ago than this.
    pub forget: Nanos,
}

impl BanTerms {
    /// The longest ban that has an end.
    pub const LONGEST: Nanos = Nanos::YEAR;

    /// The highest factor.
    pub const MOST_FACTOR: u32 = 1_000;

    /// As who makes bans has them.
    #[must_use]
    pub const fn for_the_table(&self) -> BanSchedule {
        match (self.length, self.longer) {
            (BanLength::For(length), Some(Lengthening { factor, up_to, forget })) => {
                BanSchedule::lengthening(length, factor.get(), up_to, forget)
            }
            (length, _) => BanSchedule::constant(length),
        }
    }
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
    /// The entry of the descriptor that has the address, if a gateway says it; else it is who is connected to the
    /// proxy.
    pub source_entry: Option<String>,
}
