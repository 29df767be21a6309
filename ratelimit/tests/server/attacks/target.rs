//! A daemon of its own to attack, whose memory is that of nobody else, and frames of HTTP/2 that no client library
//! sends.

use std::{
    fs,
    io::{Read as _, Write as _},
    iter,
    net::{SocketAddr, TcpStream},
    os::{fd::OwnedFd, unix::net::UnixStream},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU8, Ordering::Relaxed},
    time::{Duration, Instant},
};

use tempfile::TempDir;

use crate::{
    http2::PREFACE,
    support::{Answer, PATIENCE, RULES, question, request},
    tls,
    wait::{LONGEST, until},
};

/// What the daemon may hold, in MiB: what is set aside for requests and answers, as much again around them, and what it
/// has to begin with.
pub const MOST_MEMORY: u64 = 360;

/// Bytes of each answer about the key `large`, and a few more.
pub const LARGE: usize = 100_000;

/// Types of frames.
pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const PRIORITY: u8 = 2;
pub const SETTINGS: u8 = 4;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;
/// Flags of headers and data.
pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;

pub struct Target {
    daemon: Child,
    pub grpc: SocketAddr,
    pub http: SocketAddr,
    pub tls: SocketAddr,
    pub metrics: SocketAddr,
    directory: TempDir,
}

impl Drop for Target {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

impl Target {
    pub fn new() -> Self {
        Self::start(&mut Command::new(env!("CARGO_BIN_EXE_ratelimit")))
    }

    /// That may have so many files open.
    pub fn with_files(most: u32) -> Self {
        let mut limited = Command::new("prlimit");
        Self::start(limited.args([&format!("--nofile={most}"), "--", env!("CARGO_BIN_EXE_ratelimit")]))
    }

    fn start(run: &mut Command) -> Self {
        let directory = tls::directory(&tls::authority());
        let at = |name: &str| directory.path().join(name).display().to_string();
        // Where no client's own port can be, nor another test's listener.
        static NUMBER: AtomicU8 = AtomicU8::new(1);
        let [.., high, low] = std::process::id().to_be_bytes();
        let host = [127, high | 1, low, NUMBER.fetch_add(1, Relaxed)];
        let [grpc, http, tls, metrics] = [8081, 8080, 8443, 9102].map(|port| SocketAddr::from((host, port)));
        let secured = format!("{{cert: '{}', key: '{}'}}", at("cert.pem"), at("key.pem"));
        let text = format!(
            "control: '{}'
application:
  rules: [rules.yaml]
  listen:
    grpc: ['{grpc}', {{address: '{tls}', tls: {secured}}}]
    http: ['{http}', 'unix:{}']
metrics: {{listen: '{metrics}'}}\n",
            at("control.sock"),
            at("http.sock")
        );
        let large = format!(
            "  - key: large
    metadata: {{text: {}}}
    rate_limit: {{unit: hour, requests_per_unit: 1000000}}\n",
            "x".repeat(LARGE)
        );
        fs::write(directory.path().join("rules.yaml"), RULES.to_owned() + &large).unwrap();
        fs::write(directory.path().join("ratelimit.yaml"), text).unwrap();
        run.args(["run", "--config", &at("ratelimit.yaml")]).stdin(Stdio::null()).stderr(Stdio::null());
        let daemon = run.spawn().unwrap();
        let target = Self { daemon, grpc, http, tls, metrics, directory };
        for address in [grpc, http, tls, metrics] {
            until("the daemon listens", || TcpStream::connect(address).ok());
        }
        until("the daemon listens", || UnixStream::connect(target.directory.path().join("http.sock")).ok());
        target
    }

    /// At a socket in its directory.
    fn connect(&self, socket: &str) -> UnixStream {
        UnixStream::connect(self.directory.path().join(socket)).unwrap()
    }

    /// An attacker at its control socket, which takes nothing. All that is done with a stream can be done with either
    /// kind.
    pub fn deaf_at_control(&self) -> Attacker {
        Attacker::of(TcpStream::from(OwnedFd::from(self.connect("control.sock"))))
    }

    /// Asks at its control socket whose it is.
    pub fn says_whose_it_is(&self) -> Answer {
        let stream = self.connect("control.sock");
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Answer::read(stream, b"GET /v1/instance HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
    }

    /// What its metrics say of this series.
    pub fn counted(&self, series: &str) -> u64 {
        let stream = TcpStream::connect(self.metrics).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let metrics = Answer::read(stream, &request("GET", "/metrics", &[], b"")).body;
        let value = |line: &str| line.strip_prefix(series)?.strip_prefix(' ')?.parse::<u64>().ok();
        metrics.lines().find_map(value).unwrap_or_else(|| panic!("no {series} in {metrics}"))
    }

    /// The most memory that it has had, in MiB.
    pub fn memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.daemon.id())).unwrap();
        let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        most.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() / 1024
    }

    pub fn is_small(&self) {
        let memory = self.memory();
        assert!(memory < MOST_MEMORY, "{memory} MiB");
    }

    /// Asks as a client that is not the attacker.
    pub fn serves_others(&self) {
        (0..5).for_each(|_| self.serves_question_of(5_000));
    }

    /// The same of so many bytes.
    pub fn serves_question_of(&self, bytes: usize) {
        let body = question("other", &"x".repeat(bytes));
        let stream = self.connect("http.sock");
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let answer = Answer::read(stream, &request("POST", "/v1/check", &[], body.as_bytes()));
        assert_eq!(answer.status, 200, "{answer:?}");
    }
}

/// How an attack on one connection ended.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    /// The daemon has ended the connection.
    Ended,
    /// It reads no more, since nobody takes its answers.
    Blocked,
    /// All was taken.
    Taken,
}

/// An attacker's connection.
pub struct Attacker(TcpStream);

impl Attacker {
    /// That takes all that comes.
    pub fn new(address: SocketAddr) -> Self {
        Self::deaf(address).taking()
    }

    /// That takes nothing.
    pub fn deaf(address: SocketAddr) -> Self {
        Self::of(TcpStream::connect(address).unwrap())
    }

    /// That takes all that comes from now on.
    pub fn taking(self) -> Self {
        let mut stream = self.0.try_clone().unwrap();
        std::thread::spawn(move || while stream.read(&mut [0; 65_536]).is_ok_and(|read| read > 0) {});
        self
    }

    fn of(stream: TcpStream) -> Self {
        stream.set_write_timeout(Some(Duration::from_secs(2))).unwrap();
        Self(stream)
    }

    /// That speaks HTTP/2, with these settings.
    pub fn http2(self, settings: &[u8]) -> Self {
        let mut stream = &self.0;
        stream
            .write_all(&[&PREFACE[..PREFACE.len() - 9], &frame(SETTINGS, 0, 0, settings)].concat())
            .unwrap();
        self
    }

    /// Sends all this, until the daemon has had enough.
    pub fn send(&self, all: impl IntoIterator<Item = Vec<u8>>) -> End {
        for bytes in all {
            if let Err(error) = (&self.0).write_all(&bytes) {
                let is_blocked = error.kind() == std::io::ErrorKind::WouldBlock;
                return if is_blocked { End::Blocked } else { End::Ended };
            }
        }
        End::Taken
    }

    /// Sends this, and then more of the same for as long as it is taken.
    pub fn flood(&self, begin: Vec<u8>, more: &[u8]) -> End {
        let deadline = Instant::now() + LONGEST;
        let more = iter::repeat_with(|| more.to_vec()).take_while(|_| Instant::now() < deadline);
        self.send(iter::once(begin).chain(more))
    }
}

pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A header that is not to be remembered.
pub fn header(name: &str, value: &str) -> Vec<u8> {
    let text = |text: &str| match text.len() {
        short @ ..127 => [&[u8::try_from(short).unwrap()], text.as_bytes()].concat(),
        long => {
            let [low, high, ..] = (long - 127).to_le_bytes();
            let length = u16::from_le_bytes([low, high]);
            let [first, second] = [length & 0x7f | 0x80, length >> 7 & 0x7f | 0x80];
            let bytes = [127, first, second, length >> 14].map(|part| u8::try_from(part).unwrap());
            [&bytes[..], text.as_bytes()].concat()
        }
    };
    [vec![0], text(name), text(value)].concat()
}

/// How a request begins: `POST` to this path.
pub fn post(path: &str) -> Vec<u8> {
    let path = [&[0x04, u8::try_from(path.len()).unwrap()], path.as_bytes()].concat();
    [&[0x83, 0x86][..], &path, b"\x01\x04test"].concat()
}

/// The streams of a client, in order.
pub fn streams(count: u32) -> impl Iterator<Item = u32> {
    (0..count).map(|number| 2 * number + 1)
}
