//! The kernel tier: the tests that load programs and send packets, run as root in namespaces of their own.
//!
//! They see a network, a bpffs and a `/run` that vanish with the last of their processes, so that nothing can be left on
//! the machine, however they end.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::command;
use crate::test::tier::{Outcome, run_tests};

/// The shell stays as the first process of its namespace, and reaps the daemons that tests leave behind.
const ENTER: &str = "mount -t sysfs sysfs /sys && mount -t bpf bpf /sys/fs/bpf && mount -t tmpfs tmpfs /run && \
    mkdir /run/tmp && export TMPDIR=/run/tmp && ip link set lo up && \"$@\"; exit $?";

/// What `cargo test` builds of the kernel tests.
pub struct TestProgram {
    /// The program with the tests.
    pub tests: PathBuf,
    /// The `ratelimit` that they start.
    pub binary: PathBuf,
}

/// Builds the tests, and runs those whose names contain the filter.
pub fn run(filter: Option<&str>) -> Result<Outcome> {
    let program = build()?;
    if let Some(reason) = no_namespaces_reason() {
        return Ok(Outcome::NotRun(reason.to_owned()));
    }
    let mut tests = in_namespaces();
    tests.arg(program.tests).arg("--test-threads=1").args(filter);
    // Where cargo starts tests.
    tests.current_dir(command::workspace().join("ratelimit"));
    run_tests(&mut tests)
}

/// Builds the test program, and returns where it is.
pub fn build() -> Result<TestProgram> {
    let mut cargo = command::cargo();
    cargo.args(["test", "--package", "ratelimit", "--test", "kernel"]);
    cargo.args(["--no-run", "--message-format=json-render-diagnostics"]).stderr(Stdio::inherit());
    command::announce(&cargo);
    let output = cargo.output().with_context(|| format!("starting {}", command::render(&cargo)))?;
    if !output.status.success() {
        bail!("{} failed: {}", command::render(&cargo), output.status);
    }
    let messages = String::from_utf8(output.stdout).context("reading cargo's messages")?;
    let tests = executable(&messages).context("cargo built no kernel tests")?;
    let profile = tests.ancestors().nth(2).context("the kernel tests are not in a target directory")?;
    let binary = profile.join("ratelimit");
    Ok(TestProgram { tests, binary })
}

/// Finds the test program in cargo's messages, one JSON object a line.
fn executable(messages: &str) -> Option<PathBuf> {
    messages.lines().find_map(|line| {
        let message: Value = serde_json::from_str(line).ok()?;
        (message["target"]["name"] == "kernel" && message["profile"]["test"] == true)
            .then(|| message["executable"].as_str().map(PathBuf::from))?
    })
}

/// Why the namespaces can't be made here, if they can't.
pub fn no_namespaces_reason() -> Option<&'static str> {
    if let Some(reason) = command::no_root_reason() {
        return Some(reason);
    }
    let is_missing = |name: &&str| command::find_program(name).is_none();
    ["setpriv", "unshare"].iter().any(is_missing).then_some("needs setpriv and unshare of util-linux")
}

/// The start of a command line that runs the rest in new namespaces, and kills all of it if this program dies.
pub fn in_namespaces() -> Command {
    let mut command = command::as_root("setpriv");
    command.args(["--pdeathsig", "KILL", "unshare", "--net", "--mount", "--ipc", "--uts", "--pid"]);
    command.args(["--fork", "--kill-child", "--mount-proc", "sh", "-c", ENTER, "sh"]);
    command
}

#[cfg(test)]
mod tests {
    //! Reading cargo's messages.

    use super::*;

    #[test]
    fn finds_the_test_program_and_no_other() {
        let message = |name: &str, is_test: bool, executable: &str| {
            let target = format!(r#""target":{{"name":"{name}"}},"profile":{{"test":{is_test}}}"#);
            format!(r#"{{"reason":"compiler-artifact",{target},"executable":{executable}}}"#)
        };
        let binary = message("ratelimit", false, r#""/target/debug/ratelimit""#);
        let kernel = message("kernel", true, r#""/target/debug/deps/kernel-0123""#);
        let finished = r#"{"reason":"build-finished","success":true}"#;

        let messages = [binary.as_str(), &kernel, finished].join("\n");
        assert_eq!(executable(&messages), Some(PathBuf::from("/target/debug/deps/kernel-0123")));
        assert_eq!(executable(&[binary.as_str(), "not JSON", finished].join("\n")), None);
        assert_eq!(executable(&message("kernel", true, "null")), None);
    }
}
