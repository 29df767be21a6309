//! Standard streams that can't be written: a full disk, a reader that is gone. No command panics over that.

use std::{
    fs::File,
    io::Write as _,
    process::{Command, Stdio},
};

fn full() -> Stdio {
    File::options().write(true).open("/dev/full").unwrap().into()
}

/// A pipe that nobody reads.
fn broken() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

#[test]
fn no_command_panics_when_its_streams_can_not_be_written() {
    let directory = tempfile::tempdir().unwrap();
    let bad = directory.path().join("bad.yaml");
    std::fs::write(&bad, "x: 1\n").unwrap();
    let bad = bad.to_str().unwrap();
    let commands: [(&[&str], [i32; 2]); 8] = [
        (&["validate", bad], [1, 2]),
        (&["validate", bad, "--output", "json"], [1, 2]),
        (&["run", "--config", bad], [2, 2]),
        (&["status", "--instance", "nobody"], [1, 1]),
        (&["detach", "--instance", "nobody"], [1, 1]),
        (&["simulate", "--limit", "token_bucket,rate=1/s"], [2, 2]),
        (&["simulate", "--limit", "token_bucket,rate=1/s", "/nowhere"], [1, 1]),
        (&["simulate", "--limit", "nonsense"], [2, 2]),
    ];
    for (arguments, statuses) in commands {
        for streams in [full, broken] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_ratelimit"));
            command.args(arguments).stdin(Stdio::piped()).stdout(streams()).stderr(streams());
            let mut child = command.spawn().unwrap();
            // It may end without reading it.
            let _ = child.stdin.take().unwrap().write_all(b"wrong\n");
            let code = child.wait().unwrap().code();
            assert!(code.is_some_and(|code| statuses.contains(&code)), "{arguments:?}: {code:?}");
        }
    }
}
