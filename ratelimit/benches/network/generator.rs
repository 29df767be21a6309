//! The traffic: a program that gives each packet a source and puts it on a wire, run by the kernel on one core.
//!
//! In the live-frames mode of BPF_PROG_TEST_RUN the frames are real ones, from a pool of pages, and no socket and no
//! buffer of the network stack is in the way. It sends as fast as it can: what the receiver has no time for is lost at
//! its queue of 256 frames, before any program sees it.

use std::{
    io,
    net::Ipv4Addr,
    os::fd::{AsRawFd as _, OwnedFd},
};

use crate::{
    assembly::{Operation, alu, branch_if_more, copy, load, store_16, to_network_order},
    bpf::{self, END, Instruction, RANDOM},
};

/// Packets of one flood.
pub const PACKETS: u32 = 1 << 23;

/// How many the kernel makes at a time: as many as it allows, so that its pool of pages is large enough.
const BATCH: u64 = 256;

/// The hardware address of every receiver.
pub const RECEIVER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

/// The first source. The others differ in the last two bytes; the network is the one for benchmarks (RFC 2544).
const FIRST_SOURCE: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 0);
const DESTINATION: Ipv4Addr = Ipv4Addr::new(198, 19, 0, 1);

const FRAME: usize = 64;
const HEADERS: i32 = 34;
const CHECKSUM: i16 = 24;
const SOURCE_END: i16 = 28;

/// Sends to one interface.
pub struct Generator {
    program: OwnedFd,
    frame: [u8; FRAME],
}

impl Generator {
    /// Packets from this many sources, drawn at random, to the interface with this index.
    pub fn new(interface: u32, sources: u16) -> io::Result<Self> {
        let frame = frame();
        // Without the checksum and the end of the source, which are zero here.
        let sum =
            frame[14..34].chunks(2).map(|word| i32::from(word[0]) << 8 | i32::from(word[1])).sum::<i32>();
        assert!((sum & 0xffff) + i32::from(sources) + 4 < 1 << 16, "the checksum has two carries");
        let program = bpf::load(&program(interface.cast_signed(), sources, sum))?;
        Ok(Self { program, frame })
    }

    /// Sends all packets.
    ///
    /// # Errors
    /// A signal came, or the system refuses it.
    pub fn flood(&self) -> io::Result<()> {
        let mut attributes = [0_u64; 16];
        attributes[0] = self.program.as_raw_fd() as u64;
        attributes[1] = self.frame.len() as u64; // data_size_in, data_size_out
        attributes[2] = self.frame.as_ptr() as u64;
        attributes[4] = u64::from(PACKETS); // repeat, duration
        attributes[8] = 1 << 1; // BPF_F_TEST_XDP_LIVE_FRAMES, cpu
        attributes[9] = BATCH;
        bpf::bpf(10, &mut attributes).map(drop)
    }
}

/// A UDP datagram to the discard port, without the checksum of the IPv4 header and the last two bytes of the source.
fn frame() -> [u8; FRAME] {
    let mut frame = [0; FRAME];
    frame[..6].copy_from_slice(&RECEIVER_MAC);
    frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 2]);
    frame[12] = 8;
    frame[14] = 0x45;
    frame[17] = FRAME as u8 - 14;
    frame[22] = 64;
    frame[23] = 17;
    frame[26..30].copy_from_slice(&FIRST_SOURCE.octets());
    frame[30..34].copy_from_slice(&DESTINATION.octets());
    frame[35] = 9;
    frame[37] = 9;
    frame[39] = FRAME as u8 - HEADERS as u8;
    frame
}

/// `sum` is that of the header's words, as the checksum has it.
fn program(interface: i32, sources: u16, sum: i32) -> Vec<Instruction> {
    let (random, context, packet, end, scratch) = (0, 6, 2, 3, 4);
    vec![
        copy(context, 1),
        bpf::call(RANDOM),
        // The source: the high half of the product is as good as a remainder.
        alu(Operation::Multiply, random, i32::from(sources)),
        alu(Operation::ShiftRight, random, 32),
        load(4, packet, context, 0),
        load(4, end, context, 4),
        copy(scratch, packet),
        alu(Operation::Add, scratch, HEADERS),
        branch_if_more(scratch, end, 14),
        copy(scratch, random),
        to_network_order(scratch),
        store_16(packet, SOURCE_END, scratch),
        // The checksum. Adding its carry makes no other one: see the caller.
        alu(Operation::Add, random, sum),
        copy(scratch, random),
        alu(Operation::ShiftRight, scratch, 16),
        alu(Operation::And, random, 0xffff),
        Instruction::new(0x0f, [random, scratch], 0, 0),
        alu(Operation::Xor, random, 0xffff),
        to_network_order(random),
        store_16(packet, CHECKSUM, random),
        bpf::set(1, interface),
        bpf::set(2, 0),
        bpf::call(REDIRECT),
        END,
    ]
}

/// The number of `bpf_redirect`, whose result is the verdict.
const REDIRECT: i32 = 23;
