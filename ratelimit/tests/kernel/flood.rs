//! A flood of forged sources, as fast as this machine can: an XDP program of the test's own makes it in the kernel.

use std::{
    io,
    os::fd::{AsRawFd as _, OwnedFd},
    sync::atomic::{AtomicBool, Ordering},
};

use nix::net::if_::if_nametoindex;

use crate::{
    foreign::{Attributes, load_instructions},
    net::Link,
};

const PROG_TEST_RUN: i64 = 10;
/// The frames of a test run go where the program says.
const LIVE_FRAMES: u32 = 2;
const FRAMES_A_CALL: u32 = 10_000;

/// Sends copies of an IPv4 frame on a client's interface until it is told to stop, each from a source in 128.0.0.0/1 that is
/// drawn at random. Returns how many.
pub fn send(link: &Link, interface: &str, frame: &[u8], stop: &AtomicBool) -> u64 {
    link.client.enter(|| {
        let program = forger(if_nametoindex(interface).unwrap());
        let mut sent = 0;
        while !stop.load(Ordering::Relaxed) {
            run(&program, frame);
            sent += u64::from(FRAMES_A_CALL);
        }
        sent
    })
}

fn run(program: &OwnedFd, frame: &[u8]) {
    let mut attributes = Attributes([0; 16]);
    attributes.set_half(0, program.as_raw_fd().cast_unsigned());
    attributes.set_half(2, frame.len() as u32);
    attributes.0[2] = frame.as_ptr() as u64;
    attributes.set_half(8, FRAMES_A_CALL);
    attributes.set_half(16, LIVE_FRAMES);
    assert_eq!(attributes.try_call(PROG_TEST_RUN), 0, "{}", io::Error::last_os_error());
}

/// Draws the source of each frame and sends it out on this interface.
fn forger(interface: u32) -> OwnedFd {
    const DATA: u8 = 6;
    const END: u8 = 7;
    load_instructions(&[
        instruction(0x61, DATA, 1, 0, 0),           // data = context.data
        instruction(0x61, END, 1, 4, 0),            // end = context.data_end
        instruction(0xbf, 2, DATA, 0, 0),           // r2 = data
        instruction(0x07, 2, 0, 0, 34),             // r2 += 34: Ethernet and IPv4
        instruction(0x2d, 2, END, 7, 0),            // if r2 > end, drop it
        instruction(0x85, 0, 0, 0, 7),              // r0 = bpf_get_prandom_u32()
        instruction(0x47, 0, 0, 0, FIRST_BYTE_128), // r0 |= 128.0.0.0
        instruction(0x63, DATA, 0, 26, 0),          // the source = r0
        instruction(0xb7, 1, 0, 0, interface),      // r1 = interface
        instruction(0xb7, 2, 0, 0, 0),              // r2 = 0
        instruction(0x85, 0, 0, 0, 23),             // r0 = bpf_redirect(r1, r2)
        instruction(0x95, 0, 0, 0, 0),              // return r0
        instruction(0xb7, 0, 0, 0, 1),              // r0 = XDP_DROP
        instruction(0x95, 0, 0, 0, 0),              // return r0
    ])
}

/// The address as it lies in memory.
const FIRST_BYTE_128: u32 = u32::from_ne_bytes([128, 0, 0, 0]);

fn instruction(operation: u8, to: u8, from: u8, offset: u16, constant: u32) -> u64 {
    u64::from(operation)
        | u64::from(to | from << 4) << 8
        | u64::from(offset) << 16
        | u64::from(constant) << 32
}
