//! Runs a guest: passes on what its tests print, counts them, and ends it if it hangs.
//!
//! The guest has two serial ports. The kernel's console is the first, which goes into a file and is shown if the guest
//! ends otherwise than it should; what the tests print is the second.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use super::image::STATUS;
use crate::command;
use crate::test::tier::{Heard, TierOutcome};

/// A guest that takes longer hangs: all kernel tests take an hour or two on a busy machine.
const LIMIT: Duration = Duration::from_secs(3 * 3600);
/// And so does one in which no test ends for so long.
const SILENCE: Duration = Duration::from_secs(1200);

const MEMORY: &str = "1G";

/// A guest that runs.
pub struct Guest {
    child: Child,
    lines: Receiver<String>,
    console: PathBuf,
}

impl Guest {
    /// Boots a kernel with an initramfs. What its tests print is kept until somebody waits for them.
    pub fn start(image: &Path, initramfs: &Path, directory: &Path) -> Result<Self> {
        let console = directory.join("console.log");
        let mut machine = machine(image, initramfs, &console);
        command::announce(&machine);
        let mut child =
            machine.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("starting QEMU")?;
        let lines = lines_of(&mut child);
        Ok(Self { child, lines, console })
    }

    /// Waits for its tests, and returns how they ended.
    pub fn wait(mut self) -> Result<TierOutcome> {
        let Ended { status, heard } = listen(&self.lines);
        // It has switched itself off, or is to be.
        let _ = self.child.kill();
        self.child.wait().context("waiting for QEMU")?;
        print!("{heard}");
        if status.is_none() {
            show_end_of(&self.console);
        }
        let counts = Some(heard.counts);
        Ok(if status == Some(0) { TierOutcome::Passed(counts) } else { TierOutcome::Failed(counts) })
    }
}

/// One processor: two take turns at the same translated code, and are slower and less steady.
fn machine(image: &Path, initramfs: &Path, console: &Path) -> Command {
    let mut qemu = Command::new("setpriv");
    qemu.args(["--pdeathsig", "KILL", "qemu-system-x86_64", "-machine", "q35,accel=tcg", "-cpu", "max"]);
    qemu.args([
        "-smp",
        "1",
        "-m",
        MEMORY,
        "-nodefaults",
        "-no-user-config",
        "-no-reboot",
        "-display",
        "none",
    ]);
    qemu.arg("-kernel").arg(image).arg("-initrd").arg(initramfs);
    // On a busy machine the kernel may find that its emulated timer does not tick in time, and give up on it.
    qemu.args(["-append", "console=ttyS0 quiet panic=-1 mitigations=off no_timer_check"]);
    qemu.arg("-serial").arg(format!("file:{}", console.display())).args(["-serial", "stdio"]);
    // Two network cards on a wire of their own.
    for (name, mac) in [("one", "52:54:00:00:00:01"), ("two", "52:54:00:00:00:02")] {
        qemu.arg("-netdev").arg(format!("hubport,id={name},hubid=0"));
        qemu.arg("-device").arg(format!("virtio-net-pci,netdev={name},mac={mac},romfile="));
    }
    qemu
}

fn lines_of(child: &mut Child) -> Receiver<String> {
    let (sender, lines) = channel();
    let output = child.stdout.take().map(BufReader::new);
    thread::spawn(move || {
        let lines = output.into_iter().flat_map(|output| output.split(b'\n')).map_while(Result::ok);
        let text = |line: Vec<u8>| String::from_utf8_lossy(&line).trim_end_matches('\r').to_owned();
        // Nobody listens any more if the guest is ended.
        lines.map(text).try_for_each(|line| sender.send(line))
    });
    lines
}

/// How a guest ended: without a status if it panicked or hung.
#[derive(Debug, Default, PartialEq, Eq)]
struct Ended {
    status: Option<i32>,
    heard: Heard,
}

fn listen(lines: &Receiver<String>) -> Ended {
    let mut ended = Ended::default();
    let limit = Instant::now() + LIMIT;
    loop {
        match lines.recv_timeout(SILENCE.min(limit.saturating_duration_since(Instant::now()))) {
            Ok(line) => ended.hear(&line),
            Err(RecvTimeoutError::Disconnected) => return ended,
            Err(RecvTimeoutError::Timeout) => {
                println!("the guest hangs, and is ended");
                return Ended { status: None, ..ended };
            }
        }
    }
}

impl Ended {
    fn hear(&mut self, line: &str) {
        println!("{line}");
        self.heard.hear(line);
        if let Some(status) = line.strip_prefix(STATUS) {
            self.status = status.parse().ok();
        }
    }
}

/// The last lines of the kernel's console.
fn show_end_of(console: &Path) {
    const LINES: usize = 60;
    let text = fs::read(console).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    println!("the guest did not end as it should; its console ({}) ends so:", console.display());
    for line in lines.iter().skip(lines.len().saturating_sub(LINES)) {
        println!("    {line}");
    }
}

#[cfg(test)]
mod tests {
    //! What is made of a guest's lines.

    use super::*;
    use crate::test::tier::Counts;

    fn ended(said: &[&str]) -> Ended {
        let (sender, lines) = channel();
        said.iter().for_each(|line| sender.send((*line).to_owned()).unwrap_or_default());
        drop(sender);
        listen(&lines)
    }

    #[test]
    fn a_guest_that_says_no_status_has_not_ended_well() {
        let of = |passed, failed| Counts { passed, failed, ignored: 0 };
        let counts = |said: &[&str]| {
            let Ended { status, heard } = ended(said);
            (status, heard.counts)
        };
        let result = "test result: FAILED. 3 passed; 1 failed; 0 ignored; 0 measured; 2 filtered out";
        let status = format!("{STATUS}101");
        assert_eq!(counts(&["test a ... ok", result, &status]), (Some(101), of(3, 1)));
        assert_eq!(counts(&["test a ... ok", result]), (None, of(3, 1)));
        assert_eq!(counts(&[&format!("{STATUS}0")]), (Some(0), of(0, 0)));
    }
}
