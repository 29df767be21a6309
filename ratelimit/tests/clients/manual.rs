//! The pages of the manual, as `mandoc` and readers see them.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use tempfile::TempDir;

use crate::process::program;

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?} {output:?}");
    output
}

/// The pages, by their names, in a directory that is theirs.
fn pages() -> (TempDir, Vec<(String, PathBuf)>) {
    let directory = tempfile::tempdir().unwrap();
    run(Command::new(env!("CARGO_BIN_EXE_ratelimit")).arg("man").arg(directory.path()));
    let files = |section: &str| fs::read_dir(directory.path().join(section)).unwrap();
    let paths = files("man1").chain(files("man5")).map(|entry| entry.unwrap().path());
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    let pages = paths.map(|path| (name(&path), path)).collect();
    (directory, pages)
}

#[test]
fn each_command_has_a_page_without_mistakes() {
    let (_directory, pages) = pages();
    for (name, path) in &pages {
        let lint =
            Command::new(program("RATELIMIT_MANDOC")).args(["-T", "lint", "-W", "error"]).arg(path).output();
        let lint = lint.unwrap();
        assert!(lint.status.success() && lint.stdout.is_empty(), "{name}: {lint:?}");
    }
    let help = run(Command::new(env!("CARGO_BIN_EXE_ratelimit")).arg("--help"));
    let help = String::from_utf8(help.stdout).unwrap();
    let (_, commands) = help.split_once("Commands:\n").unwrap();
    let commands = commands.lines().take_while(|line| !line.is_empty());
    let commands: Vec<&str> =
        commands.filter_map(|line| line.strip_prefix("  ")?.split(' ').next()).collect();
    assert!(commands.contains(&"run") && commands.len() > 12, "{commands:?}");
    for command in commands.into_iter().filter(|command| !command.is_empty() && *command != "help") {
        assert!(pages.iter().any(|(name, _)| *name == format!("ratelimit-{command}.1")), "{command}");
    }
}

#[test]
fn pages_say_what_a_reader_looks_for() {
    let (_directory, pages) = pages();
    for (name, parts) in [
        (
            "ratelimit.1",
            &[
                "ratelimit-run(1)",
                "--output",
                "ratelimit.yaml(5)",
                "docs, where the Debian package",
                "flood.md.gz",
            ][..],
        ),
        ("ratelimit-ban.1", &["ratelimit ban", "--for", "[default: 10m]"]),
        ("ratelimit-run.1", &["--config", "--interface"]),
        (
            "ratelimit.yaml.5",
            &["network.rules[].rate", "rate: 256/15m", "Default: token_bucket", "rate_limit"],
        ),
    ] {
        let (_, path) = pages.iter().find(|(found, _)| found == name).unwrap();
        let text =
            run(Command::new(program("RATELIMIT_MANDOC")).args(["-T", "utf8", "-O", "width=120"]).arg(path));
        let text = without_overstrikes(&String::from_utf8(text.stdout).unwrap());
        for part in parts {
            assert!(text.contains(part), "{name}: no {part} in\n{text}");
        }
    }
}

/// Bold is a letter, a backspace, and the letter again.
fn without_overstrikes(text: &str) -> String {
    let mut plain = String::new();
    for character in text.chars() {
        match character {
            '\u{8}' => drop(plain.pop()),
            _ => plain.push(character),
        }
    }
    plain
}
