//! Commands of README.md and `docs` that need neither a server nor rights, run as they are written; and the errors that
//! `docs/troubleshooting.md` quotes.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use ratelimit::dataplane::{AttachedMode, Error};

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

/// Errors of a start, without the backquotes around names.
fn errors_of_a_start() -> Vec<String> {
    let instance = || "default".to_owned();
    let interface = || "eth0".to_owned();
    let text = || "what to do".to_owned();
    let errors = [
        Error::NoPermission { what: "load BPF programs", missing: text() },
        Error::NoInterface { name: interface(), known: text() },
        Error::Running { instance: instance(), process: Some(7) },
        Error::OtherInstance { interface: interface(), instance: instance() },
        Error::Foreign { interface: interface(), program: text(), id: 7, how: text() },
        Error::ProgramAbove { interface: interface(), above: text(), how: text() },
        Error::Attach { interface: interface(), mode: AttachedMode::Native, source: io::Error::other("no") },
        Error::NoBpffs { path: "/sys/fs/bpf".into(), why: None },
        Error::LacksFeatures { kernel: "5.4".to_owned(), missing: vec![] },
        Error::Load(text()),
    ];
    errors.iter().map(|error| error.to_string().replace('`', "")).collect()
}

#[test]
fn errors_are_those_that_troubleshooting_names() {
    let document = fs::read_to_string(root().join("docs/troubleshooting.md")).unwrap();
    let (_, section) = document.split_once("## It does not attach").unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let rows: Vec<&str> = rows.collect();
    let errors = errors_of_a_start();
    for row in &rows {
        // What stands in capitals or is left out differs each time.
        let parts: Vec<&str> = row.split("...").flat_map(|part| part.split("NAME")).collect();
        let is_said =
            |error: &&String| parts.iter().all(|part| error.contains(part.trim_end_matches(" N").trim()));
        assert!(errors.iter().any(|error| is_said(&error)), "{row}: {errors:#?}");
    }
    assert_eq!(rows.len(), errors.len());
}
