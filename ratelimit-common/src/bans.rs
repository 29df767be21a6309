//! Bans: source prefixes of which everything is dropped until a deadline.
//!
//! A table like that of the buckets, whose keys are prefixes and whose states are deadlines: a ban that has ended is an
//! idle slot, so bans expire by themselves, and in a full table the one that ends soonest gives way. A word for each
//! half of the lengths says which ones may have a ban; only these are looked up. Beside each slot is a record of its
//! last ban, by which the next one of the same prefix can be longer: it lasts until another ban takes the slot, and so
//! displaces none.

mod length;
#[cfg(feature = "network")]
mod table;

pub use self::length::{BanLength, BanRecord, BanSchedule};
#[cfg(feature = "network")]
pub use self::table::{
    BanPrefix, BanRequest, BanTable, Lengths, REASON_BYTES, SETS, TEXT_BYTES, is_banned, make,
};
