//! Starts other programs: prints each command before it runs, and knows where the workspace is and who root is.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, IsTerminal as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context as _, Result, bail};

/// Prints the command, runs it, and takes any status but 0 for an error.
pub fn run(command: &mut Command) -> Result<()> {
    announce(command);
    let status = command.status().with_context(|| format!("starting {}", render(command)))?;
    if !status.success() {
        bail!("{} failed: {status}", render(command));
    }
    Ok(())
}

/// Runs a command that shows what it prints only if it fails, and returns that.
pub fn quietly(command: &mut Command) -> Result<String> {
    let output = output_of(command)?;
    if !output.status.success() {
        bail!("{} failed: {}", render(command), String::from_utf8_lossy(&output.stderr).trim_end());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs a command, asks it nothing, and returns what it prints, whatever its status.
pub fn output_of(command: &mut Command) -> Result<Output> {
    command.stdin(Stdio::null()).output().with_context(|| format!("starting {}", render(command)))
}

/// Prints the command as one would type it.
pub fn announce(command: &Command) {
    println!("$ {}", render(command));
}

/// The command as one would type it in a shell.
pub fn render(command: &Command) -> String {
    let mut words = Vec::new();
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            words.push(format!("{}={}", name.to_string_lossy(), quote(value)));
        }
    }
    let program = Path::new(command.get_program());
    words.push(quote(if program == cargo_path() { OsStr::new("cargo") } else { program.as_os_str() }));
    words.extend(command.get_args().map(quote));
    words.join(" ")
}

/// The cargo that started this program, in the workspace.
pub fn cargo() -> Command {
    let mut command = Command::new(cargo_path());
    command.current_dir(workspace());
    command
}

/// A command that runs as root: by sudo, unless this program is root already.
pub fn as_root(program: impl AsRef<OsStr>) -> Command {
    if is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("sudo");
    command.arg("--").arg(program);
    command
}

/// Why commands can't run as root here, if they can't.
pub fn no_root_reason() -> Option<&'static str> {
    if is_root() {
        return None;
    }
    if find_program("sudo").is_none() {
        return Some("needs root, and there is no sudo");
    }
    let asks_nothing = || {
        let mut sudo = Command::new("sudo");
        sudo.args(["-n", "true"]).stderr(Stdio::null());
        sudo.status().is_ok_and(|status| status.success())
    };
    let can_ask = io::stdin().is_terminal();
    (!can_ask && !asks_nothing()).then_some("needs root, and sudo asks for a password")
}

/// Whether this program runs as root.
pub fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

/// The directory of the workspace.
pub fn workspace() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package)
}

/// The target directory, which this program itself was built in (`TARGET_DIR/PROFILE/xtask`).
pub fn target_dir() -> Result<PathBuf> {
    let program = env::current_exe().context("finding this program's own path")?;
    let directory = program.ancestors().nth(2).context("this program is not in a target directory")?;
    Ok(directory.to_owned())
}

/// Looks a program up on the path, and in the directories for administrators that a user's path may lack.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|directory| directory.join(name))
        .find(|program| program.is_file())
}

/// A program for administrators, which may lie where a user's path does not lead.
pub fn administrators(name: &str) -> Command {
    Command::new(find_program(name).unwrap_or_else(|| name.into()))
}

fn cargo_path() -> PathBuf {
    env::var_os("CARGO").map_or_else(|| PathBuf::from("cargo"), PathBuf::from)
}

fn quote(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "-_./=:,+@%".contains(character);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.into_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    //! Commands read as one would type them.

    use super::*;

    #[test]
    fn renders_environment_arguments_and_quotes() {
        let mut command = Command::new("/usr/bin/env");
        command.env("RUSTFLAGS", "--cfg loom").args(["plain", "two words", "it's", ""]);
        assert_eq!(render(&command), r"RUSTFLAGS='--cfg loom' /usr/bin/env plain 'two words' 'it'\''s' ''");
    }
}
