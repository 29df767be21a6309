//! The stack that a chain of calls takes: the kernel gives all of its functions 512 bytes, and kernels before 6.9 round
//! each one's up to 32.

use std::collections::HashMap;
use std::fmt;

use anyhow::{Context as _, Result, bail};

use super::code::{ADD_CONSTANT, COPY, FRAME, Instruction, LOAD, ObjectProgram, STORE, STORE_CONSTANT};
use super::{Finding, finding};

/// Less than the kernel's, so that there is room for what comes.
const MOST: u64 = 480;

/// What each function's stack is rounded up to; one without any takes as much.
const UNIT: u64 = 32;

/// The chain of calls that takes the most.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Chain {
    /// The sum over all functions, rounded.
    bytes: u64,
    /// Each function's name and its own bytes.
    functions: Vec<(String, u64)>,
}

impl fmt::Display for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {MOST} bytes:", self.bytes)?;
        self.functions.iter().try_for_each(|(name, bytes)| write!(f, " {name}:{bytes}"))
    }
}

impl Chain {
    /// What is wrong with it.
    pub fn finding(&self) -> Option<Finding> {
        let (name, _) = self.functions.first()?;
        let rule = format!("a chain of calls takes {self}; kernels before 6.9 refuse more than 512");
        (self.bytes > MOST).then(|| finding(name, 0, rule))
    }
}

/// The chain that takes the most, from the programs on.
pub fn deepest(program: &ObjectProgram) -> Result<Chain> {
    let mut known = HashMap::new();
    for (index, _) in program.functions.iter().enumerate().filter(|(_, function)| function.is_entry) {
        measure(program, index, &mut known)?;
    }
    let mut next = (0..program.functions.len())
        .filter(|&index| program.functions[index].is_entry)
        .max_by_key(|index| known.get(index).and_then(Option::as_ref).map(|measured| measured.bytes));
    let mut chain = Chain::default();
    while let Some(index) = next {
        let measured =
            known.get(&index).and_then(Option::as_ref).context("a function that is not measured")?;
        chain.bytes = chain.bytes.max(measured.bytes);
        chain.functions.push((program.functions[index].name.clone(), depth(&program.functions[index].code)));
        next = measured.deepest_call;
    }
    Ok(chain)
}

/// What a function takes with all that it calls.
struct Measured {
    bytes: u64,
    deepest_call: Option<usize>,
}

/// Fills `known` with the function and all that it calls; `None` while it is being measured.
fn measure(
    program: &ObjectProgram,
    index: usize,
    known: &mut HashMap<usize, Option<Measured>>,
) -> Result<u64> {
    let function = &program.functions[index];
    match known.get(&index) {
        Some(Some(measured)) => return Ok(measured.bytes),
        Some(None) => bail!("{} calls itself", function.name),
        None => known.insert(index, None),
    };
    let (mut below, mut deepest_call) = (0, None);
    for &call in function.calls.values() {
        let bytes = measure(program, call, known)?;
        if bytes > below {
            (below, deepest_call) = (bytes, Some(call));
        }
    }
    let bytes = below + depth(&function.code).max(1).next_multiple_of(UNIT);
    known.insert(index, Some(Measured { bytes, deepest_call }));
    Ok(bytes)
}

/// How far below its frame pointer a function reaches. Addresses in its frame are followed from one instruction to the
/// next, whichever way leads there: the compiler makes them anew where it uses them.
fn depth(code: &[Instruction]) -> u64 {
    let mut offsets = [None; 16];
    offsets[usize::from(FRAME)] = Some(0_i64);
    let mut lowest = 0;
    for instruction in code {
        let (target, source) = (usize::from(instruction.target), usize::from(instruction.source));
        let memory = match instruction.class() {
            LOAD => offsets[source],
            STORE | STORE_CONSTANT => offsets[target],
            _ => None,
        };
        if let Some(base) = memory {
            lowest = lowest.min(base + i64::from(instruction.offset));
        }
        match (instruction.opcode, instruction.class()) {
            (COPY, _) => offsets[target] = offsets[source],
            (ADD_CONSTANT, _) => {
                offsets[target] = offsets[target].map(|offset| offset + i64::from(instruction.constant));
                lowest = lowest.min(offsets[target].unwrap_or(0));
            }
            (_, STORE | STORE_CONSTANT) => {}
            _ if target != usize::from(FRAME) => offsets[target] = None,
            _ => {}
        }
    }
    lowest.unsigned_abs()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::code::Function;
    use super::*;

    fn store(offset: i16) -> Instruction {
        Instruction { opcode: 0x7b, target: FRAME, offset, ..Instruction::default() }
    }

    fn copy(target: u8, source: u8) -> Instruction {
        Instruction { opcode: COPY, target, source, ..Instruction::default() }
    }

    fn add(target: u8, constant: i32) -> Instruction {
        Instruction { opcode: ADD_CONSTANT, target, constant, ..Instruction::default() }
    }

    fn function(name: &str, depth: i16, calls: &[usize]) -> Function {
        let calls: BTreeMap<usize, usize> = calls.iter().copied().enumerate().collect();
        Function { name: name.to_owned(), code: vec![store(-depth)], is_entry: name == "entry", calls }
    }

    fn chain(functions: Vec<Function>) -> Chain {
        deepest(&ObjectProgram { functions }).unwrap()
    }

    #[test]
    fn a_function_reaches_as_far_as_its_lowest_access_or_address() {
        let load = Instruction { opcode: 0x79, source: FRAME, offset: -40, ..Instruction::default() };
        let through = Instruction { opcode: 0x72, target: 2, offset: -8, ..Instruction::default() };
        let elsewhere = Instruction { opcode: 0x7b, target: 1, offset: -400, ..Instruction::default() };
        let cases: [(&[Instruction], u64); 7] = [
            (&[], 0),
            (&[store(-16), store(-8)], 16),
            (&[load], 40),
            (&[copy(1, FRAME), add(1, -104)], 104),
            (&[copy(2, FRAME), add(2, -8), through], 16),
            (&[copy(1, FRAME), add(1, -8), copy(3, 1), add(3, -8)], 16),
            (&[copy(1, 6), add(1, -400), elsewhere], 0),
        ];
        for (code, expected) in cases {
            assert_eq!(depth(code), expected, "{code:?}");
        }
    }

    #[test]
    fn each_function_of_the_deepest_chain_is_rounded_up() {
        let functions = vec![
            function("entry", 100, &[1, 2]),
            function("shallow", 8, &[]),
            function("deep", 33, &[3]),
            function("nothing", 0, &[]),
            function("unused", 500, &[]),
        ];
        let found = chain(functions);
        assert_eq!(found.to_string(), "224 of 480 bytes: entry:100 deep:33 nothing:0");
        assert_eq!(found.finding(), None);
    }

    #[test]
    fn more_than_the_limit_is_found_and_the_limit_is_not() {
        let of = |depth: i16| chain(vec![function("entry", 128, &[1]), function("called", depth, &[])]);
        assert_eq!(of(352).finding(), None);
        let finding = of(353).finding().unwrap();
        assert!(finding.rule.contains("512 of 480 bytes: entry:128 called:353"), "{finding}");
    }

    #[test]
    fn a_function_that_calls_itself_is_an_error() {
        let program =
            ObjectProgram { functions: vec![function("entry", 8, &[1]), function("again", 8, &[1])] };
        assert!(deepest(&program).is_err());
    }
}
