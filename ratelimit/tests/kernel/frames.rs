//! Frames, byte by byte, and a socket that puts them on the wire as they are.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
};

use nix::net::if_::if_nametoindex;

use crate::net::{CLIENT_MAC, Link, SERVER_MAC, client_interface};

pub const ARP: u16 = 0x0806;
pub const IPV4: u16 = 0x0800;
pub const IPV6: u16 = 0x86dd;
pub const UDP: u8 = 17;
pub const ICMPV6: u8 = 58;

pub fn ethernet(kind: u16, payload: &[u8]) -> Vec<u8> {
    [&SERVER_MAC[..], &CLIENT_MAC, &kind.to_be_bytes(), payload].concat()
}

/// An IPv4 packet with a header length in words that is what it should be, or not.
pub fn ipv4(source: Ipv4Addr, words: u8, payload: &[u8]) -> Vec<u8> {
    let length = 20 + payload.len() as u16;
    let mut header = vec![0x40 | words, 0, 0, 0, 0, 0, 0, 0, 64, UDP, 0, 0];
    header[2..4].copy_from_slice(&length.to_be_bytes());
    header.extend(source.octets());
    header.extend([10, 1, 0, 1]);
    ethernet(IPV4, &[&header, payload].concat())
}

pub fn ipv6(source: Ipv6Addr, next: u8, hop_limit: u8, payload: &[u8]) -> Vec<u8> {
    let mut header = vec![0x60, 0, 0, 0];
    header.extend((payload.len() as u16).to_be_bytes());
    header.extend([next, hop_limit]);
    header.extend(source.octets());
    header.extend([0xfd; 16]);
    ethernet(IPV6, &[&header, payload].concat())
}

/// A UDP packet from a source.
pub fn udp(source: IpAddr) -> Vec<u8> {
    let datagram = [0x10, 0, 0x20, 0, 0, 16, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
    match source {
        IpAddr::V4(source) => ipv4(source, 5, &datagram),
        IpAddr::V6(source) => ipv6(source, UDP, 64, &datagram),
    }
}

/// A raw socket on the client's end of a link.
pub struct Raw(OwnedFd);

impl Raw {
    /// Protocol 0: it receives nothing.
    pub fn new(link: &Link) -> Self {
        Self::on(link, client_interface())
    }

    /// On another interface of the client.
    pub fn on(link: &Link, interface: &str) -> Self {
        Self(link.client.enter(|| packet_socket(interface, 0)))
    }

    pub fn send(&self, frame: &[u8]) {
        assert_eq!(nix::unistd::write(&self.0, frame), Ok(frame.len()));
    }
}

/// A packet socket on an interface of this namespace, which receives frames of this kind.
pub fn packet_socket(interface: &str, kind: u16) -> OwnedFd {
    let index = if_nametoindex(interface).unwrap();
    // SAFETY: a call without pointers; the descriptor is new, so nobody else owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(libc::socket(libc::AF_PACKET, libc::SOCK_RAW, 0)) };
    // SAFETY: all zeros is an address.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = kind.to_be();
    address.sll_ifindex = index.cast_signed();
    let length = size_of::<libc::sockaddr_ll>() as u32;
    // SAFETY: pointer and length are the address's.
    let bound = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) };
    assert_eq!(bound, 0, "{}", std::io::Error::last_os_error());
    socket
}
