//! What the kernel says about interfaces: their names and kinds, and the XDP program that each has.

use netlink_packet_core::{
    NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload, Nla as _,
};
use netlink_packet_route::{
    RouteNetlinkMessage,
    link::{
        InfoData, InfoGre, InfoKind, InfoTun, InfoVxlan, LinkAttribute, LinkInfo, LinkMessage, LinkXdp,
        XdpAttached,
    },
};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use serde::{Deserialize, Serialize};

use super::Error;

/// A network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct HostInterface {
    pub index: u32,
    pub name: String,
    pub xdp: Option<Attached>,
    /// The index of the one that it lies on, as a VLAN does.
    pub below: Option<u32>,
    /// The index of the bridge or bond that it is a port of.
    pub master: Option<u32>,
    /// Whether it is a bond.
    pub is_bond: bool,
    /// What its frames begin with, as the kernel's `if_arp.h` has it.
    pub layer: u16,
    pub driver: Driver,
}

/// What makes an interface, as far as it matters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Driver {
    /// TUN or TAP.
    Tun,
    /// The same, whose program may write joined packets: it says in a header how they came together.
    JoiningTun,
    /// One end of a veth pair.
    Veth,
    /// One VLAN of another interface.
    Vlan,
    /// A GRE tunnel whose packets keep their outer headers in front.
    OuterGre,
    /// IPsec, by its name.
    Ipsec(String),
    /// What other interfaces hand packets to that go on as packets of those: `ifb`.
    Ifb,
    /// A routing domain, which has packets of its interfaces.
    Vrf,
    /// Anything else.
    #[default]
    Other,
}

/// The XDP program of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Attached {
    pub program: u32,
    pub mode: AttachedMode,
}

/// How a program is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AttachedMode {
    /// In the driver.
    Native,
    /// In the kernel's stack, after the packet's buffer is allocated.
    Generic,
    /// On the network card.
    Hardware,
}

impl AttachedMode {
    /// The name that configurations and outputs use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Generic => "generic",
            Self::Hardware => "hardware",
        }
    }
}

/// How often a list that has changed while it was read is read again.
const TRIES: u32 = 10;

/// All interfaces of this network namespace.
pub(super) fn interfaces() -> Result<Vec<HostInterface>, Error> {
    for _ in 1..TRIES {
        if let Some(found) = dump()? {
            return Ok(found);
        }
    }
    dump()?.ok_or_else(|| Error::Netlink("the list of interfaces changes all the time".to_owned()))
}

/// The list, unless it has changed meanwhile.
fn dump() -> Result<Option<Vec<HostInterface>>, Error> {
    let failed = |error: std::io::Error| Error::Netlink(error.to_string());
    let mut socket = Socket::new(NETLINK_ROUTE).map_err(failed)?;
    socket.bind_auto().map_err(failed)?;
    socket.connect(&SocketAddr::new(0, 0)).map_err(failed)?;
    socket.send(&request(), 0).map_err(failed)?;
    let mut found = LinkList::default();
    loop {
        let (datagram, _) = socket.recv_from_full().map_err(failed)?;
        if read(&datagram, &mut found)? {
            return Ok((!found.is_interrupted).then_some(found.interfaces));
        }
    }
}

fn request() -> Vec<u8> {
    let mut message = NetlinkMessage::from(RouteNetlinkMessage::GetLink(LinkMessage::default()));
    message.header.flags = NLM_F_DUMP | NLM_F_REQUEST;
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    bytes
}

/// What has been read of a list.
#[derive(Default)]
struct LinkList {
    interfaces: Vec<HostInterface>,
    is_interrupted: bool,
}

/// Adds the interfaces of one datagram, and says whether it was the last.
fn read(mut bytes: &[u8], found: &mut LinkList) -> Result<bool, Error> {
    while !bytes.is_empty() {
        let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(bytes)
            .map_err(|error| Error::Netlink(error.to_string()))?;
        found.is_interrupted |= message.header.flags & NLM_F_DUMP_INTR != 0;
        match message.payload {
            NetlinkPayload::Done(_) => return Ok(true),
            NetlinkPayload::Error(error) => return Err(Error::Netlink(error.to_io().to_string())),
            NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) => {
                found.interfaces.push(interface(&link));
            }
            _ => {}
        }
        let length = (message.header.length as usize).next_multiple_of(4).max(16);
        bytes = bytes.get(length..).unwrap_or_default();
    }
    Ok(false)
}

fn interface(link: &LinkMessage) -> HostInterface {
    let name = link.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::IfName(name) => Some(name.clone()),
        _ => None,
    });
    let xdp = link.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::Xdp(xdp) => attached(xdp),
        _ => None,
    });
    let master = link.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::Controller(index) => Some(*index).filter(|index| *index != 0),
        _ => None,
    });
    HostInterface {
        index: link.header.index,
        name: name.unwrap_or_default(),
        xdp,
        below: below(link),
        master,
        is_bond: info(link).any(|info| matches!(info, LinkInfo::Kind(InfoKind::Bond))),
        layer: link.header.link_layer_type.into(),
        driver: driver(link),
    }
}

fn info(link: &LinkMessage) -> impl Iterator<Item = &LinkInfo> {
    let infos = link.attributes.iter().filter_map(|attribute| match attribute {
        LinkAttribute::LinkInfo(infos) => Some(infos),
        _ => None,
    });
    infos.flatten()
}

/// The other end of a wire is not below, nor is what has this index in another network namespace.
fn below(link: &LinkMessage) -> Option<u32> {
    let is_elsewhere =
        link.attributes.iter().any(|attribute| matches!(attribute, LinkAttribute::LinkNetNsId(_)));
    let is_wire = info(link).any(|info| matches!(info, LinkInfo::Kind(InfoKind::Veth)));
    if is_elsewhere || is_wire {
        return None;
    }
    let own = link.header.index;
    let linked = link.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::Link(index) => Some(*index),
        _ => None,
    });
    let carried = || {
        info(link).find_map(|info| match info {
            LinkInfo::Data(InfoData::Vxlan(options)) => options.iter().find_map(|option| match option {
                InfoVxlan::Link(index) => Some(*index),
                _ => None,
            }),
            _ => None,
        })
    };
    linked.or_else(carried).filter(|index| *index != 0 && *index != own)
}

fn driver(link: &LinkMessage) -> Driver {
    let kind = info(link).find_map(|info| match info {
        LinkInfo::Kind(kind) => Some(kind),
        _ => None,
    });
    match kind {
        Some(InfoKind::Tun) if has_joining_headers(link) => Driver::JoiningTun,
        Some(InfoKind::Tun) => Driver::Tun,
        Some(InfoKind::Veth) => Driver::Veth,
        Some(InfoKind::Vlan) => Driver::Vlan,
        Some(InfoKind::GreTun) if has_outer_headers(link) => Driver::OuterGre,
        Some(kind @ (InfoKind::Vti | InfoKind::Vti6 | InfoKind::Xfrm)) => Driver::Ipsec(kind.to_string()),
        Some(InfoKind::Vrf) => Driver::Vrf,
        Some(InfoKind::Ifb) => Driver::Ifb,
        _ => Driver::Other,
    }
}

/// From the kernel's `if_link.h`.
const IFLA_TUN_VNET_HDR: u16 = 5;

fn has_joining_headers(link: &LinkMessage) -> bool {
    let mut data = info(link).filter_map(|info| match info {
        LinkInfo::Data(InfoData::Tun(data)) => Some(data),
        _ => None,
    });
    let is_on = |one: &InfoTun| {
        let mut value = [0_u8; 1];
        if one.kind() != IFLA_TUN_VNET_HDR || one.value_len() != value.len() {
            return false;
        }
        one.emit_value(&mut value);
        value != [0]
    };
    data.any(|data| data.iter().any(is_on))
}

/// A GRE interface that has no peer of its own tells its users who sent a packet: by leaving the outer headers before
/// it.
fn has_outer_headers(link: &LinkMessage) -> bool {
    let data = info(link).find_map(|info| match info {
        LinkInfo::Data(InfoData::GreTun(data)) => Some(data.as_slice()),
        _ => None,
    });
    let data = data.unwrap_or_default();
    let has_peer = data.iter().any(|one| match one {
        InfoGre::Remote(address) => !address.is_unspecified() && !address.is_multicast(),
        _ => false,
    });
    !has_peer && !data.contains(&InfoGre::CollectMetadata)
}

fn attached(xdp: &[LinkXdp]) -> Option<Attached> {
    let program = xdp.iter().find_map(|attribute| match attribute {
        LinkXdp::ProgId(id) => Some(*id),
        LinkXdp::DrvProgId(id) | LinkXdp::SkbProgId(id) | LinkXdp::HwProgId(id) => Some(*id),
        _ => None,
    })?;
    let mode = xdp.iter().find_map(|attribute| match attribute {
        LinkXdp::Attached(XdpAttached::SocketBuffer) => Some(AttachedMode::Generic),
        LinkXdp::Attached(XdpAttached::Hardware) => Some(AttachedMode::Hardware),
        LinkXdp::Attached(XdpAttached::Driver) => Some(AttachedMode::Native),
        _ => None,
    });
    Some(Attached { program, mode: mode.unwrap_or(AttachedMode::Native) })
}
