//! Emulates a loaded program on one packet, and counts the instructions that it executes, by stage. A machine would run
//! a few of them at once; but what is executed can be counted where a time can only be measured.

use std::{collections::BTreeMap, io, os::fd::BorrowedFd};

use nix::time::{ClockId, clock_gettime};

use crate::{
    bpf::Instruction,
    memory::{CONTEXT, Memory, PACKET, STACK},
    program::Program,
};

/// What one packet executes.
#[derive(Clone, Debug, Default)]
pub struct Executed {
    /// Instructions of each stage.
    pub stages: BTreeMap<String, u32>,
    /// How often the clock was read, and a random number drawn.
    pub clocks: u32,
    pub draws: u32,
    /// The program's own verdict.
    pub verdict: u32,
}

impl Executed {
    pub fn all(&self) -> u32 {
        self.stages.values().sum()
    }
}

/// More than any packet takes.
const MOST: u32 = 1_000_000;
const FRAME: u64 = 512;

/// What a packet like this executes: of several, the one in the middle, since some are samples.
pub fn execute(program: BorrowedFd<'_>, frame: &[u8], processor: usize) -> io::Result<Executed> {
    let program = Program::of(program)?;
    let mut memory = Memory::new(frame, processor);
    let mut all = Vec::new();
    for random in [0x1234_5678, 0x9abc_def0, 0x5555_0001, 0x0bad_cafe, 0xdead_beef] {
        let mut machine = Machine {
            program: &program,
            memory,
            length: frame.len() as u64,
            random,
            left: MOST,
            executed: Executed::default(),
        };
        let mut registers = [0; 12];
        registers[1] = CONTEXT;
        machine.executed.verdict = machine.call(0, registers, STACK)? as u32;
        all.push(machine.executed);
        memory = machine.memory;
    }
    all.sort_by_key(Executed::all);
    Ok(all.swap_remove(all.len() / 2))
}

struct Machine<'p> {
    program: &'p Program,
    memory: Memory,
    length: u64,
    random: u32,
    left: u32,
    executed: Executed,
}

type Registers = [u64; 12];

impl Machine<'_> {
    /// Runs a function to its end.
    fn call(&mut self, start: usize, mut registers: Registers, stack: u64) -> io::Result<u64> {
        registers[10] = stack + FRAME;
        let mut at = start;
        loop {
            let Some(&one) = self.program.instructions.get(at) else { return Err(unknown("a jump outside")) };
            self.count(at)?;
            at = match one.operation {
                0x95 => return Ok(registers[0]),
                0x85 => {
                    registers[0] = match one.registers >> 4 {
                        0 => self.help(one.constant, &registers, stack)?,
                        1 => {
                            let target = at.wrapping_add_signed(one.offset as isize + 1);
                            self.call(target, registers, stack + FRAME)?
                        }
                        _ => return Err(unknown("a function of the kernel")),
                    };
                    at + 1
                }
                0x18 => {
                    self.load_constant(at, one, &mut registers)?;
                    at + 2
                }
                operation => match operation & 7 {
                    5 | 6 => at.wrapping_add_signed(jump(one, &registers)? as isize + 1),
                    4 | 7 => {
                        calculate(one, &mut registers)?;
                        at + 1
                    }
                    _ => {
                        self.access(one, &mut registers)?;
                        at + 1
                    }
                },
            };
        }
    }

    fn count(&mut self, at: usize) -> io::Result<()> {
        self.left = self.left.checked_sub(1).ok_or_else(|| unknown("a loop without an end"))?;
        let stage = &self.program.stages[at];
        match self.executed.stages.get_mut(stage) {
            Some(count) => *count += 1,
            None => drop(self.executed.stages.insert(stage.clone(), 1)),
        }
        Ok(())
    }

    /// A constant of 64 bits, the address of a map, or that of its first value.
    fn load_constant(&mut self, at: usize, one: Instruction, registers: &mut Registers) -> io::Result<()> {
        let high = self.program.instructions.get(at + 1).map_or(0, |second| second.constant.cast_unsigned());
        let low = one.constant.cast_unsigned();
        registers[usize::from(one.registers & 15)] = match one.registers >> 4 {
            0 => u64::from(high) << 32 | u64::from(low),
            1 => self.memory.map(low)?,
            2 => {
                let map = self.memory.map(low)?;
                Memory::values(map).unwrap_or(map) + u64::from(high)
            }
            // A function of this program, to be called in a loop.
            4 => at.wrapping_add_signed(one.constant as isize + 1) as u64,
            _ => return Err(unknown("a constant")),
        };
        Ok(())
    }

    fn access(&mut self, one: Instruction, registers: &mut Registers) -> io::Result<()> {
        let (to, from) = (usize::from(one.registers & 15), usize::from(one.registers >> 4));
        let size = [4, 2, 1, 8][usize::from(one.operation >> 3 & 3)];
        let offset = i64::from(one.offset);
        match (one.operation & 7, one.operation & 0xe0) {
            (1, mode) => {
                let read = self.memory.read(registers[from].wrapping_add_signed(offset), size);
                registers[to] = if mode == 0x80 { extend(read, 8 * size) } else { read };
            }
            (3, 0xc0) => self.exchange(one, size, registers)?,
            // What keeps a processor from running ahead.
            (2, 0xc0) => {}
            (2, _) => self.memory.write(registers[to].wrapping_add_signed(offset), size, one.constant as u64),
            (3, _) => self.memory.write(registers[to].wrapping_add_signed(offset), size, registers[from]),
            _ => return Err(unknown("an access")),
        }
        Ok(())
    }

    fn exchange(&mut self, one: Instruction, size: u64, registers: &mut Registers) -> io::Result<()> {
        let (to, from) = (usize::from(one.registers & 15), usize::from(one.registers >> 4));
        let address = registers[to].wrapping_add_signed(one.offset.into());
        let before = self.memory.read(address, size);
        let given = registers[from];
        let after = match one.constant & !1 {
            0x00 => before.wrapping_add(given),
            0x40 => before | given,
            0x50 => before & given,
            0xa0 => before ^ given,
            0xe0 => given,
            0xf0 if before == registers[0] => given,
            0xf0 => before,
            _ => return Err(unknown("an atomic operation")),
        };
        self.memory.write(address, size, after);
        if one.constant == 0xf1 {
            registers[0] = before;
        } else if one.constant & 1 != 0 {
            registers[from] = before;
        }
        Ok(())
    }

    fn help(&mut self, constant: i32, registers: &Registers, stack: u64) -> io::Result<u64> {
        let name = self.program.helpers.get(&constant).map(String::as_str).unwrap_or_default();
        Ok(match name {
            "bpf_ktime_get_ns" => {
                self.executed.clocks += 1;
                let now = clock_gettime(ClockId::CLOCK_MONOTONIC)?;
                now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
            }
            "bpf_user_rnd_u32" | "bpf_get_prandom_u32" => {
                self.executed.draws += 1;
                self.random.into()
            }
            "bpf_xdp_get_buff_len" => self.length,
            "bpf_xdp_load_bytes" => {
                for place in 0..registers[4] {
                    let byte = self.memory.read(PACKET + registers[2] + place, 1);
                    self.memory.write(registers[3] + place, 1, byte);
                }
                0
            }
            "bpf_loop" => {
                let turns = registers[1];
                for turn in 0..turns {
                    let mut arguments = *registers;
                    (arguments[1], arguments[2]) = (turn, registers[3]);
                    if self.call(registers[2] as usize, arguments, stack + FRAME)? != 0 {
                        return Ok(turn + 1);
                    }
                }
                turns
            }
            "trie_lookup_elem" => self.memory.look_up_prefix(registers[1], registers[2]),
            name if name.ends_with("map_lookup_elem") => self.memory.look_up(registers[1], registers[2]),
            name => return Err(unknown(&format!("the helper {name}"))),
        })
    }
}

fn calculate(one: Instruction, registers: &mut Registers) -> io::Result<()> {
    let (to, from) = (usize::from(one.registers & 15), usize::from(one.registers >> 4));
    let is_64 = one.operation & 7 == 7;
    let mask = if is_64 { u64::MAX } else { u32::MAX.into() };
    let given = if one.operation & 8 == 0 { one.constant as u64 } else { registers[from] };
    let (a, b) = (registers[to] & mask, given & mask);
    let shift = (b & if is_64 { 63 } else { 31 }) as u32;
    let bits = if is_64 { 64 } else { 32 };
    let number = match one.operation & 0xf0 {
        // The first constant that is added to a map's address is where its values begin.
        0x00 if one.operation & 8 == 0 => Memory::values(a).unwrap_or(a.wrapping_add(b)),
        0x00 => a.wrapping_add(b),
        0x10 => a.wrapping_sub(b),
        0x20 => a.wrapping_mul(b),
        0x30 if one.offset == 0 => a.checked_div(b).unwrap_or(0),
        0x40 => a | b,
        0x50 => a & b,
        0x60 => a << shift,
        0x70 => a >> shift,
        0x80 => a.wrapping_neg(),
        0x90 if one.offset == 0 => a.checked_rem(b).unwrap_or(a),
        0xa0 => a ^ b,
        // From fewer bits; -1 is the address of what each processor has for itself.
        0xb0 if one.offset > 1 => extend(b, one.offset.cast_unsigned().into()),
        0xb0 => b,
        0xc0 => (extend(a, bits).cast_signed() >> shift).cast_unsigned(),
        0xd0 => swap(registers[to], one, is_64),
        _ => return Err(unknown("an operation")),
    };
    registers[to] = number & if one.operation & 0xf0 == 0xd0 { u64::MAX } else { mask };
    Ok(())
}

/// To the order of bytes that is asked for; the constant says how many bits.
fn swap(number: u64, one: Instruction, is_always: bool) -> u64 {
    let bits = one.constant.cast_unsigned();
    let is_swapped = is_always || (one.operation & 8 != 0) == cfg!(target_endian = "little");
    let low = if bits == 64 { number } else { number & ((1 << bits) - 1) };
    if is_swapped { low.swap_bytes() >> (64 - bits) } else { low }
}

fn extend(number: u64, bits: u64) -> u64 {
    let unused = 64 - bits as u32;
    (number.cast_signed() << unused >> unused).cast_unsigned()
}

/// How far it goes from the next instruction on.
fn jump(one: Instruction, registers: &Registers) -> io::Result<i32> {
    let is_64 = one.operation & 7 == 5;
    let (to, from) = (usize::from(one.registers & 15), usize::from(one.registers >> 4));
    let mask = if is_64 { u64::MAX } else { u32::MAX.into() };
    let given = if one.operation & 8 == 0 { one.constant as u64 } else { registers[from] };
    let (a, b) = (registers[to] & mask, given & mask);
    let bits = if is_64 { 64 } else { 32 };
    let (signed_a, signed_b) = (extend(a, bits).cast_signed(), extend(b, bits).cast_signed());
    let is_taken = match one.operation & 0xf0 {
        0x00 if !is_64 => return Ok(one.constant),
        0x00 => true,
        0x10 => a == b,
        0x20 => a > b,
        0x30 => a >= b,
        0x40 => a & b != 0,
        0x50 => a != b,
        0x60 => signed_a > signed_b,
        0x70 => signed_a >= signed_b,
        0xa0 => a < b,
        0xb0 => a <= b,
        0xc0 => signed_a < signed_b,
        0xd0 => signed_a <= signed_b,
        _ => return Err(unknown("a jump")),
    };
    Ok(if is_taken { one.offset.into() } else { 0 })
}

fn unknown(what: &str) -> io::Error {
    io::Error::other(format!("the emulator does not know {what}"))
}
