//! Commands of README.md and `docs` that need neither a server nor rights, run as they are written.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A command line and what it prints, below the sources, where `ratelimit` is this program.
fn run(line: &str) -> String {
    let binaries = Path::new(env!("CARGO_BIN_EXE_ratelimit")).parent().unwrap();
    let path = format!("{}:{}", binaries.display(), env::var("PATH").unwrap());
    let mut command = Command::new("sh");
    let output = command.args(["-ec", line]).env("PATH", path).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// What a document shows behind `$ `: a command, on one line or more, and its output without what is left out.
fn shown(name: &str, part: &str) -> (String, Vec<String>) {
    let document = fs::read_to_string(root().join(name)).unwrap();
    let blocks =
        document.split("\n\n").filter_map(|block| block.trim_start_matches('\n').strip_prefix("    $ "));
    let block = blocks.into_iter().find(|block| block.contains(part)).unwrap();
    let mut lines = block.lines().map(|line| line.strip_prefix("    ").unwrap_or(line));
    let mut command = lines.next().unwrap().to_owned();
    while command.ends_with(['|', '\\']) {
        command.push_str(lines.next().unwrap());
    }
    (command, lines.map(str::to_owned).collect())
}

#[test]
fn what_validate_and_simulate_print_is_what_the_documents_show() {
    for (name, part) in [("docs/network-rules.md", "ratelimit validate"), ("docs/simulate.md", "printf")] {
        let (command, expected) = shown(name, part);
        let printed = run(&command);
        let printed: Vec<&str> = printed.lines().take(expected.len()).collect();
        assert!(expected.len() > 2, "{name}: {expected:?}");
        assert_eq!(printed, expected, "{name}: {command}");
    }
}

#[test]
fn limits_are_compared_as_the_algorithms_document_says() {
    let document = fs::read_to_string(root().join("docs/algorithms.md")).unwrap();
    let (_, block) = document.split_once("```sh\n").unwrap();
    let (command, _) = block.split_once("```").unwrap();
    let printed = run(command);
    let limits = printed.lines().skip(1).filter_map(|line| line.split(' ').next());
    assert_eq!(limits.collect::<Vec<_>>(), crate::pictures::LIMITS.map(|(limit, _)| limit), "{printed}");
}
