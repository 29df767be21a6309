//! The traffic: a program that gives each packet a source and puts it on a wire, run by the kernel on one core.
//!
//! In the live-frames mode of BPF_PROG_TEST_RUN the frames are real ones, from a pool of pages, and no socket and no
//! buffer of the network stack is in the way. It sends as fast as it can: what the receiver has no time for is lost at
//! its queue of 256 frames, before any program sees it.

use std::{net::Ipv4Addr, os::fd::AsRawFd as _};

use anyhow::{Context as _, Result};

use crate::{bpf, source::Compiled};

/// Packets of one flood.
pub const PACKETS: u32 = 1 << 19;

/// How many the kernel makes at a time: as many as it allows, so that its pool of pages is large enough.
const BATCH: u64 = 256;

/// The hardware address of every receiver.
pub const RECEIVER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

/// The first source. The others differ in the last two bytes; the network is the one for benchmarks (RFC 2544).
const FIRST_SOURCE: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 0);
const DESTINATION: Ipv4Addr = Ipv4Addr::new(198, 19, 0, 1);
/// The discard port.
pub const PORT: u8 = 9;

const HEADERS: usize = 34;

/// How large packets are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// 64 bytes.
    Small,
    /// In every twelve, seven have 64 bytes, four 594 and one 1,514; each has a port of its own.
    Mix,
}

impl Sizes {
    /// The largest, which the kernel makes; the program shortens it.
    const fn most(self) -> usize {
        match self {
            Self::Small => 64,
            Self::Mix => 1_514,
        }
    }
}

/// Sends to one interface.
pub struct Generator {
    program: Compiled,
    frame: Vec<u8>,
}

impl Generator {
    /// Packets from this many sources, drawn at random, to the interface with this index.
    pub fn new(interface: u32, sources: u16, sizes: Sizes) -> Result<Self> {
        let definitions = if sizes == Sizes::Mix { vec!["MIX".to_owned()] } else { Vec::new() };
        let constants = [("sources", sources.into()), ("interface", interface)];
        let program = Compiled::load("generator.c", "sender", &definitions, &constants)?;
        Ok(Self { program, frame: frame(sizes.most()) })
    }

    /// Sends all packets.
    ///
    /// # Errors
    /// A signal came, or the system refuses it.
    pub fn flood(&self) -> Result<()> {
        let mut attributes = [0_u64; 16];
        attributes[0] = self.program.program()?.as_raw_fd() as u64;
        attributes[1] = self.frame.len() as u64; // data_size_in, data_size_out
        attributes[2] = self.frame.as_ptr() as u64;
        attributes[4] = u64::from(PACKETS); // repeat, duration
        attributes[8] = 1 << 1; // BPF_F_TEST_XDP_LIVE_FRAMES, cpu
        attributes[9] = BATCH;
        bpf::bpf(10, &mut attributes).map(drop).context("the kernel's test run")
    }
}

/// A UDP datagram to the discard port; the program writes what differs, and the checksum of the IPv4 header.
fn frame(size: usize) -> Vec<u8> {
    let mut frame = vec![0; size];
    frame[..6].copy_from_slice(&RECEIVER_MAC);
    frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 2]);
    frame[12] = 8;
    frame[14] = 0x45;
    frame[16..18].copy_from_slice(&((size - 14) as u16).to_be_bytes());
    frame[22] = 64;
    frame[23] = 17;
    frame[26..30].copy_from_slice(&FIRST_SOURCE.octets());
    frame[30..34].copy_from_slice(&DESTINATION.octets());
    frame[35] = PORT;
    frame[37] = PORT;
    frame[38..40].copy_from_slice(&((size - HEADERS) as u16).to_be_bytes());
    frame
}
