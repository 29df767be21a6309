//! Programs that tests start: the daemon, and clients of it. All end with the test.

use std::{
    env, fs,
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use tempfile::TempDir;

use crate::{
    http::{Answer, request},
    wait, windows,
};

/// Far longer than anything takes.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A program that ends with its handle.
pub struct Process(Child);

impl Process {
    pub fn start(command: &mut Command) -> Self {
        Self(command.stdin(Stdio::null()).spawn().unwrap())
    }

    pub fn is_running(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }

    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Waits until it ends by itself; its exit status, unless a signal ended it.
    fn end(&mut self) -> Option<i32> {
        until("the end", || !self.is_running());
        self.0.wait().unwrap().code()
    }

    /// As `kill -9`.
    pub fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A program of other people, by the variable that says where it is.
pub fn program(variable: &str) -> PathBuf {
    env::var_os(variable)
        .unwrap_or_else(|| panic!("{variable} is not set: run `cargo xtask test clients`"))
        .into()
}

/// A program without a single capability, also if the tests run as root: the application layer needs none.
pub fn without_rights(program: &str) -> Command {
    if !nix::unistd::geteuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set=-all", "--inh-caps=-all", "--", program]);
    command
}

/// An address that nobody else has now.
pub fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// Waits until something is so.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    wait::until(what, || is_so().then_some(()));
}

pub fn accepts(address: SocketAddr) -> bool {
    TcpStream::connect(address).is_ok()
}

/// The daemon with a configuration of its own, and a directory for all files of a test.
pub struct Daemon {
    pub directory: TempDir,
    pub grpc: SocketAddr,
    pub http: SocketAddr,
    process: Option<Process>,
}

impl Daemon {
    /// With these rules, and these lines below `application:`.
    pub fn start(rules: &str, lines: &str) -> Self {
        Self::start_at(rules, lines, "")
    }

    /// The same with one more address for HTTP.
    pub fn start_at(rules: &str, lines: &str, also: &str) -> Self {
        Self::start_with("rules.yaml", rules, lines, also)
    }

    /// The same with rules that are elsewhere.
    pub fn start_with(pattern: &str, rules: &str, lines: &str, also: &str) -> Self {
        windows::wait_for_whole_ones();
        let also = if also.is_empty() { String::new() } else { format!(", '{also}'") };
        let directory = tempfile::tempdir().unwrap();
        let (grpc, http) = (free_address(), free_address());
        fs::write(directory.path().join("rules.yaml"), rules).unwrap();
        let control = directory.path().join("control.sock");
        let text = format!(
            "control: {}\napplication:\n  rules: ['{pattern}']\n  listen: {{grpc: '{grpc}', http: ['{http}'{also}]}}\n{lines}",
            control.display()
        );
        fs::write(directory.path().join("ratelimit.yaml"), text).unwrap();
        let mut daemon = Self { directory, grpc, http, process: None };
        daemon.start_again();
        daemon
    }

    /// As another one with the same configuration, which knows nothing of what was counted.
    pub fn start_again(&mut self) {
        let mut command = without_rights(env!("CARGO_BIN_EXE_ratelimit"));
        command.arg("run").arg("--config").arg(self.path("ratelimit.yaml"));
        let process = self.process.insert(Process::start(&mut command));
        until("the daemon's start", || {
            assert!(process.is_running(), "the daemon has ended");
            accepts(self.http) && accepts(self.grpc)
        });
    }

    pub fn kill(&mut self) {
        self.process = None;
    }

    pub fn id(&self) -> u32 {
        self.process.as_ref().unwrap().id()
    }

    /// How it ends, once it has been asked to.
    pub fn end(mut self) -> Option<i32> {
        self.process.take().unwrap().end()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path
    }
}

pub fn get(address: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Answer {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    Answer::read(stream, &request("GET", path, headers, b""))
}

/// The same with a body.
pub fn post(address: SocketAddr, path: &str, body: &str) -> Answer {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    Answer::read(stream, &request("POST", path, &[], body.as_bytes()))
}

/// What a document has between three backticks, by the language and a part of the text.
pub fn from_document(name: &str, language: &str, part: &str) -> String {
    let document = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)).unwrap();
    let opening = format!("```{language}\n");
    let blocks = document.split(&opening).skip(1).filter_map(|rest| rest.split("\n```").next());
    let found = blocks.into_iter().find(|block| block.contains(part)).map(|block| format!("{block}\n"));
    found.unwrap_or_else(|| panic!("{name} has no {language} with {part}"))
}
