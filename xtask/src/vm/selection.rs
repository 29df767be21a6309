//! Which of the kernel tests run in a guest: one or two of each kind of thing that a kernel can do otherwise.

use std::process::Command;

use anyhow::{Result, bail};

use super::Choice;
use crate::command;
use crate::kernel::TestProgram;

/// Whole names, or modules of which all tests run.
const SELECTED: &[&str] = &[];

/// The names of the tests that are to run.
pub fn choose(program: &TestProgram, choice: Choice<'_>) -> Result<Vec<String>> {
    let listed = command::quietly(Command::new(&program.tests).args(["--list", "--format=terse"]))?;
    let all: Vec<&str> = listed.lines().filter_map(|line| line.strip_suffix(": test")).collect();
    if let Some(unknown) = unknown(&all) {
        bail!("no kernel test is called {unknown}, but xtask/src/vm/selection.rs selects it");
    }
    let is_chosen = |name: &&str| match choice {
        Choice::Selected(filter) => is_selected(name) && filter.is_none_or(|filter| name.contains(filter)),
        Choice::Any(filter) => name.contains(filter),
    };
    Ok(all.into_iter().filter(is_chosen).map(str::to_owned).collect())
}

fn is_selected(name: &str) -> bool {
    SELECTED.iter().any(|selected| is_of(selected, name))
}

fn is_of(selected: &str, name: &str) -> bool {
    name.strip_prefix(selected).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// What is selected but not there any more, since it would be left out in silence.
fn unknown(all: &[&str]) -> Option<&'static str> {
    SELECTED.iter().copied().find(|selected| !all.iter().any(|name| is_of(selected, name)))
}

#[cfg(test)]
mod tests {
    //! What a selected name means.

    use super::*;

    #[test]
    fn a_module_selects_its_tests_and_a_name_one_test() {
        for (selected, name, expected) in [
            ("verified", "verified::some_test", true),
            ("verified::some_test", "verified::some_test", true),
            ("verified::some", "verified::some_test", false),
            ("verified", "verified_too::some_test", false),
        ] {
            assert_eq!(is_of(selected, name), expected, "{selected} {name}");
        }
    }
}
