//! Kinds of interfaces: what their frames begin with, and whether a frame may stand for several packets. Each kind has
//! an instance of the program, so that no packet is asked.

use ratelimit_common::{packet::LinkLayer, wire::Globals};

use super::{
    AttachedMode, Error,
    netlink::{Driver, HostInterface},
};

/// Which instance of the program an interface takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InterfaceKind {
    /// Ethernet, as it comes off the wire.
    Ethernet,
    /// Ethernet, after the kernel may have joined packets.
    JoinedEthernet,
    /// IP packets without anything before them.
    RawIp,
    /// IP packets behind the outer headers of a GRE tunnel.
    OuterGre,
}

impl InterfaceKind {
    /// That of an interface in a mode.
    ///
    /// # Errors
    /// [`Error::Kind`] if the program can't read what such an interface hands over.
    pub(super) fn of(interface: &HostInterface, mode: AttachedMode) -> Result<Self, Error> {
        match link(interface)? {
            LinkLayer::RawIp => Ok(Self::RawIp),
            LinkLayer::OuterGre => Ok(Self::OuterGre),
            // What a program writes into a TAP device can be joined in either mode.
            LinkLayer::Ethernet
                if mode == AttachedMode::Generic
                    || matches!(interface.driver, Driver::Tun | Driver::JoiningTun) =>
            {
                Ok(Self::JoinedEthernet)
            }
            LinkLayer::Ethernet => Ok(Self::Ethernet),
        }
    }

    /// The constants of its instance.
    pub(super) const fn globals(self, all: Globals) -> Globals {
        let (link, joins) = match self {
            Self::Ethernet => (LinkLayer::Ethernet, 0),
            Self::JoinedEthernet => (LinkLayer::Ethernet, 1),
            Self::RawIp => (LinkLayer::RawIp, 1),
            Self::OuterGre => (LinkLayer::OuterGre, 1),
        };
        Globals { link: link as u32, joins, ..all }.with_fast_path()
    }
}

// From the kernel's `if_arp.h`.
const ETHERNET: u16 = 1;
const PPP: u16 = 512;
const RAWIP: u16 = 519;
const TUNNEL: u16 = 768;
const TUNNEL6: u16 = 769;
const LOOPBACK: u16 = 772;
const SIT: u16 = 776;
const IPGRE: u16 = 778;
const IP6GRE: u16 = 823;
const NONE: u16 = 0xfffe;

/// What the frames of an interface begin with.
pub(super) fn link(interface: &HostInterface) -> Result<LinkLayer, Error> {
    let refused = |what: String| Error::Kind { interface: interface.name.clone(), what };
    match (interface.layer, &interface.driver) {
        (_, Driver::Ipsec(name)) => Err(refused(format!(
            "is an IPsec interface (`{name}`): what it hands over begins with headers of the interface that the packets \
             came on. Limit there, by the tunnel's outer addresses"
        ))),
        (ETHERNET | LOOPBACK, _) => Ok(LinkLayer::Ethernet),
        (IPGRE, Driver::OuterGre) => Ok(LinkLayer::OuterGre),
        (NONE | PPP | RAWIP | TUNNEL | TUNNEL6 | SIT | IPGRE | IP6GRE, _) => Ok(LinkLayer::RawIp),
        (other, _) => Err(refused(format!(
            "is {}, whose frames the program can't read: it reads Ethernet, and IP without a header before it \
             (TUN, WireGuard, PPP, IPIP, SIT, GRE)",
            name(other)
        ))),
    }
}

/// A link type as its users call it.
fn name(layer: u16) -> String {
    let name = match layer {
        32 => "an InfiniBand interface",
        280 => "a CAN interface",
        801..=803 => "a wireless interface in monitor mode",
        804 | 805 => "an IEEE 802.15.4 interface",
        820 => "a PhoNet interface",
        824 => "a monitor of netlink",
        825 => "a 6LoWPAN interface",
        _ => return format!("an interface of link type {layer}"),
    };
    format!("{name} (link type {layer})")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(layer: u16, driver: Driver) -> HostInterface {
        HostInterface { index: 7, name: "some0".to_owned(), layer, driver, ..HostInterface::default() }
    }

    #[test]
    fn each_kind_of_interface_has_its_instance() {
        for (layer, driver, native, generic) in [
            (1, Driver::Other, InterfaceKind::Ethernet, InterfaceKind::JoinedEthernet),
            (1, Driver::Vlan, InterfaceKind::Ethernet, InterfaceKind::JoinedEthernet),
            (1, Driver::Tun, InterfaceKind::JoinedEthernet, InterfaceKind::JoinedEthernet),
            (1, Driver::JoiningTun, InterfaceKind::JoinedEthernet, InterfaceKind::JoinedEthernet),
            (1, Driver::Veth, InterfaceKind::Ethernet, InterfaceKind::JoinedEthernet),
            (772, Driver::Other, InterfaceKind::Ethernet, InterfaceKind::JoinedEthernet),
            (0xfffe, Driver::Tun, InterfaceKind::RawIp, InterfaceKind::RawIp),
            (0xfffe, Driver::Other, InterfaceKind::RawIp, InterfaceKind::RawIp),
            (512, Driver::Other, InterfaceKind::RawIp, InterfaceKind::RawIp),
            (519, Driver::Other, InterfaceKind::RawIp, InterfaceKind::RawIp),
            (768, Driver::Other, InterfaceKind::RawIp, InterfaceKind::RawIp),
            (769, Driver::Other, InterfaceKind::RawIp, InterfaceKind::RawIp),
            (776, Driver::Other, InterfaceKind::RawIp, InterfaceKind::RawIp),
            (778, Driver::Other, InterfaceKind::RawIp, InterfaceKind::RawIp),
            (823, Driver::Other, InterfaceKind::RawIp, InterfaceKind::RawIp),
            (778, Driver::OuterGre, InterfaceKind::OuterGre, InterfaceKind::OuterGre),
        ] {
            let interface = interface(layer, driver);
            assert_eq!(InterfaceKind::of(&interface, AttachedMode::Native).unwrap(), native, "{interface:?}");
            assert_eq!(
                InterfaceKind::of(&interface, AttachedMode::Generic).unwrap(),
                generic,
                "{interface:?}"
            );
        }
    }

    #[test]
    fn a_kind_that_cannot_be_read_is_refused_by_name() {
        for (layer, driver, expected) in [
            (280, Driver::Other, "some0 is a CAN interface (link type 280)"),
            (999, Driver::Other, "some0 is an interface of link type 999"),
            (768, Driver::Ipsec("vti".to_owned()), "some0 is an IPsec interface (`vti`)"),
            (0xfffe, Driver::Ipsec("xfrm".to_owned()), "Limit there"),
        ] {
            let error =
                InterfaceKind::of(&interface(layer, driver), AttachedMode::Native).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
