//! The functions of a BPF object: their instructions, and which other functions they refer to.

use std::collections::{BTreeMap, HashMap};

use anyhow::{Context as _, Result, ensure};
use object::{File, Object as _, ObjectSection as _, ObjectSymbol as _, RelocationTarget, SymbolKind};

/// All functions of an object.
pub struct ObjectProgram {
    pub functions: Vec<Function>,
}

/// One function.
#[derive(Debug, Default)]
pub struct Function {
    pub name: String,
    pub code: Vec<Instruction>,
    /// Where the kernel begins: it is not called, but attached.
    pub is_entry: bool,
    /// By the instruction that calls one or takes its address: where it is among all functions.
    pub calls: BTreeMap<usize, usize>,
}

/// One slot of eight bytes; a 64-bit constant has two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Instruction {
    pub opcode: u8,
    pub target: u8,
    pub source: u8,
    pub offset: i16,
    pub constant: i32,
}

/// Bytes of an instruction.
const SIZE: usize = 8;

/// The frame pointer.
pub const FRAME: u8 = 10;

// From the kernel's interface: classes, and whole opcodes.
pub const LOAD: u8 = 0x01;
pub const STORE_CONSTANT: u8 = 0x02;
pub const STORE: u8 = 0x03;
pub const JUMP: u8 = 0x05;
pub const JUMP_32: u8 = 0x06;
pub const ALWAYS: u8 = 0x05;
pub const CALL: u8 = 0x85;
pub const EXIT: u8 = 0x95;
pub const CONSTANT_64: u8 = 0x18;
pub const COPY: u8 = 0xbf;
pub const ADD_CONSTANT: u8 = 0x07;

/// In the source of a call: of a function of the program, not of the kernel's.
const OWN: u8 = 1;

impl Instruction {
    pub const fn class(self) -> u8 {
        self.opcode & 7
    }

    fn read(bytes: [u8; SIZE], is_little: bool) -> Self {
        let [opcode, registers, a, b, c, d, e, f] = bytes;
        let (low, high) = (registers & 0xf, registers >> 4);
        if is_little {
            let (offset, constant) = (i16::from_le_bytes([a, b]), i32::from_le_bytes([c, d, e, f]));
            Self { opcode, target: low, source: high, offset, constant }
        } else {
            let (offset, constant) = (i16::from_be_bytes([a, b]), i32::from_be_bytes([c, d, e, f]));
            Self { opcode, target: high, source: low, offset, constant }
        }
    }
}

/// Where a function begins: the index of its section, and the byte there.
type Place = (usize, u64);

impl ObjectProgram {
    /// Reads an ELF object.
    pub fn read(bytes: &[u8]) -> Result<Self> {
        let file = File::parse(bytes)?;
        let (mut functions, mut places) = (Vec::new(), Vec::new());
        for symbol in file.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0) {
            let Some(index) = symbol.section_index() else { continue };
            let section = file.section_by_index(index)?;
            let code =
                section.data_range(symbol.address(), symbol.size())?.context("code beyond its section")?;
            let name = plain_name(symbol.name()?).to_owned();
            let code = code
                .as_chunks::<SIZE>()
                .0
                .iter()
                .map(|&bytes| Instruction::read(bytes, file.is_little_endian()))
                .collect();
            let is_entry = section.name()? != ".text";
            functions.push(Function { name, code, is_entry, calls: BTreeMap::new() });
            places.push((index.0, symbol.address()));
        }
        ensure!(functions.iter().any(|function| function.is_entry), "no program in it");
        let by_place: HashMap<Place, usize> =
            places.iter().enumerate().map(|(function, &place)| (place, function)).collect();
        let relocations = relocations(&file)?;
        for (function, &place) in functions.iter_mut().zip(&places) {
            function.calls = calls(&function.code, place, &relocations, &by_place);
        }
        Ok(Self { functions })
    }
}

/// By the place of an instruction: the place that its symbol stands for, and whether that is a whole section, so that
/// the instruction says how far into it.
fn relocations(file: &File<'_>) -> Result<HashMap<Place, (Place, bool)>> {
    let mut relocations = HashMap::new();
    for section in file.sections() {
        for (offset, relocation) in section.relocations() {
            let RelocationTarget::Symbol(symbol) = relocation.target() else { continue };
            let symbol = file.symbol_by_index(symbol)?;
            let Some(index) = symbol.section_index() else { continue };
            let is_section = symbol.kind() == SymbolKind::Section;
            relocations.insert((section.index().0, offset), ((index.0, symbol.address()), is_section));
        }
    }
    Ok(relocations)
}

fn calls(
    code: &[Instruction],
    (section, start): Place,
    relocations: &HashMap<Place, (Place, bool)>,
    functions: &HashMap<Place, usize>,
) -> BTreeMap<usize, usize> {
    let mut calls = BTreeMap::new();
    for (index, instruction) in code.iter().enumerate() {
        let here = start + (index * SIZE) as u64;
        let is_call = instruction.opcode == CALL && instruction.source == OWN;
        if !is_call && instruction.opcode != CONSTANT_64 {
            continue;
        }
        let constant = i64::from(instruction.constant);
        // A call counts instructions from the next one on, an address bytes.
        let distance = if is_call { (constant + 1) * SIZE as i64 } else { constant };
        let place = match relocations.get(&(section, here)) {
            Some(&(place, false)) => place,
            Some(&((section, start), true)) => (section, start.wrapping_add_signed(distance)),
            None if is_call => (section, here.wrapping_add_signed(distance)),
            None => continue,
        };
        if let Some(&function) = functions.get(&place) {
            calls.insert(index, function);
        }
    }
    calls
}

/// The last name in a mangled path (`_RNvNtCs..5rules4take`), or what is no such path as it is.
fn plain_name(symbol: &str) -> &str {
    if !symbol.starts_with("_R") {
        return symbol;
    }
    let mut names =
        symbol.match_indices(|character: char| character.is_ascii_digit()).filter_map(|(at, _)| {
            if symbol[..at].ends_with(|before: char| before.is_ascii_digit()) {
                return None;
            }
            let digits = symbol[at..].bytes().take_while(u8::is_ascii_digit).count();
            let length = symbol[at..at + digits].parse::<usize>().ok()?;
            let name = symbol.get(at + digits..)?.get(..length)?;
            name.starts_with(|first: char| first.is_ascii_lowercase()).then_some(name)
        });
    names.next_back().unwrap_or(symbol)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_read_in_both_orders_of_bytes() {
        let expected = Instruction { opcode: 0x79, target: 3, source: 10, offset: -16, constant: 7 };
        assert_eq!(Instruction::read([0x79, 0xa3, 0xf0, 0xff, 7, 0, 0, 0], true), expected);
        assert_eq!(Instruction::read([0x79, 0x3a, 0xff, 0xf0, 0, 0, 0, 7], false), expected);
    }

    #[test]
    fn names_are_those_in_the_source() {
        assert_eq!(plain_name("try_charge"), "try_charge");
        assert_eq!(plain_name("_RNvNtCs757F9pA5V6r_13ratelimit_xdp5rules4take"), "take");
        assert_eq!(plain_name("_RNvNtCs757F9pA5V6r_13ratelimit_xdp4bans11search_turn"), "search_turn");
        assert_eq!(plain_name("_R"), "_R");
    }

    #[test]
    fn what_is_no_object_is_an_error() {
        assert!(ObjectProgram::read(b"#!/bin/sh").is_err());
    }
}
