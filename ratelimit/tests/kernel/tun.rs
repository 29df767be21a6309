//! TUN devices: interfaces without Ethernet headers, into which a test writes packets as if they came from outside.

use std::{
    fs::{File, OpenOptions},
    io::Write as _,
    os::fd::AsRawFd as _,
};

use crate::net::ip;

const TUNSETIFF: libc::c_ulong = 0x4004_54ca;
const TUNSETLINK: libc::c_ulong = 0x4004_54cd;

/// A device, which is gone when this is.
pub struct Tun(File);

impl Tun {
    /// Makes it and sets it up.
    pub fn new(name: &str) -> Self {
        let tun = Self::down(name);
        ip(&format!("link set {name} up"));
        tun
    }

    /// Makes one with Ethernet headers, as for a virtual machine, which may write joined packets.
    pub fn joining(name: &str) -> Self {
        let tap = Self::with(name, libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR);
        ip(&format!("link set {name} up"));
        tap
    }

    /// Makes it.
    pub fn down(name: &str) -> Self {
        Self::with(name, libc::IFF_TUN | libc::IFF_NO_PI)
    }

    fn with(name: &str, flags: libc::c_int) -> Self {
        let file = OpenOptions::new().read(true).write(true).open("/dev/net/tun").expect("/dev/net/tun");
        // SAFETY: all zeros is a request.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from.cast_signed();
        }
        request.ifr_ifru.ifru_flags = flags as i16;
        // SAFETY: the request lives during the call.
        let done = unsafe { libc::ioctl(file.as_raw_fd(), TUNSETIFF, &raw mut request) };
        assert_eq!(done, 0, "{name}: {}", std::io::Error::last_os_error());
        Self(file)
    }

    /// Gives it, while it is down, another link type.
    pub fn set_type(&self, kind: u16) {
        // SAFETY: numbers only.
        let done = unsafe { libc::ioctl(self.0.as_raw_fd(), TUNSETLINK, libc::c_ulong::from(kind)) };
        assert_eq!(done, 0, "{kind}: {}", std::io::Error::last_os_error());
    }

    /// Lets a packet come in.
    pub fn send(&self, packet: &[u8]) {
        assert_eq!((&self.0).write(packet).unwrap(), packet.len());
    }
}
