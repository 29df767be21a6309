//! The instructions that the programs of this benchmark are made of. Registers are given by their numbers.

use crate::bpf::Instruction;

/// What is done with a register and a constant, by its number, in 64 bits.
#[derive(Clone, Copy)]
#[repr(u8)]
pub enum Operation {
    Add = 0x07,
    Multiply = 0x27,
    And = 0x57,
    ShiftRight = 0x77,
    Xor = 0xa7,
}

pub const fn alu(operation: Operation, to: u8, constant: i32) -> Instruction {
    Instruction::new(operation as u8, [to, 0], 0, constant)
}

pub const fn copy(to: u8, from: u8) -> Instruction {
    Instruction::new(0xbf, [to, from], 0, 0)
}

/// Loads 1, 2 or 4 bytes from the address in `from` and the offset.
pub const fn load(bytes: u8, to: u8, from: u8, offset: i16) -> Instruction {
    let size = match bytes {
        1 => 0x10,
        2 => 0x08,
        _ => 0,
    };
    Instruction::new(0x61 | size, [to, from], offset, 0)
}

/// Stores the low 16 bits of `from` at the address in `to` and the offset.
pub const fn store_16(to: u8, offset: i16, from: u8) -> Instruction {
    Instruction::new(0x6b, [to, from], offset, 0)
}

/// Leaves the low 16 bits, as they are on the wire.
pub const fn to_network_order(register: u8) -> Instruction {
    Instruction::new(0xdc, [register, 0], 0, 16)
}

/// Skips as many instructions if one register is more than the other.
pub const fn branch_if_more(register: u8, than: u8, skipped: i16) -> Instruction {
    Instruction::new(0x2d, [register, than], skipped, 0)
}

/// Skips as many instructions if the register is not the constant.
pub const fn branch_unless(register: u8, constant: i32, skipped: i16) -> Instruction {
    Instruction::new(0x55, [register, 0], skipped, constant)
}
