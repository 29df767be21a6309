//! The shared libraries that a program needs, so that it also runs where nothing else is.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::command;

/// The files that the loader would take for a program; none if it needs none.
pub fn of(program: &Path) -> Result<Vec<PathBuf>> {
    // It fails for a program that is linked statically.
    let output = command::output_of(Command::new("ldd").arg(program))?;
    Ok(paths(&String::from_utf8_lossy(&output.stdout)))
}

/// Reads what `ldd` prints: `libm.so.6 => /lib/libm.so.6 (0x7f00)`, or `/lib64/ld-linux-x86-64.so.2 (0x7f00)`.
fn paths(printed: &str) -> Vec<PathBuf> {
    let words = printed.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')));
    words.map(|word| PathBuf::from(word.trim_end_matches(':'))).collect()
}

#[cfg(test)]
mod tests {
    //! Reading what `ldd` prints.

    use super::*;

    #[test]
    fn reads_the_libraries_and_the_loader() {
        let printed = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x00007f9e)\n\
            \t/lib64/ld-linux-x86-64.so.2 (0x00007f9f)\n";
        let expected = ["/lib/x86_64-linux-gnu/libm.so.6", "/lib64/ld-linux-x86-64.so.2"].map(PathBuf::from);
        assert_eq!(paths(printed), expected);
        assert_eq!(paths("\tstatically linked\n"), [] as [PathBuf; 0]);
    }
}
