//! `docs/several-daemons.md`, done as it is written.

use std::{
    collections::HashMap,
    fs,
    net::TcpListener,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Output, Stdio},
};

use ratelimit_redis_testing::{Engine, until, wait_for_whole_ones};
use tempfile::TempDir;

/// What stands between three backticks and a language, in order.
fn blocks<'d>(document: &'d str, language: &str) -> Vec<&'d str> {
    let opening = format!("```{language}\n");
    document.split(&*opening).skip(1).filter_map(|rest| rest.split("\n```").next()).collect()
}

/// A directory in which the guide is followed, with addresses that are free.
struct Guide {
    directory: TempDir,
    ports: HashMap<&'static str, String>,
    /// Ends with the test.
    started: Vec<std::process::Child>,
}

impl Guide {
    fn new() -> Self {
        wait_for_whole_ones();
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("bin")).unwrap();
        let program = |name: &str, path: &Path| {
            let script = format!("#!/bin/sh\nexec '{}' \"$@\"\n", path.display());
            let file = directory.path().join("bin").join(name);
            fs::write(&file, script).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        };
        program("ratelimit", Path::new(env!("CARGO_BIN_EXE_ratelimit")));
        program("redis-server", &Engine::tool("redis-server"));
        let listeners: Vec<TcpListener> = (0..4).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let port = |listener: &TcpListener| listener.local_addr().unwrap().port().to_string();
        let ports = ["6379", "8081", "8082", "8083"].into_iter().zip(listeners.iter().map(port)).collect();
        Self { directory, ports, started: Vec::new() }
    }

    /// With the ports of this test.
    fn here(&self, text: &str) -> String {
        // In two steps, since a port of this test may look like one of the guide's.
        let marked = self
            .ports
            .keys()
            .fold(text.to_owned(), |text, port| text.replace(port, &format!("<{}>", &port[1..])));
        self.ports.iter().fold(marked, |text, (port, own)| text.replace(&format!("<{}>", &port[1..]), own))
    }

    fn command(&self, script: &str) -> Command {
        let mut command = Command::new("sh");
        let path = format!("{}/bin:/usr/bin:/bin", self.directory.path().display());
        command
            .arg("-ec")
            .arg(script)
            .env("PATH", path)
            .current_dir(self.directory.path())
            .stdin(Stdio::null());
        command
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.directory.path().join(name), text).unwrap();
    }

    /// Starts what a line ends with `&`.
    fn start(&mut self, script: &str) {
        for line in self.here(script).lines() {
            let line = format!("exec {}", line.strip_suffix(" &").unwrap());
            let mut command = self.command(&line);
            let child = command.stdout(Stdio::null()).spawn().unwrap();
            self.started.push(child);
        }
    }

    fn run(&self, script: &str) -> Output {
        self.command(&self.here(script)).output().unwrap()
    }

    fn wait_for(&self, port: &str) {
        let address = format!("127.0.0.1:{}", self.ports[port]);
        until("the start", || std::net::TcpStream::connect(&address).is_ok());
    }
}

impl Drop for Guide {
    fn drop(&mut self) {
        for child in &mut self.started {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn three_daemons_share_a_limit_as_the_guide_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/several-daemons.md");
    let document = fs::read_to_string(path).unwrap();
    let (scripts, files) = (blocks(&document, "sh"), blocks(&document, "yaml"));
    let [store, copies, validate, daemons, ask] = scripts[..] else { panic!("{scripts:?}") };
    let mut guide = Guide::new();
    guide.write("rules.yaml", files[0]);
    guide.write("a.yaml", files[1]);
    assert!(guide.command(copies).status().unwrap().success());
    for name in ["a.yaml", "b.yaml", "c.yaml"] {
        let text = fs::read_to_string(guide.directory.path().join(name)).unwrap();
        guide.write(name, &guide.here(&text));
    }
    guide.start(store);
    guide.wait_for("6379");
    let tried = guide.run(validate);
    let said = String::from_utf8_lossy(&tried.stdout).into_owned();
    assert!(
        tried.status.success() && said.contains("redis 7") && said.contains("`volatile-ttl`"),
        "{tried:?}"
    );
    assert!(tried.stderr.is_empty(), "{tried:?}");
    guide.start(daemons);
    ["8081", "8082", "8083"].iter().for_each(|port| guide.wait_for(port));
    let connected =
        || guide.run("ratelimit bucket --control a.sock --domain edge --descriptor user=x").status.success();
    until("the store's connection", connected);
    let done = guide.run(ask);
    let lines = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success(), "{done:?}");
    assert!(
        lines.starts_with("allowed") && lines.contains("\ndenied") && lines.contains("as good as new now"),
        "{lines}"
    );
    let last = lines.rsplit_once("as good as new now\n").unwrap().1;
    assert!(last.starts_with("allowed") && last.contains("remaining=99"), "{lines}");
    let status = guide.run("ratelimit status --control a.sock");
    let status = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(status.contains("answers\n") && status.contains("memory      0 keys in use"), "{status}");
}
