//! Back edges that are no jumps: kernels before 6.7 refuse them ("back-edge from insn"), as they did all loops before
//! 5.3.
//!
//! The compiler may put a loop's head below its body, so that the body falls through to where the head begins. Whether
//! such an edge goes back depends on where the search begins, so it is the kernel's: depth first, of a condition the
//! next instruction before the one that it jumps to.

use super::code::{ALWAYS, CALL, EXIT, Function, Instruction, JUMP, JUMP_32};
use super::{Finding, finding};

/// The state of an instruction in the search.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    No,
    OnTheWay,
    Done,
}

/// Where an instruction leads, in the kernel's order: to the next one, and by a jump.
fn ways(index: usize, instruction: Instruction) -> (Option<usize>, Option<usize>) {
    let next = Some(index + 1);
    let jump = (index + 1).checked_add_signed(instruction.offset.into());
    match (instruction.opcode, instruction.class()) {
        (EXIT, _) => (None, None),
        (CALL, _) => (next, None),
        (ALWAYS, _) => (None, jump),
        (_, JUMP | JUMP_32) => (next, jump),
        _ => (next, None),
    }
}

/// Finds those of a function.
pub fn check(function: &Function) -> Vec<Finding> {
    let mut seen = vec![Seen::No; function.code.len()];
    let mut findings = Vec::new();
    // Each instruction on the way, with the edges that are left of it.
    let mut way = Vec::new();
    enter(function, 0, &mut seen, &mut way);
    while let Some((index, edges)) = way.last_mut() {
        let index = *index;
        let Some((to, may_go_back)) = edges.pop() else {
            seen[index] = Seen::Done;
            way.pop();
            continue;
        };
        match seen.get(to) {
            Some(Seen::No) => enter(function, to, &mut seen, &mut way),
            Some(Seen::OnTheWay) if !may_go_back => findings.push(finding(&function.name, index, rule(to))),
            _ => {}
        }
    }
    findings
}

/// An instruction, and the edges that are left of it, the next one last: to where, and whether it may go back.
type Step = (usize, Vec<(usize, bool)>);

fn enter(function: &Function, index: usize, seen: &mut [Seen], way: &mut Vec<Step>) {
    let Some(&instruction) = function.code.get(index) else { return };
    seen[index] = Seen::OnTheWay;
    let (next, jump) = ways(index, instruction);
    let is_condition = jump.is_some();
    let edges = [jump.map(|jump| (jump, true)), next.map(|next| (next, is_condition))];
    way.push((index, edges.into_iter().flatten().collect()));
}

fn rule(to: usize) -> String {
    format!(
        "falls back to instruction {to}, which kernels before 6.7 refuse: write the loop so that it is tested at its end"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn other() -> Instruction {
        Instruction { opcode: 0xb7, ..Instruction::default() }
    }

    fn jump(opcode: u8, offset: i16) -> Instruction {
        Instruction { opcode, offset, ..Instruction::default() }
    }

    fn exit() -> Instruction {
        jump(EXIT, 0)
    }

    const IF: u8 = 0x15;

    const NONE: [usize; 0] = [];

    fn places(code: &[Instruction]) -> Vec<usize> {
        let function = Function { code: code.to_vec(), ..Function::default() };
        check(&function).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_loop_tested_at_its_end_is_fine() {
        assert_eq!(places(&[other(), other(), jump(IF, -2), exit()]), NONE);
        assert_eq!(places(&[other(), jump(IF, 2), other(), jump(ALWAYS, -3), exit()]), NONE);
    }

    #[test]
    fn a_body_that_falls_back_to_the_head_is_found() {
        // The head is at 3, entered by a jump; its body at 1 falls through to it.
        let code = [jump(ALWAYS, 2), other(), other(), other(), jump(IF, -4), exit()];
        assert_eq!(places(&code), [2]);
    }

    #[test]
    fn what_falls_to_code_that_is_not_on_its_way_is_fine() {
        // Both ways of a condition meet.
        assert_eq!(places(&[jump(IF, 1), other(), other(), exit()]), NONE);
        // As above, but the body is not reached from the head.
        assert_eq!(places(&[jump(IF, 2), other(), other(), other(), exit()]), NONE);
    }

    #[test]
    fn a_condition_may_fall_back_and_a_call_may_not() {
        let by = |last: Instruction| [jump(ALWAYS, 2), other(), last, other(), jump(IF, -4), exit()];
        assert_eq!(places(&by(jump(IF, 2))), NONE);
        assert_eq!(places(&by(jump(CALL, 0))), [2]);
    }
}
