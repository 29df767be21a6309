//! One server: a process, a directory, an address.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use redis::{Commands as _, Connection, FromRedisValue, InfoDict, RedisError, RedisResult};
use tempfile::TempDir;

use crate::{Certificates, Engine, Setup, engine, process::Process, until, wait_for_whole_ones};

/// A server that tests start, and that ends with its handle.
#[derive(Debug)]
pub struct Server {
    setup: Setup,
    certificates: Option<Certificates>,
    directory: TempDir,
    process: Option<Process>,
}

impl Server {
    /// One without a password, which saves nothing. Nobody's windows end soon after it has started.
    #[must_use]
    pub fn start(engine: Engine) -> Self {
        Setup::new(engine).start()
    }

    pub(crate) fn from_setup(setup: Setup) -> Self {
        let certificates = setup.has_tls.then(|| Certificates::new(setup.address.ip()));
        let directory = tempfile::Builder::new().prefix("store").tempdir().unwrap();
        let mut server = Self { setup, certificates, directory, process: None };
        server.write_configuration();
        if server.setup.has_clock {
            server.set_clock(Duration::ZERO, true);
        }
        wait_for_whole_ones();
        server.start_again();
        server
    }

    fn write_configuration(&self) {
        let (ip, port) = (self.setup.address.ip(), self.setup.address.port());
        let mut lines = vec![
            format!("bind {ip}"),
            format!("dir {}", self.directory.path().display()),
            format!("logfile {}", self.path("log").display()),
            format!("unixsocket {}", self.socket().display()),
        ];
        match &self.certificates {
            None => lines.push(format!("port {port}")),
            Some(certificates) => {
                lines.extend(["port 0".to_owned(), format!("tls-port {port}")]);
                for (key, name) in [("ca-cert", "ca.pem"), ("cert", "server.pem"), ("key", "server.key")] {
                    lines.push(format!("tls-{key}-file {}", certificates.file(name).display()));
                }
            }
        }
        if !self.setup.is_sentinel {
            // Masters and sentinels know a replica by the address that it says, not by the one that it comes from.
            lines.extend([format!("replica-announce-ip {ip}"), format!("replica-announce-port {port}")]);
            lines
                .extend(["save \"\"", "repl-diskless-sync-delay 0", "shutdown-timeout 0"].map(str::to_owned));
        }
        lines.extend(self.setup.lines.iter().cloned());
        fs::write(self.path("configuration"), lines.join("\n") + "\n").unwrap();
    }

    /// Starts it once more, with what it has kept, and waits until it answers.
    pub fn start_again(&mut self) {
        let mut command = Command::new(self.setup.engine.program());
        command.arg(self.path("configuration"));
        if self.setup.is_sentinel {
            command.arg("--sentinel");
        }
        if self.setup.has_clock {
            command.env("LD_PRELOAD", engine::found("libfaketime"));
            command.env("FAKETIME_TIMESTAMP_FILE", self.path("clock"));
            command.envs([("FAKETIME_NO_CACHE", "1"), ("FAKETIME_DONT_FAKE_MONOTONIC", "1")]);
        }
        let process = self.process.insert(Process::start(&command));
        let (socket, log) = (self.directory.path().join("socket"), self.directory.path().join("log"));
        let client = client_at(&socket, self.setup.password.as_deref());
        until("a server's start", || {
            assert!(process.is_running(), "{}", fs::read_to_string(&log).unwrap_or_default());
            let connection = client.get_connection();
            connection.and_then(|mut connection| redis::cmd("PING").exec(&mut connection)).is_ok()
        });
    }

    /// Whose it is.
    #[must_use]
    pub fn engine(&self) -> Engine {
        self.setup.engine
    }

    /// Where it listens; nobody else has this address, also while it does not run.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.setup.address
    }

    /// Its Unix socket.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.path("socket")
    }

    /// Its address as a URL, `redis://` or `rediss://`, without credentials.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = if self.setup.has_tls { "rediss" } else { "redis" };
        format!("{scheme}://{}", self.setup.address)
    }

    /// The certificates of a server with TLS.
    #[must_use]
    pub fn certificates(&self) -> &Certificates {
        self.certificates.as_ref().unwrap()
    }

    pub(crate) fn password(&self) -> Option<&str> {
        self.setup.password.as_deref()
    }

    /// A file in its directory, which ends with it: for the passwords of a test, say.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A connection as its administrator, by the Unix socket.
    #[must_use]
    pub fn connection(&self) -> Connection {
        self.try_to_connect().unwrap()
    }

    fn try_to_connect(&self) -> RedisResult<Connection> {
        client_at(&self.socket(), self.setup.password.as_deref()).get_connection()
    }

    /// What it answers to a command of its administrator. Sentinels cut all connections to a server that gets another
    /// role; then it is asked again.
    pub fn ask<T: FromRedisValue>(&self, command: &[&str]) -> T {
        let mut answer = None;
        until("an answer", || {
            let query = |mut connection| redis::cmd(command[0]).arg(&command[1..]).query(&mut connection);
            let now = self.try_to_connect().and_then(query);
            let is_cut = now.as_ref().is_err_and(RedisError::is_connection_dropped);
            answer = Some(now);
            !is_cut
        });
        answer.unwrap().unwrap_or_else(|error| panic!("{command:?}: {error}"))
    }

    /// The same where only success matters.
    pub fn command(&self, command: &[&str]) {
        self.ask::<redis::Value>(command);
    }

    /// A value of `INFO`.
    #[must_use]
    pub fn info(&self, name: &str) -> String {
        let values: InfoDict = self.ask(&["INFO", "all"]);
        values.get(name).unwrap_or_else(|| panic!("INFO has no {name}"))
    }

    /// How many keys it has.
    #[must_use]
    pub fn keys(&self) -> u64 {
        self.ask(&["DBSIZE"])
    }

    /// Whether it has this key.
    #[must_use]
    pub fn has(&self, key: &[u8]) -> bool {
        self.connection().exists(key).unwrap()
    }

    /// Its clock is ahead of the machine's by so much from now on, or behind. Only with [`Setup::clock`].
    pub fn set_clock(&self, by: Duration, ahead: bool) {
        let sign = if ahead { '+' } else { '-' };
        let (new, file) = (self.path("clock.new"), self.path("clock"));
        fs::write(&new, format!("{sign}{}.{:06}", by.as_secs(), by.subsec_micros())).unwrap();
        fs::rename(new, file).unwrap();
        // It looks at its clock now and then, and says meanwhile what it saw last.
        if self.process.is_some() {
            until("a clock's setting", || self.clock_is(by, ahead));
        }
    }

    /// Whether it says a time that is so much ahead of the machine's, or behind, which goes on while it is asked.
    #[must_use]
    pub fn clock_is(&self, by: Duration, ahead: bool) -> bool {
        const SLACK: Duration = Duration::from_millis(100);
        let own = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let before = own();
        let (seconds, micros): (u64, u64) = self.ask(&["TIME"]);
        let (theirs, after) = (Duration::from_secs(seconds) + Duration::from_micros(micros), own());
        let [earliest, latest] = [before, after].map(|own| if ahead { own + by } else { own - by });
        (earliest - SLACK..=latest + SLACK).contains(&theirs)
    }

    /// Waits until it follows a master, and has all that the master had.
    pub fn wait_for_sync(&self) {
        until("a replica's first synchronization", || {
            self.info("role") == "slave" && self.info("master_link_status") == "up"
        });
    }

    /// As `kill -STOP`: connections stay, and what is sent is kept by the kernel.
    pub fn pause(&self) {
        self.running().pause();
    }

    /// As `kill -CONT`.
    pub fn resume(&self) {
        self.running().resume();
    }

    /// As `kill -9`.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// The number of its process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.running().id()
    }

    fn running(&self) -> &Process {
        self.process.as_ref().unwrap()
    }
}

fn client_at(socket: &Path, password: Option<&str>) -> redis::Client {
    let password = password.map(|password| format!("?pass={password}")).unwrap_or_default();
    redis::Client::open(format!("unix://{}{password}", socket.display())).unwrap()
}
