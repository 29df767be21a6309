//! What the host receives: the IPv4 frames that are left behind the XDP program, as a packet socket sees them.

use std::{
    io,
    net::Ipv4Addr,
    os::fd::{AsRawFd as _, OwnedFd},
};

use nix::{
    errno::Errno,
    sys::socket::{MsgFlags, recv, setsockopt, sockopt::RcvBufForce},
};

use crate::frames::{IPV4, packet_socket};

/// A packet socket on one of the server's interfaces. It does not see what is sent there.
pub struct Wiretap {
    socket: OwnedFd,
    count: u64,
}

impl Wiretap {
    pub fn new(interface: &str) -> Self {
        let socket = packet_socket(interface, IPV4);
        setsockopt(&socket, RcvBufForce, &(64 << 20)).unwrap();
        Self { socket, count: 0 }
    }

    /// How many frames so far, whether there was room to keep them or not.
    pub fn count(&mut self) -> u64 {
        let mut found = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        let mut length = size_of_val(&found) as u32;
        // SAFETY: pointers and length are those of what is written.
        let done = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut found).cast(),
                &raw mut length,
            )
        };
        assert_eq!(done, 0, "{}", io::Error::last_os_error());
        // Each answer begins anew.
        self.count += u64::from(found.tp_packets);
        self.count
    }

    /// The sources of the frames that have come since the last time.
    pub fn sources(&self) -> Vec<Ipv4Addr> {
        std::iter::from_fn(|| {
            let mut start = [0; 34];
            match recv(self.socket.as_raw_fd(), &mut start, MsgFlags::MSG_DONTWAIT) {
                Ok(_) => Some(Ipv4Addr::from_octets([start[26], start[27], start[28], start[29]])),
                Err(Errno::EAGAIN) => None,
                Err(error) => panic!("{error}"),
            }
        })
        .collect()
    }
}
