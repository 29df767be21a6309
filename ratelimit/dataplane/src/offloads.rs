//! What happens to packets before the program sees them, and what of the rules that makes loose or idle: packets are
//! joined to longer frames, VLAN tags are taken off, or the packets never come in on this interface. Asked of the
//! kernel by ethtool's ioctl.

use std::{
    io,
    os::fd::{AsFd as _, AsRawFd as _},
};

use nix::{
    libc,
    sys::socket::{AddressFamily, SockFlag, SockType, socket},
};
use ratelimit_common::packet::LinkLayer;
use serde::{Deserialize, Serialize};

use super::{
    AttachedMode, Attachment, kind,
    netlink::{self, Driver, HostInterface},
};
use crate::policy::{LimitUnit, PacketRules};

/// What rules go by that an interface may keep from the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requirements {
    /// The number of packets.
    pub packets: bool,
    /// VLAN tags.
    pub vlans: bool,
}

impl Requirements {
    /// What these rules go by.
    #[must_use]
    pub fn of(rules: &PacketRules) -> Self {
        Self {
            packets: rules.iter().any(|rule| rule.limit.unit() == LimitUnit::Packets),
            vlans: rules.iter().any(|rule| !rule.matches.vlans.is_empty()),
        }
    }
}

/// What the rules can't do on these interfaces as they are set up now, and the command that changes it.
#[must_use]
pub fn warnings(asks: Requirements, attachments: &[Attachment]) -> Vec<String> {
    // Who can't be asked has no warning; that the interfaces can't be listed is said elsewhere.
    let interfaces = netlink::interfaces().unwrap_or_default();
    let mut found = Vec::new();
    for attachment in attachments {
        let Some(interface) = interfaces.iter().find(|one| one.index == attachment.index) else { continue };
        let offloads = Offloads::of(&interface.name).unwrap_or_default();
        found.extend(joined(asks, attachment.mode, interface, offloads));
        found.extend(sent_joined(asks, attachment.mode, interface));
        found.extend(untagged(asks, interface, offloads));
        found.extend(unseen(interface));
    }
    found
}

fn joined(
    asks: Requirements,
    mode: AttachedMode,
    interface: &HostInterface,
    offloads: Offloads,
) -> Option<String> {
    let name = &interface.name;
    let (gro, lro) = (offloads.gro, offloads.lro);
    (asks.packets && mode == AttachedMode::Generic && (gro || lro)).then(|| {
        let off = match (gro, lro) {
            (true, true) => "gro off lro off",
            (true, false) => "gro off",
            (false, _) => "lro off",
        };
        format!(
            "{name} joins packets before the program counts them, since it is attached in generic mode: a joined frame \
             counts as the packets that its bytes make at the MTU, which can be fewer than came; `ethtool -K {name} {off}` \
             ends that"
        )
    })
}

/// Whoever sends has joined them, and nothing on this side ends it.
fn sent_joined(asks: Requirements, mode: AttachedMode, interface: &HostInterface) -> Option<String> {
    let name = &interface.name;
    let (who, instead) = match interface.driver {
        Driver::Veth if mode == AttachedMode::Generic => {
            ("the other end of the pair that it belongs to", "native mode sees each packet")
        }
        Driver::JoiningTun => {
            ("the program or virtual machine behind it", "a limit in bytes counts all of its data")
        }
        _ => return None,
    };
    asks.packets.then(|| {
        format!(
            "packets can come in on {name} joined by {who}: a joined frame counts as the packets that its bytes make at \
             the MTU, which can be fewer than it stands for; {instead}"
        )
    })
}

fn untagged(asks: Requirements, interface: &HostInterface, offloads: Offloads) -> Option<String> {
    let name = &interface.name;
    let has_ethernet = kind::link(interface).is_ok_and(|link| link == LinkLayer::Ethernet);
    let why = if !has_ethernet {
        format!("packets on {name} have no VLAN tags")
    } else if interface.driver == Driver::Vlan {
        format!("{name} is one VLAN, whose tags are gone: limit on the interface below it")
    } else if offloads.rx_vlan {
        format!(
            "{name} takes VLAN tags off before the program sees packets: `ethtool -K {name} rxvlan off` leaves them on"
        )
    } else {
        return None;
    };
    asks.vlans.then(|| format!("rules with `match: {{vlan: ...}}` never match on {name}, because {why}"))
}

fn unseen(interface: &HostInterface) -> Option<String> {
    let name = &interface.name;
    let where_to = match interface.driver {
        Driver::Ifb => "what is redirected to it comes in on other interfaces: limit there",
        Driver::Vrf => "it has the packets of the interfaces in it: limit those",
        _ => return None,
    };
    Some(format!("packets hardly ever come in on {name}, so nothing is limited: {where_to}"))
}

/// The features of an interface that matter here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Offloads {
    gro: bool,
    lro: bool,
    rx_vlan: bool,
}

// From the kernel's `sockios.h` and `ethtool.h`.
const SIOCETHTOOL: libc::Ioctl = 0x8946;
const GET_FLAGS: u32 = 0x25;
const GET_GRO: u32 = 0x2b;
const FLAG_RX_VLAN: u32 = 1 << 8;
const FLAG_LRO: u32 = 1 << 15;

impl Offloads {
    fn of(interface: &str) -> io::Result<Self> {
        let flags = ask(interface, GET_FLAGS)?;
        Ok(Self {
            gro: ask(interface, GET_GRO)? != 0,
            lro: flags & FLAG_LRO != 0,
            rx_vlan: flags & FLAG_RX_VLAN != 0,
        })
    }
}

/// `struct ethtool_value`.
#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

fn ask(interface: &str, command: u32) -> io::Result<u32> {
    let socket = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    let mut value = EthtoolValue { command, data: 0 };
    // SAFETY: all zeros is a request.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The name's last byte stays zero.
    let room = libc::IFNAMSIZ - 1;
    for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes().take(room)) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    // SAFETY: the request and the value that it points to live during the call, which writes no more than that.
    let done = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), SIOCETHTOOL, &raw mut request) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(value.data) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(layer: u16, driver: Driver) -> HostInterface {
        HostInterface { index: 7, name: "some0".to_owned(), layer, driver, ..HostInterface::default() }
    }

    #[test]
    fn each_warning_has_the_command_or_the_way_out() {
        let all = Requirements { packets: true, vlans: true };
        let ethernet = interface(1, Driver::Other);
        let on = Offloads { gro: true, lro: true, rx_vlan: true };
        let off = Offloads::default();
        for (asks, mode, offloads, expected) in [
            (all, AttachedMode::Generic, on, Some("`ethtool -K some0 gro off lro off`")),
            (all, AttachedMode::Generic, Offloads { gro: true, ..off }, Some("`ethtool -K some0 gro off`")),
            (all, AttachedMode::Generic, off, None),
            (all, AttachedMode::Native, on, None),
            (Requirements { packets: false, ..all }, AttachedMode::Generic, on, None),
        ] {
            let said = joined(asks, mode, &ethernet, offloads).unwrap_or_default();
            assert!(said.contains(expected.unwrap_or_default()), "{said}");
            assert_eq!(said.is_empty(), expected.is_none(), "{said}");
        }
        for (asks, interface, offloads, expected) in [
            (all, &ethernet, on, Some("`ethtool -K some0 rxvlan off`")),
            (all, &ethernet, off, None),
            (Requirements { vlans: false, ..all }, &ethernet, on, None),
            (all, &interface(0xfffe, Driver::Tun), off, Some("packets on some0 have no VLAN tags")),
            (all, &interface(1, Driver::Vlan), off, Some("limit on the interface below it")),
        ] {
            let said = untagged(asks, interface, offloads).unwrap_or_default();
            assert!(said.contains(expected.unwrap_or_default()), "{said}");
            assert_eq!(said.is_empty(), expected.is_none(), "{said}");
        }
        for (asks, mode, driver, expected) in [
            (all, AttachedMode::Generic, Driver::Veth, Some("native mode sees each packet")),
            (all, AttachedMode::Native, Driver::Veth, None),
            (all, AttachedMode::Native, Driver::JoiningTun, Some("a limit in bytes counts all of its data")),
            (all, AttachedMode::Native, Driver::Tun, None),
            (Requirements { packets: false, ..all }, AttachedMode::Generic, Driver::Veth, None),
        ] {
            let said = sent_joined(asks, mode, &interface(1, driver)).unwrap_or_default();
            assert!(said.contains(expected.unwrap_or_default()), "{said}");
            assert_eq!(said.is_empty(), expected.is_none(), "{said}");
        }
        for (driver, expected) in [
            (Driver::Other, None),
            (Driver::Ifb, Some("comes in on other interfaces: limit there")),
            (Driver::Vrf, Some("of the interfaces in it: limit those")),
        ] {
            let said = unseen(&interface(1, driver)).unwrap_or_default();
            assert!(said.contains(expected.unwrap_or_default()), "{said}");
            assert_eq!(said.is_empty(), expected.is_none(), "{said}");
        }
    }
}
