//! What is to be limited, and how: the validated form of a configuration.
//!
//! Values are checked where they are made, so a policy that exists is right: names, prefixes and limits can't be built
//! wrong, rules are at most [`PacketRules::MOST`] and their names differ. How it is written is for `config`, how it is
//! enforced for the data plane; neither is known here.
#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod application;
mod ban;
pub mod format;
mod key;
mod limit;
mod lists;
pub mod match_text;
mod matches;
mod name;
pub mod numbers;
mod range;
mod sets;

use std::{net::SocketAddr, path::PathBuf};

pub use application::Application;
pub use ban::{PacketBan, PacketBanError};
pub use key::{KeyPart, PacketKey, PrefixLength, PrefixLengths};
pub use limit::{LimitUnit, PacketLimit, PacketLimitError};
pub use lists::{ListPart, ListPurpose};
pub use matches::{Fragment, IcmpType, IpVersion, Match, TcpFlags};
pub use name::{InstanceName, InterfaceName, NameError, RuleName};
pub use range::Range;
pub use ratelimit_common::bans::BanLength;
pub use ratelimit_limiter::application::{BanTerms, Lengthening};
pub use ratelimit_limiter::prefix::{Prefix, PrefixError, RangeError};
use ratelimit_limiter::text;
pub use sets::{Interfaces, PacketRules, PrefixList, RulePart, SetError, duplicates};

/// Everything that one daemon is to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// The name of its pinned directory.
    pub instance: InstanceName,
    /// What to do with packets.
    pub network: Option<Network>,
    /// What to answer about requests.
    pub application: Option<Application>,
    /// Where metrics are served, if they are.
    pub metrics: Option<SocketAddr>,
    /// The control socket, if not at its default place.
    pub control: Option<PathBuf>,
}

/// What is done with packets.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// Where; may be empty until the command line has named some.
    pub interfaces: Interfaces,
    /// Those of the file that the command line has left out by naming others.
    pub left_out: Interfaces,
    /// Sources that are never limited, denied or banned.
    pub allow: PrefixList,
    /// Sources of which everything is dropped.
    pub deny: PrefixList,
    /// Where these came from, and the prefixes of rules that came from files.
    pub lists: Vec<ListPart>,
    /// How many buckets there are.
    pub table: TableSize,
    /// What a clean stop does.
    pub on_exit: OnExit,
    /// What happens to IP packets with broken headers that no rule dropped.
    pub on_malformed: OnMalformed,
    /// The rules, in file order.
    pub rules: PacketRules,
}

/// An interface to attach to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: InterfaceName,
    /// How to attach.
    pub mode: AttachMode,
}

/// How to attach to an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AttachMode {
    /// In the driver if it can, else generic.
    #[default]
    Auto,
    /// In the driver, or not at all.
    Native,
    /// After the kernel has allocated the packet's buffer: slower, works with every driver.
    Generic,
}

/// What a clean stop does with what is attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnExit {
    /// Takes it off.
    #[default]
    Detach,
    /// Leaves it in force.
    Keep,
}

/// What happens to IP packets with broken headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnMalformed {
    /// They pass.
    #[default]
    Pass,
    /// They are dropped.
    Drop,
}

/// A limit on each key's packets.
#[derive(Clone, Debug, PartialEq)]
pub struct PacketRule {
    /// Its name.
    pub name: RuleName,
    /// Which packets it is about.
    pub matches: Match,
    /// Which of these it never judges: what fulfils one of these.
    pub except: Vec<Match>,
    /// What has a bucket of its own.
    pub key: PacketKey,
    /// How much of it may pass.
    pub limit: PacketLimit,
    /// What is done above the limit.
    pub action: Action,
    /// How many new buckets the rule may make; above that, packets of unknown keys are over the limit.
    pub new_sources: Option<PacketLimit>,
    /// When a source is banned.
    pub ban: Option<PacketBan>,
}

/// What is done with packets above a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Action {
    /// They are dropped.
    #[default]
    Drop,
    /// They pass, and are counted.
    Observe,
}

/// The number of buckets: a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableSize(u32);

impl TableSize {
    /// From 4,096 sets of 8 to two gigabytes.
    pub const RANGE: Range = Range::new(1 << 15, 1 << 27);
    /// 16 MiB.
    pub const DEFAULT: Self = Self(1 << 20);

    /// The next power of two; `None` if `buckets` are out of range.
    #[must_use]
    pub fn at_least(buckets: u64) -> Option<Self> {
        let in_range = Self::RANGE.contains(buckets);
        in_range.then(|| buckets.next_power_of_two()).and_then(|slots| u32::try_from(slots).ok()).map(Self)
    }

    /// The number of buckets.
    #[must_use]
    pub const fn slots(self) -> u32 {
        self.0
    }
}

impl Default for TableSize {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl Network {
    /// The files of prefixes that it names; one that several lists name is there several times.
    pub fn list_files(&self) -> impl Iterator<Item = &PathBuf> {
        self.lists.iter().filter_map(|part| part.file.as_ref())
    }

    /// How many sources that were not there before may come in a second, one packet each, before the table is half
    /// full of buckets in use; up to there hardly any is lost. As if `rule` had the table to itself.
    #[must_use]
    pub fn new_sources_per_second(&self, rule: &PacketRule) -> u64 {
        rule.limit.idle_again_per_second(self.table.slots() / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_sizes_are_powers_of_two_in_range() {
        let cases = [
            (0, None),
            (1, None),
            (32_767, None),
            (32_768, Some(32_768)),
            (32_769, Some(65_536)),
            (1_000_000, Some(1_048_576)),
            (1 << 27, Some(1 << 27)),
            ((1 << 27) + 1, None),
            (u64::MAX, None),
        ];
        for (buckets, expected) in cases {
            assert_eq!(TableSize::at_least(buckets).map(TableSize::slots), expected, "{buckets}");
        }
    }
}
