//! An XDP program that is not ours, made without any of our code: it passes everything.

use std::{
    ffi::CString,
    io,
    os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
};

use nix::net::if_::if_nametoindex;

const PROG_LOAD: i64 = 5;
const OBJ_PIN: i64 = 6;
const LINK_CREATE: i64 = 28;
const TYPE_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;

/// Attached as long as it lives.
pub struct Foreign {
    _link: OwnedFd,
}

impl Foreign {
    pub fn attach(interface: &str) -> Self {
        let program = load();
        let mut attributes = Attributes([0; 16]);
        attributes.set_half(0, program.as_raw_fd().cast_unsigned());
        attributes.set_half(1, if_nametoindex(interface).unwrap());
        attributes.set_half(2, ATTACH_XDP);
        Self { _link: attributes.call(LINK_CREATE) }
    }
}

/// Pins one, so that other tools can attach it.
pub fn pin(path: &str) {
    let (program, path) = (load(), CString::new(path).unwrap());
    let mut attributes = Attributes([0; 16]);
    attributes.0[0] = path.as_ptr() as u64;
    attributes.set_half(2, program.as_raw_fd().cast_unsigned());
    assert_eq!(attributes.try_call(OBJ_PIN), 0, "{}", io::Error::last_os_error());
}

fn load() -> OwnedFd {
    // r0 = 2 (XDP_PASS); exit
    load_instructions(&[0x0000_0002_0000_00b7, 0x95])
}

/// Loads a program of these instructions.
pub fn load_instructions(instructions: &[u64]) -> OwnedFd {
    let mut attributes = Attributes([0; 16]);
    attributes.set_half(0, TYPE_XDP);
    attributes.set_half(1, instructions.len() as u32);
    attributes.0[1] = instructions.as_ptr() as u64;
    attributes.0[2] = c"GPL".as_ptr() as u64;
    attributes.0[6] = u64::from_ne_bytes(*b"somebody");
    attributes.call(PROG_LOAD)
}

/// `union bpf_attr`, of which the first 128 bytes.
pub struct Attributes(pub [u64; 16]);

impl Attributes {
    pub fn set_half(&mut self, index: usize, value: u32) {
        let shift = index % 2 * 32;
        self.0[index / 2] |= u64::from(value) << shift;
    }

    pub fn try_call(&self, command: i64) -> i64 {
        // SAFETY: the attributes, and what they point to, live during the call.
        unsafe { libc::syscall(libc::SYS_bpf, command, &raw const self.0, size_of_val(&self.0)) }
    }

    fn call(&self, command: i64) -> OwnedFd {
        let fd = self.try_call(command);
        assert!(fd >= 0, "bpf({command}): {}", io::Error::last_os_error());
        // SAFETY: a new descriptor, which nobody else owns.
        unsafe { OwnedFd::from_raw_fd(fd as i32) }
    }
}
