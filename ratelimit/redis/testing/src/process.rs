//! A server as a process: paused, resumed, killed by its number.

use std::{
    io,
    process::{Child, Command, Stdio},
    sync::{
        OnceLock,
        mpsc::{Sender, channel},
    },
    thread,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

/// A program that ends with its handle, and with the test's process if that is killed.
#[derive(Debug)]
pub(crate) struct Process(Child);

impl Process {
    /// Starts the program of the command as one that is killed when the thread ends that has started it. So one thread
    /// starts all, which lives as long as the process.
    pub(crate) fn start(command: &Command) -> Self {
        static STARTER: OnceLock<Sender<(Command, Sender<io::Result<Child>>)>> = OnceLock::new();
        let starter = STARTER.get_or_init(|| {
            let (commands, received) = channel::<(Command, Sender<io::Result<Child>>)>();
            thread::spawn(move || {
                for (mut command, answer) in received {
                    let _ = answer.send(command.spawn());
                }
            });
            commands
        });
        let (answer, child) = channel();
        starter.send((bound(command), answer)).unwrap();
        Self(child.recv().unwrap().unwrap())
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// As `kill -STOP`: connections stay, and what is sent is kept by the kernel.
    pub(crate) fn pause(&self) {
        self.signal(Signal::SIGSTOP);
    }

    pub(crate) fn resume(&self) {
        self.signal(Signal::SIGCONT);
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.0.id()).unwrap()), signal).unwrap();
    }

    /// As `kill -9`.
    pub(crate) fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

fn bound(command: &Command) -> Command {
    let mut bound = Command::new("setpriv");
    bound.args(["--pdeathsig", "KILL", "--"]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => bound.env(name, value),
            None => bound.env_remove(name),
        };
    }
    bound.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    bound
}
