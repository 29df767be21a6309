//! Programs to compare with: what a packet costs before anything is limited.

use std::{
    io,
    os::fd::{AsRawFd as _, OwnedFd},
};

use crate::bpf::{self, END, Instruction, XDP_PASS};

/// A program that calls these helpers and passes the packet.
pub struct Reference {
    program: OwnedFd,
}

impl Reference {
    pub fn load(helpers: &[i32]) -> io::Result<Self> {
        let calls = helpers.iter().map(|&helper| bpf::call(helper));
        let program: Vec<Instruction> = calls.chain([bpf::set(0, XDP_PASS), END]).collect();
        Ok(Self { program: bpf::load(&program)? })
    }

    /// The average nanoseconds of one run.
    pub fn run(&self, frame: &[u8], repeat: u32) -> io::Result<u64> {
        let mut attributes = [0_u64; 16];
        attributes[0] = self.program.as_raw_fd() as u64;
        attributes[1] = frame.len() as u64; // data_size_in, data_size_out
        attributes[2] = frame.as_ptr() as u64;
        attributes[4] = u64::from(repeat); // repeat, duration
        bpf::bpf(10, &mut attributes)?;
        Ok(attributes[4] >> 32)
    }
}
