//! A loaded program as the kernel runs it: its instructions after verification, which file each comes from, the names
//! of helpers, and its maps.

use std::{
    collections::HashMap,
    fs, io,
    os::fd::{AsRawFd as _, BorrowedFd, OwnedFd},
};

use crate::bpf::{Instruction, bpf, descriptor};

/// Instructions and what is known of them.
pub struct Program {
    pub instructions: Vec<Instruction>,
    /// The stage of each instruction: the file that it was written in.
    pub stages: Vec<String>,
    /// By the constant of the instruction that calls it.
    pub helpers: HashMap<i32, String>,
}

/// Words of `struct bpf_prog_info`.
const INFO_WORDS: usize = 29;

impl Program {
    pub fn of(program: BorrowedFd<'_>) -> io::Result<Self> {
        let mut lengths = [0_u64; INFO_WORDS];
        info(program, &mut lengths)?;
        let mut instructions =
            vec![Instruction::new(0, [0; 2], 0, 0); (lengths[2] >> 32) as usize / size_of::<Instruction>()];
        let line_words = (lengths[21] >> 32) as usize / size_of::<u32>();
        let mut lines = vec![0_u32; (lengths[18] >> 32) as usize * line_words];
        let mut asked = [0_u64; INFO_WORDS];
        asked[2] = lengths[2] >> 32 << 32;
        asked[4] = instructions.as_mut_ptr() as u64;
        asked[18] = lengths[18] >> 32 << 32;
        asked[19] = lines.as_mut_ptr() as u64;
        asked[21] = lengths[21] >> 32 << 32;
        info(program, &mut asked)?;
        let strings = strings(lengths[16] as u32).unwrap_or_default();
        let stages = stages(instructions.len(), lines.chunks_exact(line_words.max(2)), &strings);
        let helpers = helpers(&instructions)?;
        Ok(Self { instructions, stages, helpers })
    }
}

/// Asks about a program, a map or types.
pub fn info(object: BorrowedFd<'_>, answer: &mut [u64]) -> io::Result<()> {
    let mut attributes = [0_u64; 16];
    attributes[0] = object.as_raw_fd() as u64 | (size_of_val(answer) as u64) << 32;
    attributes[1] = answer.as_mut_ptr() as u64;
    bpf(15, &mut attributes).map(drop)
}

/// The object with a number, by the command that opens such.
pub fn open(command: i32, id: u32) -> io::Result<OwnedFd> {
    let mut attributes = [0_u64; 16];
    attributes[0] = id.into();
    descriptor(command, &mut attributes)
}

/// Runs a program on a frame, so many times in a row; returns its last verdict.
pub fn run(program: BorrowedFd<'_>, frame: &[u8], repeat: u32) -> io::Result<u32> {
    let mut attributes = [0_u64; 16];
    attributes[0] = program.as_raw_fd() as u64;
    attributes[1] = frame.len() as u64; // data_size_in, data_size_out
    attributes[2] = frame.as_ptr() as u64;
    attributes[4] = u64::from(repeat); // repeat, duration
    bpf(10, &mut attributes)?;
    Ok((attributes[0] >> 32) as u32)
}

/// The commands that open a program, a map and types by their numbers.
pub const OPEN_PROGRAM: i32 = 13;
pub const OPEN_MAP: i32 = 14;
const OPEN_TYPES: i32 = 19;

/// The numbers of a program's maps.
pub fn maps(program: BorrowedFd<'_>) -> io::Result<Vec<u32>> {
    let mut about = [0_u64; INFO_WORDS];
    info(program, &mut about)?;
    let count = about[6] >> 32;
    let mut maps = vec![0_u32; count as usize];
    let mut asked = [0_u64; INFO_WORDS];
    (asked[6], asked[7]) = (count << 32, maps.as_mut_ptr() as u64);
    info(program, &mut asked)?;
    Ok(maps)
}

/// The strings of the program's types, in which the names of files are.
fn strings(types: u32) -> io::Result<Vec<u8>> {
    use std::os::fd::AsFd as _;
    let types = open(OPEN_TYPES, types)?;
    let mut size = [0_u64; 4];
    info(types.as_fd(), &mut size)?;
    let mut bytes = vec![0_u8; (size[1] & 0xffff_ffff) as usize];
    let mut asked = [bytes.as_mut_ptr() as u64, bytes.len() as u64, 0, 0];
    info(types.as_fd(), &mut asked)?;
    let number = |place: usize| {
        bytes.get(place..place + 4).map_or(0, |word| u32::from_ne_bytes([word[0], word[1], word[2], word[3]]))
    };
    let start = (number(4) + number(16)) as usize;
    Ok(bytes.get(start..).unwrap_or_default().to_vec())
}

/// A line says from which instruction on it holds.
fn stages<'l>(count: usize, lines: impl Iterator<Item = &'l [u32]>, strings: &[u8]) -> Vec<String> {
    let mut stages = vec!["?".to_owned(); count];
    for line in lines {
        let name = strings.get(line[1] as usize..).unwrap_or_default();
        let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
        let stage = stage(&String::from_utf8_lossy(name));
        stages.iter_mut().skip(line[0] as usize).for_each(|other| stage.clone_into(other));
    }
    stages
}

/// A path as a stage: the file's name or, in a package, that of the outermost module. What the libraries have is one
/// stage each.
fn stage(path: &str) -> String {
    let library = [("library/core", "core"), ("/aya-ebpf", "aya")];
    if let Some((_, name)) = library.iter().find(|(part, _)| path.contains(part)) {
        return (*name).to_owned();
    }
    let module = match path.rsplit_once("src/") {
        Some((_, inside)) => inside.split('/').next(),
        None => path.rsplit('/').next(),
    };
    module.unwrap_or(path).split('.').next().unwrap_or_default().to_owned()
}

/// A call names a helper by the distance of its address from a certain symbol.
fn helpers(instructions: &[Instruction]) -> io::Result<HashMap<i32, String>> {
    let symbols = fs::read_to_string("/proc/kallsyms")?;
    let all = symbols.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let address = u64::from_str_radix(words.next()?, 16).ok()?;
        Some((address, words.nth(1)?))
    });
    let all: Vec<(u64, &str)> = all.collect();
    let base = all.iter().find(|(_, name)| *name == "__bpf_call_base").map_or(0, |(address, _)| *address);
    let wanted = instructions.iter().filter(|one| one.operation == 0x85 && one.registers >> 4 == 0);
    let wanted: HashMap<u64, i32> =
        wanted.map(|one| (base.wrapping_add_signed(one.constant.into()), one.constant)).collect();
    let named = all.iter().filter_map(|(address, name)| Some((*wanted.get(address)?, (*name).to_owned())));
    Ok(named.collect())
}
