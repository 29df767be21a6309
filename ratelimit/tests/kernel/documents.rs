//! Commands of README.md and `docs` that need a kernel, run as they stand there, on a host whose `/etc` and
//! `/usr/local/bin` vanish with the test. `sudo`, `cargo xtask build` and systemd are stand-ins.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
    process::{Child, Command, Output, Stdio},
};

use nix::mount::{MsFlags, mount};

use crate::{
    blocks,
    daemon::{Daemon, output, text},
    frames::{self, Raw},
    net::{Link, ip, isolated, mount_new},
    wait,
};

/// Where the commands are run: what they need of a clone of the sources that has been built.
const SOURCES: &str = "/run/sources";

/// A host with an interface `eth0`, as the documents have it, and with nothing installed.
struct Host {
    link: Link,
}

impl Host {
    fn new() -> Self {
        let link = Link::silent();
        ip("link set server0 down");
        ip("link set server0 name eth0");
        ip("link set eth0 up");
        for directory in ["etc/upper", "etc/work", "bin", "sources/target/release"] {
            fs::create_dir_all(Path::new("/run").join(directory)).unwrap();
        }
        let layers = "lowerdir=/etc,upperdir=/run/etc/upper,workdir=/run/etc/work";
        mount(Some("overlay"), "/etc", Some("overlay"), MsFlags::empty(), Some(layers)).expect("a layer");
        mount_new("tmpfs", "/usr/local/bin");
        fs::create_dir_all("/etc/systemd/system").unwrap();
        symlink(blocks::root().join("config"), format!("{SOURCES}/config")).unwrap();
        let built = format!("{SOURCES}/target/release/ratelimit");
        symlink(env!("CARGO_BIN_EXE_ratelimit"), built).unwrap();
        stand_in("sudo", "exec \"$@\"");
        stand_in("cargo", "[ \"$*\" = 'xtask build' ]");
        let unit = "/etc/systemd/system/ratelimit.service";
        stand_in("systemctl", &format!("[ \"$*\" = 'enable --now ratelimit' ] && grep ^ExecStart= {unit}"));
        Self { link }
    }

    /// With `ratelimit` installed, and with its configuration.
    fn with(config: &str) -> Self {
        let host = Self::new();
        symlink(env!("CARGO_BIN_EXE_ratelimit"), "/usr/local/bin/ratelimit").unwrap();
        fs::write("/etc/ratelimit.yaml", config).unwrap();
        host
    }

    /// With its daemon.
    fn running(config: &str) -> (Self, Daemon) {
        let host = Self::with(config);
        let daemon = start("ratelimit run --config /etc/ratelimit.yaml");
        (host, daemon)
    }

    /// Runs a command to its end, while somebody sends packets.
    fn run_under_traffic(&self, line: &str, source: &str) -> String {
        let (raw, frame) = (Raw::new(&self.link), frames::udp(source.parse().unwrap()));
        let child = shell(line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut command = Ending(Some(child));
        let ended = || {
            (0..20).for_each(|_| raw.send(&frame));
            command.0.as_mut()?.try_wait().unwrap()
        };
        wait::until(line, ended);
        succeeded(line, &command.0.take().unwrap().wait_with_output().unwrap())
    }
}

/// A command that dies with the test.
struct Ending(Option<Child>);

impl Drop for Ending {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            // It may have ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn stand_in(name: &str, script: &str) {
    let path = Path::new("/run/bin").join(name);
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// A line of a document, as somebody enters it.
fn shell(line: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-ec", line]).current_dir(SOURCES).stdin(Stdio::null()).env_remove("RUST_LOG");
    command.env("PATH", "/run/bin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    command
}

fn succeeded(line: &str, output: &Output) -> String {
    let (stdout, stderr) = text(output);
    assert!(output.status.success(), "{line}: {stdout}{stderr}");
    stdout
}

fn run(line: &str) -> String {
    succeeded(line, &output(&mut shell(line)))
}

/// Starts a daemon by a line of a document.
fn start(line: &str) -> Daemon {
    let mut daemon = Daemon::spawn(&mut shell(&format!("exec {line}")));
    daemon.wait_for("limiting");
    daemon
}

/// Asks about a request, once somebody answers.
fn ask(line: &str) {
    wait::until(line, || output(&mut shell(line)).status.success().then_some(()));
}

/// The lines of a document's block.
fn lines(name: &str, part: &str) -> Vec<String> {
    blocks::find(name, part).lines().map(str::to_owned).collect()
}

/// What a block shows: a command behind `$ `, and the lines that it prints.
fn shown(name: &str, part: &str) -> (String, Vec<String>) {
    let mut lines = lines(name, part);
    let command = lines.remove(0);
    (command.strip_prefix("$ ").unwrap().to_owned(), lines)
}

/// Compares what is printed with what a document shows, by what each line begins with and by all headings in capitals;
/// the values are those of another host.
fn assert_looks_like(printed: &str, shown: &[String]) {
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let is_heading = |words: &[String]| words.iter().all(|word| word.chars().all(|c| !c.is_lowercase()));
    for line in shown.iter().map(|line| words(line)).filter(|words| !words.is_empty()) {
        let is_it = |printed: &str| {
            let printed = words(printed);
            if is_heading(&line) { printed == line } else { printed.first() == line.first() }
        };
        assert!(printed.lines().any(is_it), "nothing like {line:?} in\n{printed}");
    }
}

#[test]
fn the_first_rule_is_put_in_force_as_the_readme_says() {
    isolated(|| {
        let _host = Host::with(&blocks::find("README.md", "- name: every-source"));
        let [validate, start_it, confirm, status, top] = &lines("README.md", "ratelimit validate")[..] else {
            panic!("other commands");
        };
        assert!(run(validate).starts_with("/etc/ratelimit.yaml: ok: 1 rule"));
        let mut daemon = Daemon::spawn(&mut shell(&format!("exec {start_it}")));
        daemon.wait_for("on trial");
        assert!(run("ratelimit status").contains("on trial"));
        run(confirm);
        let said = run(status);
        assert!(
            said.contains("eth0") && said.contains("every-source") && !said.contains("on trial"),
            "{said}"
        );
        assert!(run(top).starts_with("all sources"));
    });
}

#[test]
fn it_is_installed_as_operations_says() {
    isolated(|| {
        let _host = Host::new();
        fs::write("/etc/ratelimit.yaml", blocks::find("README.md", "- name: every-source")).unwrap();
        let install = lines("docs/operations.md", "sudo install target/release");
        let (start_it, before) = install.split_last().unwrap();
        before.iter().for_each(|line| drop(run(line)));
        let daemon = start(start_it);
        assert!(run("ratelimit status").contains("eth0"));
        drop(daemon);

        let unit = lines("docs/operations.md", "sudo install -m 644");
        let said: Vec<String> = unit.iter().map(|line| run(line)).collect();
        // What was installed is what the unit starts.
        let starts = "/usr/local/bin/ratelimit run --config /etc/ratelimit.yaml";
        assert!(said.last().unwrap().contains(starts), "{said:?}");
        let mode = fs::metadata("/etc/systemd/system/ratelimit.service").unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o644);
    });
}

#[test]
fn new_rules_are_on_trial_as_operations_says() {
    isolated(|| {
        let _host = Host::with(&blocks::find("README.md", "- name: every-source"));
        let part = "sudo ratelimit run --config /etc/ratelimit.yaml --revert-after";
        let [start_it, confirm] = &lines("docs/operations.md", part)[..] else { panic!("other commands") };
        let _daemon = start(start_it);
        run(confirm);
        assert!(!run("ratelimit status").contains("on trial"));
    });
}

#[test]
fn what_status_top_and_events_print_looks_as_operations_shows_it() {
    isolated(|| {
        let requests = "application: {rules: [/etc/rules.yaml], listen: {grpc: '127.0.0.1:8081', http: '127.0.0.1:8080'}}\n";
        let rules =
            "domain: edge\ndescriptors:\n  - {key: client, rate_limit: {unit: day, requests_per_unit: 1}}\n";
        let config = fs::read_to_string(blocks::root().join("config/ratelimit.yaml")).unwrap();
        let host = Host::with(&(config + requests));
        fs::write("/etc/rules.yaml", rules).unwrap();
        let _daemon = start("ratelimit run --config /etc/ratelimit.yaml");
        // One packet that passes, one that is not IP.
        let raw = Raw::new(&host.link);
        raw.send(&frames::udp("192.0.2.7".parse().unwrap()));
        raw.send(&frames::ethernet(0x88b5, &[0; 46]));
        run("ratelimit ban 192.0.2.9");
        let asked = |line: &str, part: &str| run(line).contains(part);
        wait::until("the packets", || asked("ratelimit status", "not_ip").then_some(()));
        let (status, packets) = shown("docs/operations.md", "$ sudo ratelimit status");
        // Nothing was above a limit here.
        let packets: Vec<String> = packets.into_iter().filter(|line| !line.starts_with("limited ")).collect();
        let printed = run(&status);
        assert_looks_like(&printed, &packets);
        ask("ratelimit check --domain edge --descriptor client=a");
        assert_looks_like(&run(&status), &lines("docs/operations.md", "listening   gRPC"));
        let (top, shown_by_top) = shown("docs/operations.md", "$ sudo ratelimit top");
        assert_looks_like(&host.run_under_traffic(&top, "192.0.2.7"), &shown_by_top[..4]);
        let (events, shown_by_events) = shown("docs/operations.md", "$ sudo ratelimit events");
        let printed = host.run_under_traffic(&format!("{events} -n 1"), "192.0.2.9");
        let begins = |line: &str| line.split(' ').skip(1).take(3).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(begins(&printed), begins(&shown_by_events[0]), "{printed}");
    });
}

#[test]
fn bans_are_made_and_ended_as_their_document_says() {
    isolated(|| {
        let (_host, _daemon) = Host::running(&blocks::find("README.md", "- name: every-source"));
        fs::write(format!("{SOURCES}/blocked.txt"), "198.51.100.64/26 ; one\n203.0.113.7\n").unwrap();
        let [network, forever, file, list, unban] =
            &lines("docs/lists-and-bans.md", "sudo ratelimit ban")[..]
        else {
            panic!("other commands");
        };
        [network, forever, file].into_iter().for_each(|line| drop(run(line)));
        let listed = run(list);
        for part in ["198.51.100.0/24", "ticket 4711", "198.51.100.64/26", "203.0.113.7/32"] {
            assert!(listed.contains(part), "{part}: {listed}");
        }
        let object = |text: &str| {
            let bans: Vec<serde_json::Map<String, serde_json::Value>> = serde_json::from_str(text).unwrap();
            bans.into_iter().find(|ban| ban["prefix"] == "198.51.100.0/24").unwrap()
        };
        let shown = object(&blocks::find("docs/lists-and-bans.md", "seconds_left"));
        let printed = object(&run("ratelimit bans --output json"));
        assert!(shown.keys().eq(printed.keys()) && shown["by"] == printed["by"], "{shown:?} {printed:?}");
        run(unban);
        assert!(!run(list).contains("198.51.100.0/24"));
    });
}

#[test]
fn the_commands_of_troubleshooting_work() {
    isolated(|| {
        let config = "network:\n  interfaces: [eth0]\n  rules: [{name: every-source, rate: 5/s}]\n\
                      application: {rules: [/etc/rules.yaml], listen: {http: '127.0.0.1:8080'}}\n";
        let host = Host::with(config);
        let rules =
            "domain: web\ndescriptors: [{key: client, rate_limit: {unit: day, requests_per_unit: 5}}]\n";
        fs::write("/etc/rules.yaml", rules).unwrap();
        let _daemon = start("ratelimit run --config /etc/ratelimit.yaml");
        // How packets are dropped by a ban, which the document shows, and not by the rule.
        run("ratelimit ban 192.0.2.7 --for 10m");
        let blocks = blocks::of("docs/troubleshooting.md");
        let commands = blocks.iter().flat_map(|(_, text)| {
            let length = if text.starts_with("$ ") { 1 } else { usize::MAX };
            text.lines().take(length).map(|line| line.trim_start_matches("$ "))
        });
        let (mut done, mut last) = (0, None);
        for line in commands {
            done += 1;
            if line.contains(" detach") || line.contains(" run ") {
                // They end what the others need.
                last = last.or(Some(line.to_owned()));
            } else if line.contains(" events ") || line.contains(" top ") {
                host.run_under_traffic(line, "192.0.2.7");
            } else if line.contains(" check ") {
                ask(line);
            } else {
                run(line);
            }
        }
        assert_eq!(done, 10);
        let (bucket, shown) = shown("docs/troubleshooting.md", "$ sudo ratelimit bucket");
        let without_digits = |text: &str| -> Vec<String> {
            text.split_whitespace().map(|word| word.replace(|c: char| c.is_ascii_digit(), "")).collect()
        };
        assert_eq!(without_digits(&run(&bucket)), without_digits(&shown.join("\n")));
        run(&last.unwrap());
        assert!(!ip("link show eth0").contains("xdp"));
    });
}

#[test]
fn a_container_limits_what_it_gets_as_the_document_says() {
    isolated(|| {
        let host = Host::with("");
        let inside = &host.link.client;
        inside.enter(|| {
            ip("link set client0 down");
            ip("link set client0 name eth0");
            ip("link set eth0 up");
        });
        fs::write(format!("{SOURCES}/container.yaml"), "network: {rules: [{name: every, rate: 1k/s}]}\n")
            .unwrap();
        let container = inside.enter(|| Command::new("sleep").arg("600").spawn().unwrap());
        let process = container.id().to_string();
        let _container = Ending(Some(container));
        let line = blocks::find("docs/interfaces.md", "nsenter").replace("PID", &process);
        let _daemon = start(line.trim());
        assert!(inside.enter(|| ip("link show eth0")).contains("xdp"));
        assert!(!ip("link show eth0").contains("xdp"));
    });
}

#[test]
fn offloads_are_switched_off_as_the_document_says() {
    isolated(|| {
        let rule = "{name: every, match: {vlan: 7}, rate: 1k/s}";
        let interface = "[{name: eth0, mode: generic}]";
        let (_host, _daemon) =
            Host::running(&format!("network:\n  interfaces: {interface}\n  rules: [{rule}]\n"));
        run("ethtool -K eth0 gro on");
        let warns = |of: &str| run("ratelimit status").contains(of);
        for (part, of) in [("gro off lro off", "eth0 gro off"), ("rxvlan off", "eth0 rxvlan off")] {
            assert!(warns(of), "{}", run("ratelimit status"));
            run(blocks::find("docs/interfaces.md", part).trim());
            assert!(!warns(of), "{}", run("ratelimit status"));
        }
    });
}

#[test]
fn the_rules_of_other_firewalls_that_are_compared_are_rules_of_theirs() {
    isolated(|| {
        let _host = Host::new();
        run(&blocks::find("docs/coming-from.md", "iptables -A INPUT"));
        let rules = run("iptables -S INPUT");
        assert_eq!(rules.matches("-m hashlimit").count(), 3, "{rules}");
        fs::write(format!("{SOURCES}/table.nft"), blocks::find("docs/coming-from.md", "table inet filter"))
            .unwrap();
        run("nft -f table.nft");
        assert!(run("nft list table inet filter").contains("limit rate over 4/minute burst 4 packets"));
    });
}
