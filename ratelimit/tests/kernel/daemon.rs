//! The real binary: as a daemon that dies with the test, and as a command.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read},
    os::unix::process::ExitStatusExt as _,
    path::PathBuf,
    process::{Child, Command, ExitStatus, Output, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::Instant,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use ratelimit::dataplane::{InstanceStatus, PacketCount};

use crate::{net::SERVER, wait, windows};

pub fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ratelimit"));
    command.args(arguments).env_remove("RUST_LOG").stdin(Stdio::null());
    command
}

/// Writes a configuration for the server's interface: rules one a line, other keys of `network` before them.
pub fn config(network: &[&str], rules: &[&str]) -> PathBuf {
    config_at("/run/ratelimit.yaml", "", network, rules)
}

/// The same, with a place and with keys beside `network`.
pub fn config_at(path: &str, top: &str, network: &[&str], rules: &[&str]) -> PathBuf {
    let line = |indent: &'static str| move |text: &&str| format!("{indent}{text}\n");
    let network: String = network.iter().map(line("  ")).collect();
    let rules: String = rules.iter().map(line("    - ")).collect();
    fs::write(path, format!("{top}\nnetwork:\n  interfaces: [{SERVER}]\n{network}  rules:\n{rules}"))
        .unwrap();
    path.into()
}

/// The first one, for these interfaces.
pub fn config_for(interfaces: &str, rules: &[&str]) -> PathBuf {
    let path = config(&[], rules);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace(&format!("[{SERVER}]"), interfaces)).unwrap();
    path
}

/// A running `ratelimit run`.
pub struct Daemon {
    child: Child,
    lines: Receiver<String>,
    said: Vec<String>,
}

impl Daemon {
    /// Starts it, and returns when the limits are in force.
    pub fn start(config: &PathBuf) -> Self {
        let mut daemon = Self::spawn(command(&["run", "--config"]).arg(config));
        daemon.wait_for("limiting");
        daemon
    }

    /// Its limits may be windows.
    pub fn spawn(command: &mut Command) -> Self {
        windows::wait_for_whole_ones();
        let mut child = command.stderr(Stdio::piped()).spawn().expect("starting the daemon");
        let (sender, lines) = channel();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        thread::spawn(move || stderr.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { child, lines, said: Vec::new() }
    }

    /// Waits until the daemon's log has this in a line.
    pub fn wait_for(&mut self, text: &str) {
        let deadline = Instant::now() + wait::LONGEST;
        while !self.said.last().is_some_and(|line| line.contains(text)) {
            let line = self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now()));
            self.said.push(line.unwrap_or_else(|_| panic!("no {text:?} in {:#?}", self.said)));
        }
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).unwrap();
    }

    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Everything it has said so far, to its end.
    pub fn last_words(mut self) -> Vec<String> {
        wait::until("the daemon has ended", || self.child.try_wait().unwrap());
        self.said.extend(self.lines.iter());
        std::mem::take(&mut self.said)
    }

    /// Waits for its end.
    pub fn end(mut self) -> ExitStatus {
        let status = wait::until("the daemon has ended", || self.child.try_wait().unwrap());
        self.said.extend(self.lines.iter());
        println!("{:#?}", self.said);
        status
    }

    /// As the kernel does when memory is short.
    pub fn kill(self) {
        self.signal(Signal::SIGKILL);
        assert_eq!(self.end().signal(), Some(Signal::SIGKILL as i32));
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a command that ends by itself, and soon.
pub fn output(command: &mut Command) -> Output {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.expect("starting the command");
    // What it says may not fit the pipe.
    let read = |mut from: Box<dyn Read + Send>| {
        thread::spawn(move || {
            let mut said = Vec::new();
            from.read_to_end(&mut said).map(|_| said)
        })
    };
    let said = [
        Box::new(child.stdout.take().unwrap()) as Box<dyn Read + Send>,
        Box::new(child.stderr.take().unwrap()),
    ];
    let said = said.map(read);
    let mut running = Running(Some(child));
    let status = wait::until("the command has ended", || running.0.as_mut()?.try_wait().unwrap());
    let [stdout, stderr] = said.map(|said| said.join().unwrap().unwrap());
    Output { status, stdout, stderr }
}

/// A command that dies with the test that waits for it.
struct Running(Option<Child>);

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Runs a command that must succeed.
pub fn run(arguments: &[&str]) -> String {
    let output = output(&mut command(arguments));
    let (stdout, stderr) = text(&output);
    assert!(output.status.success(), "{arguments:?}: {stderr}");
    stdout
}

pub fn text(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_owned()).unwrap();
    (text(&output.stdout), text(&output.stderr))
}

/// What `ratelimit status` says.
pub fn status() -> InstanceStatus {
    serde_json::from_str(&run(&["status", "--output", "json"])).expect("the status")
}

/// Packets of one reason.
pub fn reason(status: &InstanceStatus, name: &str) -> PacketCount {
    status.reasons.iter().find(|reason| reason.reason == name).expect("the reason").count
}

/// Packets that a rule passed and denied: it dropped them, or observed them.
pub fn rule(status: &InstanceStatus, name: &str) -> (u64, u64) {
    let rule = status.rules.iter().find(|rule| rule.rule.name == name).expect("the rule");
    (rule.passed.packets, rule.dropped.packets + rule.observed.packets)
}

/// Waits until so many packets have been judged.
pub fn judged(packets: u64) -> InstanceStatus {
    let mut last = 0;
    let ask = || {
        let status = status();
        let all: u64 = status.reasons.iter().map(|reason| reason.count.packets).sum();
        if all != last {
            println!("{all} of {packets} packets judged");
            last = all;
        }
        assert!(all <= packets, "{all} packets judged, but {packets} sent: {:#?}", status.reasons);
        (all == packets).then_some(status)
    };
    wait::until("all packets are judged", ask)
}
