//! Any bytes are a packet or not IP; what is read of them is in range, and the same again, by all that read it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ratelimit_common::{
    classify::{Dimension, Tables, matching},
    packet::{self, Address, LinkLayer, Linked, NotIp, outer_length},
};

#[path = "../../tests/support/readers.rs"]
mod readers;

/// Tables that only check their rows.
struct Checked;

impl Tables for Checked {
    fn asks(&self, _: Dimension) -> bool {
        true
    }

    fn row(&self, dimension: Dimension, row: u64) -> u64 {
        assert!(row < dimension.rows().into(), "{dimension:?} {row}");
        u64::MAX
    }

    fn source(&self, _: &Address) -> u64 {
        u64::MAX
    }

    fn destination(&self, _: &Address) -> u64 {
        u64::MAX
    }
}

fuzz_target!(|frame: &[u8]| {
    readers::check(frame);
    for link in [LinkLayer::Ethernet, LinkLayer::RawIp, LinkLayer::OuterGre] {
        let frame = Linked(link, frame);
        assert!(outer_length(&frame) <= frame.1.len() as u64);
        match packet::parse(&frame) {
            Ok(packet) => {
                assert_eq!(matching(&Checked, &packet, frame.1.len() as u64), u64::MAX);
                assert_eq!(packet.source.family, packet.destination.family);
                assert!(packet.malformed <= 1 && packet.is_neighbour_discovery <= 1);
                assert_eq!(packet::parse(&frame), Ok(packet));
            }
            Err(NotIp { vlans, hides }) => {
                assert!(hides <= 1 && vlans.iter().all(|&vlan| vlan <= packet::NO_VLAN));
            }
        }
    }
});
