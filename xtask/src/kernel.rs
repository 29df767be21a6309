//! The kernel tier: the tests that load programs and send packets, run as root in namespaces of their own; and the soak
//! tier, which is those of them that find the more the longer they go on.
//!
//! They see a network, a bpffs and a `/run` that vanish with the last of their processes, so that nothing can be left
//! on the machine, however they end.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::test::tier::{ALLOWS_TIMED, TIMED, TierOutcome, run_tests, threads};
use crate::vm::selection;
use crate::{clients, command};

/// The shell stays as the first process of its namespace, and reaps the daemons that tests leave behind.
const ENTER: &str = "mount -t sysfs sysfs /sys && mount -t bpf bpf /sys/fs/bpf && mount -t tmpfs tmpfs /run && \
    mkdir /run/tmp && export TMPDIR=/run/tmp && ip link set lo up && \"$@\"; exit $?";

/// Tests that need all processors for themselves, or what all threads of a process share: what is logged.
const ALONE: &[&str] =
    &["concurrency", "errors::of_a_program_that_is_refused_the_verifiers_last_words_are_shown"];

/// Tests that repeat one thing: a few times in the kernel tier, and hundreds of times in the soak tier.
const SOAKS: &[&str] = &[
    "kills::a_daemon_can_be_killed_at_any_time",
    "reload::each_packet_is_judged_by_one_of_two_configurations_and_none_is_lost",
];

/// Tests that start programs of other people.
const WITH_OTHERS: &str = "operations::";

/// What tells them to.
const SOAK: &str = "RATELIMIT_SOAK=1";

/// What `cargo test` builds of the kernel tests.
pub struct TestProgram {
    /// The program with the tests.
    pub tests: PathBuf,
    /// The `ratelimit` that they start.
    pub binary: PathBuf,
}

/// Builds the tests, and runs those whose names contain the filter: several at once, since each has namespaces of its
/// own and most of them wait for something.
pub fn run(filter: Option<&str>) -> Result<TierOutcome> {
    let program = build()?;
    let (alone, mut together) = names(&program, ALONE, filter)?;
    let (variables, missing) = match clients::of_kernel_tests() {
        Ok(variables) => (variables, TierOutcome::LeftOut),
        Err(reason) => (Vec::new(), without_others(&mut together, reason)),
    };
    let variables: Vec<&str> = variables.iter().map(String::as_str).collect();
    let outcome = run_those(&program, &variables, &together, threads())?;
    Ok(outcome.and(run_those(&program, &[], &alone, 1)?).and(missing))
}

/// Takes out the tests that start programs of other people; for this reason they can't run, if there are any.
fn without_others(names: &mut Vec<String>, reason: String) -> TierOutcome {
    let all = names.len();
    names.retain(|name| !name.starts_with(WITH_OTHERS));
    if names.len() == all { TierOutcome::LeftOut } else { TierOutcome::not_run(reason) }
}

/// Builds the tests, and runs the soaks among those whose names contain the filter, at their full length.
pub fn soak(filter: Option<&str>) -> Result<TierOutcome> {
    let program = build()?;
    let (soaks, _) = names(&program, SOAKS, filter)?;
    run_those(&program, &[SOAK], &soaks, 1)
}

/// The names of the tests that contain the filter: those in a list, and the others.
fn names(program: &TestProgram, list: &[&str], filter: Option<&str>) -> Result<(Vec<String>, Vec<String>)> {
    let mut all = selection::all(program, list)?;
    all.retain(|name| filter.is_none_or(|filter| name.contains(filter)));
    Ok(all.into_iter().partition(|name| selection::is_of_any(list, name)))
}

/// Runs tests by their names, with these variables, so many at once.
fn run_those(
    program: &TestProgram,
    variables: &[&str],
    names: &[String],
    threads: usize,
) -> Result<TierOutcome> {
    if names.is_empty() {
        return Ok(TierOutcome::LeftOut);
    }
    if let Some(reason) = no_namespaces_reason() {
        return Ok(TierOutcome::not_run(reason));
    }
    let mut tests = in_namespaces();
    tests.arg("env").arg(ALLOWS_TIMED).args(variables);
    tests.arg(&program.tests).arg(format!("--test-threads={threads}")).args(TIMED).arg("--exact").args(names);
    // Where cargo starts tests.
    tests.current_dir(command::workspace().join("ratelimit"));
    run_tests(&mut tests)
}

/// Builds the test program, and returns where it is.
pub fn build() -> Result<TestProgram> {
    let mut cargo = command::cargo();
    // All packages, as in the other tiers: by itself the package would be built with other features, and so once more.
    cargo.args(["test", "--test", "kernel"]);
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
    //! Reading cargo's messages, and tests that lack a program.

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

    #[test]
    fn tests_that_lack_a_program_are_taken_out_and_said() {
        let mut names = vec!["operations::fail2ban::bans".to_owned(), "limits::of_operations".to_owned()];
        let missing = || "needs fail2ban".to_owned();
        assert_eq!(without_others(&mut names, missing()), TierOutcome::not_run("needs fail2ban"));
        assert_eq!(names, ["limits::of_operations"]);
        assert_eq!(without_others(&mut names, missing()), TierOutcome::LeftOut);
    }
}
