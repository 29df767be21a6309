//! The stages of a packet, in their order: parse, allow list, neighbour discovery, rules.

use ratelimit_common::{packet, wire::Reason};

use crate::{allow, frame::XdpFrame, rules};

#[inline(always)]
pub fn judge(frame: &XdpFrame) -> Reason {
    let packet = match packet::parse(frame) {
        Ok(packet) => packet,
        Err(packet::NotIp) => return Reason::NotIp,
    };
    if allow::contains(&packet.source) {
        return Reason::Allowed;
    }
    // A flood must not cut the host off its own link.
    if packet.is_neighbour_discovery {
        return Reason::NeighbourDiscovery;
    }
    match (rules::allow(packet.source, frame.wire_length()), packet.malformed) {
        (false, _) => Reason::Limited,
        (true, 0) => Reason::Passed,
        (true, _) => Reason::Malformed,
    }
}
