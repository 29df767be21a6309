//! The TCP flags of a condition.

use super::Items;
use crate::{
    error::Report,
    fields::LocatedTexts,
    numbers::{ACK, SYN, TCP_FLAGS},
    policy::TcpFlags,
    raw::RawFlags,
    words::parse_word,
};

/// Judges flags. With a mistake reported, what comes back is not to be used.
pub fn validate(raw: &RawFlags, report: &mut Report) -> Option<TcpFlags> {
    match raw {
        RawFlags::List(texts) => {
            let set = all(&read(Some(texts), report));
            // A SYN opens a connection, a SYN with ACK answers one: who names the one does not mean the other.
            let opens = set & (SYN | ACK) == SYN;
            Some(TcpFlags { set, unset: if opens { ACK } else { 0 } })
        }
        RawFlags::Mask { set, unset, .. } => {
            let set = all(&read(set.as_ref(), report));
            let unset = read(unset.as_ref(), report);
            for (flag, at) in unset.items.iter().filter(|(flag, _)| set & flag != 0) {
                let name = TCP_FLAGS.iter().find(|(_, bit)| bit == flag).map_or("it", |(name, _)| name);
                report.error(
                    at,
                    format!("`{name}` can't be both set and unset; take it out of one of the lists"),
                );
            }
            Some(TcpFlags { set, unset: all(&unset) })
        }
    }
}

fn read<'r>(texts: Option<&'r LocatedTexts>, report: &mut Report) -> Items<'r, u8> {
    Items::read(texts, |text| parse_word(text, &TCP_FLAGS), report)
}

fn all(flags: &Items<'_, u8>) -> u8 {
    flags.items.iter().fold(0, |all, (flag, _)| all | flag)
}
