//! Programs to compare with, by their instructions: what a packet costs before anything is limited.

use std::{
    io,
    os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
};

/// One BPF instruction: operation, registers, offset, constant.
#[repr(C)]
struct Instruction {
    operation: u8,
    registers: u8,
    offset: i16,
    constant: i32,
}

const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
const SET_64: u8 = 0xb7;
const XDP_PASS: i32 = 2;

const fn instruction(operation: u8, constant: i32) -> Instruction {
    Instruction { operation, registers: 0, offset: 0, constant }
}

/// A program that calls these helpers and passes the packet.
pub struct Reference {
    program: OwnedFd,
}

/// The numbers of `bpf_ktime_get_ns` and `bpf_get_prandom_u32`.
pub const CLOCK: i32 = 5;
pub const RANDOM: i32 = 7;

impl Reference {
    pub fn load(helpers: &[i32]) -> io::Result<Self> {
        let calls = helpers.iter().map(|&helper| instruction(CALL, helper));
        let end = [instruction(SET_64, XDP_PASS), instruction(EXIT, 0)];
        let program: Vec<Instruction> = calls.chain(end).collect();
        let license = c"Dual MIT/GPL";
        // The first fields of `union bpf_attr` for BPF_PROG_LOAD.
        let mut attributes = [0_u64; 16];
        attributes[0] = 6 | (program.len() as u64) << 32; // type XDP, number of instructions
        attributes[1] = program.as_ptr() as u64;
        attributes[2] = license.as_ptr() as u64;
        let fd = bpf(5, &mut attributes)?;
        // SAFETY: the kernel has just given it to us.
        Ok(Self { program: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    /// The average nanoseconds of one run.
    pub fn run(&self, frame: &[u8], repeat: u32) -> io::Result<u64> {
        let mut attributes = [0_u64; 16];
        attributes[0] = self.program.as_raw_fd() as u64;
        attributes[1] = frame.len() as u64; // data_size_in, data_size_out
        attributes[2] = frame.as_ptr() as u64;
        attributes[4] = u64::from(repeat); // repeat, duration
        bpf(10, &mut attributes)?;
        Ok(attributes[4] >> 32)
    }
}

fn bpf(command: i32, attributes: &mut [u64; 16]) -> io::Result<i32> {
    // SAFETY: the attributes are as long as said, and what they point to lives during the call.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command, attributes.as_mut_ptr(), size_of_val(attributes)) };
    i32::try_from(result).ok().filter(|&fd| fd >= 0).ok_or_else(io::Error::last_os_error)
}
