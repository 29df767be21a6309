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

/// Sends copies of an IPv4 frame on a client's interface until it is told to stop, each from a source in 128.0.0.0/1
/// that is drawn at random. Returns how many.
pub fn send(link: &Link, interface: &str, frame: &[u8], stop: &AtomicBool) -> u64 {
    send_from(&RANDOM_SOURCE, link, interface, frame, stop)
}

/// The same from a million sources, but for ten of which each sends 1.1 % of all: 10.9.0.0 to 10.9.0.9.
pub fn send_ten_heavy(link: &Link, interface: &str, frame: &[u8], stop: &AtomicBool) -> u64 {
    send_from(&TEN_HEAVY, link, interface, frame, stop)
}

fn send_from(source: &[u64], link: &Link, interface: &str, frame: &[u8], stop: &AtomicBool) -> u64 {
    link.client.enter(|| {
        let program = forger(source, if_nametoindex(interface).unwrap());
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

/// r0 = a source, drawn at random.
const RANDOM_SOURCE: [u64; 2] = [
    instruction(0x85, 0, 0, 0, 7),              // r0 = bpf_get_prandom_u32()
    instruction(0x47, 0, 0, 0, FIRST_BYTE_128), // r0 |= 128.0.0.0
];

/// r0 = a source: in 450 of 4,096 cases one of ten, else one of 2^20.
const TEN_HEAVY: [u64; 11] = [
    instruction(0x85, 0, 0, 0, 7),              // r0 = bpf_get_prandom_u32()
    instruction(0xbf, 3, 0, 0, 0),              // r3 = r0
    instruction(0x77, 3, 0, 0, 20),             // r3 >>= 20
    instruction(0x35, 3, 0, 5, 450),            // if r3 >= 450, it is none of them
    instruction(0x97, 3, 0, 0, 10),             // r3 %= 10
    instruction(0x67, 3, 0, 0, 24),             // r3 <<= 24: the last byte
    instruction(0x47, 3, 0, 0, TEN_NINE),       // r3 |= 10.9.0.0
    instruction(0xbf, 0, 3, 0, 0),              // r0 = r3
    instruction(0x05, 0, 0, 2, 0),              // go on
    instruction(0x57, 0, 0, 0, 0x0fff_ff00),    // r0 &= 0.255.255.15
    instruction(0x47, 0, 0, 0, FIRST_BYTE_128), // r0 |= 128.0.0.0
];

/// Gives each frame a source and sends it out on this interface.
fn forger(source: &[u64], interface: u32) -> OwnedFd {
    const DATA: u8 = 6;
    const END: u8 = 7;
    let behind = source.len() as u16;
    let start = [
        instruction(0x61, DATA, 1, 0, 0),         // data = context.data
        instruction(0x61, END, 1, 4, 0),          // end = context.data_end
        instruction(0xbf, 2, DATA, 0, 0),         // r2 = data
        instruction(0x07, 2, 0, 0, 34),           // r2 += 34: Ethernet and IPv4
        instruction(0x2d, 2, END, behind + 5, 0), // if r2 > end, drop it
    ];
    let end = [
        instruction(0x63, DATA, 0, 26, 0),     // the source = r0
        instruction(0xb7, 1, 0, 0, interface), // r1 = interface
        instruction(0xb7, 2, 0, 0, 0),         // r2 = 0
        instruction(0x85, 0, 0, 0, 23),        // r0 = bpf_redirect(r1, r2)
        instruction(0x95, 0, 0, 0, 0),         // return r0
        instruction(0xb7, 0, 0, 0, 1),         // r0 = XDP_DROP
        instruction(0x95, 0, 0, 0, 0),         // return r0
    ];
    load_instructions(&[&start, source, &end].concat())
}

/// The address as it lies in memory.
const FIRST_BYTE_128: u32 = u32::from_ne_bytes([128, 0, 0, 0]);
const TEN_NINE: u32 = u32::from_ne_bytes([10, 9, 0, 0]);

const fn instruction(operation: u8, to: u8, from: u8, offset: u16, constant: u32) -> u64 {
    operation as u64 | ((to | from << 4) as u64) << 8 | (offset as u64) << 16 | (constant as u64) << 32
}
