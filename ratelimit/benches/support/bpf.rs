//! The system call, and small XDP programs by their instructions.

use std::{
    io,
    os::fd::{FromRawFd as _, OwnedFd},
};

/// One instruction, as the kernel takes it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Instruction {
    pub operation: u8,
    /// The one that is changed in the low half.
    pub registers: u8,
    pub offset: i16,
    pub constant: i32,
}

impl Instruction {
    /// `to` and `from` are numbers of registers.
    pub const fn new(operation: u8, [to, from]: [u8; 2], offset: i16, constant: i32) -> Self {
        Self { operation, registers: to | from << 4, offset, constant }
    }
}

/// Sets a register.
pub const fn set(to: u8, constant: i32) -> Instruction {
    Instruction::new(0xb7, [to, 0], 0, constant)
}

/// Ends the program; the verdict is in register 0.
pub const END: Instruction = Instruction::new(0x95, [0, 0], 0, 0);

pub const XDP_PASS: i32 = 2;

/// Loads an XDP program, with these flags of BPF_PROG_LOAD.
pub fn load(program: &[Instruction], flags: u32) -> io::Result<OwnedFd> {
    let license = c"Dual MIT/GPL";
    // The first fields of `union bpf_attr` for BPF_PROG_LOAD.
    let mut attributes = [0_u64; 16];
    attributes[0] = 6 | (program.len() as u64) << 32; // type XDP, number of instructions
    attributes[1] = program.as_ptr() as u64;
    attributes[2] = license.as_ptr() as u64;
    attributes[5] = u64::from(flags) << 32; // kern_version, prog_flags
    descriptor(5, &mut attributes)
}

/// A call whose result is a descriptor.
pub fn descriptor(command: i32, attributes: &mut [u64; 16]) -> io::Result<OwnedFd> {
    let fd = bpf(command, attributes)?;
    // SAFETY: the kernel has just given it to us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The system call.
pub fn bpf(command: i32, attributes: &mut [u64; 16]) -> io::Result<i32> {
    // SAFETY: the attributes are as long as said, and what they point to lives during the call.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command, attributes.as_mut_ptr(), size_of_val(attributes)) };
    i32::try_from(result).ok().filter(|&fd| fd >= 0).ok_or_else(io::Error::last_os_error)
}
