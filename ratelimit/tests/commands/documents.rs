//! Commands of README.md and `docs` that need neither a server nor rights, run as they are written; and the errors that
//! `docs/troubleshooting.md` quotes.

use std::{env, fmt::Write as _, fs, io, iter, os::unix::fs::symlink, path::Path, process::Command};

use ratelimit::dataplane::{AttachedMode, Error};

use crate::blocks::{self, root};

/// A command line and what it prints, in this directory, where `ratelimit` is this program.
fn run(directory: &Path, line: &str) -> String {
    let binaries = Path::new(env!("CARGO_BIN_EXE_ratelimit")).parent().unwrap();
    let path = format!("{}:{}", binaries.display(), env::var("PATH").unwrap());
    let mut command = Command::new("sh");
    let output = command.args(["-ec", line]).env("PATH", path).current_dir(directory).output().unwrap();
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// What a document shows behind `$ `: a command, on one line or more, and its output; what is left out is not compared.
fn assert_prints(directory: &Path, name: &str, part: &str) {
    let block = blocks::find(name, part);
    let mut lines = block.lines();
    let mut command = lines.next().unwrap().strip_prefix("$ ").unwrap().to_owned();
    while command.ends_with('|') {
        command.push_str(lines.next().unwrap());
    }
    let printed = run(directory, &command);
    let shown: Vec<&str> = lines.take_while(|line| *line != "...").collect();
    let printed: Vec<&str> = printed.lines().take(shown.len()).collect();
    assert!(shown.len() > 2, "{name}: {shown:?}");
    assert_eq!(printed, shown, "{name}: {command}");
}

#[test]
fn what_validate_and_simulate_print_is_what_the_documents_show() {
    assert_prints(&root(), "docs/network-rules.md", "ratelimit validate");
    assert_prints(&root(), "docs/simulate.md", "printf");
}

/// An Ethernet frame of so many bytes, with a datagram to 192.0.2.1.
fn frame(source: [u8; 4], length: u16) -> Vec<u8> {
    let mut frame = vec![2; 12];
    frame.extend([8, 0, 0x45, 0]);
    frame.extend((length - 14).to_be_bytes());
    frame.extend([0, 0, 0, 0, 64, 17, 0, 0]);
    frame.extend(source.into_iter().chain([192, 0, 2, 1]));
    frame.extend([3, 232, 35, 40]);
    frame.extend((length - 34).to_be_bytes());
    frame.resize(length.into(), 0);
    frame
}

/// A capture of frames, each with the microseconds at which it came.
fn capture(frames: impl IntoIterator<Item = (u32, Vec<u8>)>) -> Vec<u8> {
    let header = [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 1];
    let mut capture: Vec<u8> = header.into_iter().flat_map(u32::to_le_bytes).collect();
    for (microseconds, frame) in frames {
        let length = u32::try_from(frame.len()).unwrap();
        let record = [microseconds / 1_000_000, microseconds % 1_000_000, length, length];
        capture.extend(record.into_iter().flat_map(u32::to_le_bytes).chain(frame));
    }
    capture
}

#[test]
fn what_simulate_prints_of_a_capture_is_what_its_document_shows() {
    let directory = tempfile::tempdir().unwrap();
    let rules = blocks::find("docs/simulate.md", "# rules.yaml");
    fs::write(directory.path().join("rules.yaml"), rules).unwrap();
    let burst = iter::repeat_n((0, frame([203, 0, 113, 9], 64)), 218);
    let steady = (0..1_782).map(|index| (index * 200_000, frame([198, 51, 100, 7], 342)));
    fs::write(directory.path().join("traffic.pcap"), capture(burst.chain(steady))).unwrap();
    assert_prints(directory.path(), "docs/simulate.md", "traffic.pcap");
}

#[test]
fn what_simulate_prints_of_an_access_log_is_what_its_document_shows() {
    let directory = tempfile::tempdir().unwrap();
    symlink(root().join("config"), directory.path().join("config")).unwrap();
    let (mut log, mut reports) = (String::new(), 0);
    for index in 0..2_000 {
        let path = if index % 7 == 0 && reports < 274 {
            reports += 1;
            format!("/reports/{}", 7 + (reports - 1) % 6)
        } else {
            (if index % 6 == 1 { "/login" } else { "/" }).to_owned()
        };
        let (minute, second) = (index / 240, index / 4 % 60);
        let time = format!("28/Nov/2026:07:{minute:02}:{second:02} +0000");
        writeln!(log, "198.51.100.7 - - [{time}] \"GET {path} HTTP/1.1\" 200 5 \"-\" \"-\"").unwrap();
    }
    fs::write(directory.path().join("access.log"), log).unwrap();
    assert_prints(directory.path(), "docs/simulate.md", "access.log");
}

#[test]
fn limits_are_compared_as_the_algorithms_document_says() {
    let command = blocks::find("docs/algorithms.md", "ratelimit simulate");
    let printed = run(&root(), &command);
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
