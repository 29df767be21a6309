//! `docs/flood.md`: each command of it, in its order, while a flood is on.

use std::{
    fs,
    path::Path,
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use crate::{
    daemon::{Daemon, command, output, reason, run, status, text},
    frames::{self, Raw},
    net::{Link, SERVER, isolated},
    stops::StopsAtEnd,
    wait,
};

const FLOODER: &str = "203.0.113.7";
const CONFIG: &str = "/etc/ratelimit.yaml";

/// A block of the document: a configuration, or commands.
enum Block {
    Yaml(String),
    Commands(Vec<String>),
}

fn document() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/flood.md")).unwrap()
}

fn blocks() -> Vec<Block> {
    let document = document();
    let mut blocks = Vec::new();
    for paragraph in document.split("\n\n") {
        if let Some(yaml) = paragraph.strip_prefix("```yaml\n") {
            let yaml = yaml.strip_suffix("```").unwrap().replace("eth0", SERVER);
            blocks.push(Block::Yaml(yaml));
        } else if paragraph.starts_with("    sudo ") {
            let line = |line: &str| line.trim().split("  #").next().unwrap().trim_end().to_owned();
            blocks.push(Block::Commands(paragraph.lines().map(line).collect()));
        }
    }
    blocks
}

/// What a command of the document says; those of systemd start the daemon.
fn follow(line: &str, daemon: &mut Option<Daemon>) -> String {
    let line = line.replace(CONFIG, "/run/ratelimit.yaml");
    if line == "sudo systemctl restart ratelimit" {
        *daemon = Some(Daemon::start(&"/run/ratelimit.yaml".into()));
        return String::new();
    }
    let (line, reason) = line.split_once(" '").map_or((&*line, None), |(line, reason)| (line, Some(reason)));
    let words: Vec<&str> = line.split(' ').chain(reason.and_then(|text| text.strip_suffix('\''))).collect();
    assert_eq!(words[..2], ["sudo", "ratelimit"], "{line}");
    let done = output(&mut command(&words[2..]));
    assert!(done.status.success(), "{line}: {:?}", text(&done));
    text(&done).0
}

#[test]
fn a_flood_is_found_and_stopped_and_undone_and_banned_by_a_rule() {
    isolated(|| {
        let link = Link::silent();
        let raw = Raw::new(&link);
        let stop = AtomicBool::new(false);
        let (flood, other) =
            (frames::udp(FLOODER.parse().unwrap()), frames::udp("203.0.113.9".parse().unwrap()));
        thread::scope(|scope| {
            let _at_end = StopsAtEnd(&stop);
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    (0..50).for_each(|_| raw.send(&flood));
                    raw.send(&other);
                }
            });
            assert_interface_is_shown();
            follow_all();
        });
    });
}

/// By the command in the document's text, on a host without a default route, too.
fn assert_interface_is_shown() {
    let document = document();
    let command = document.split('`').find(|part| part.starts_with("ip ")).unwrap();
    let shown = Command::new("sh").args(["-c", command]).output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.lines().any(|line| line.starts_with(SERVER)), "{command}: {shown}");
}

fn follow_all() {
    let mut daemon = None;
    let (mut seen, mut configurations) = (Vec::new(), 0);
    for block in blocks() {
        match block {
            Block::Yaml(yaml) => {
                fs::write("/run/ratelimit.yaml", yaml).unwrap();
                configurations += 1;
                if let (Some(daemon), 2) = (&mut daemon, configurations) {
                    let daemon: &mut Daemon = daemon;
                    daemon.wait_for("banned by rule every-source");
                }
            }
            Block::Commands(lines) => lines.iter().for_each(|line| {
                let said = follow(line, &mut daemon);
                check(line, &said);
                seen.push(line.clone());
            }),
        }
    }
    assert_eq!((configurations, seen.len()), (2, 12), "{seen:?}");
    run(&["detach"]);
}

/// What the document says that a command shows.
fn check(line: &str, said: &str) {
    let has = |expected: &str| assert!(said.contains(expected), "{line}: {said}");
    let words: Vec<&str> = line.split(' ').skip(2).collect();
    match words[..] {
        ["top", ..] => {
            let mut sources = said.lines().skip_while(|line| !line.starts_with("SOURCE")).skip(1);
            let mark = if line.contains("drops") { " (banned) " } else { "  " };
            let is_first = |source: &str| source.starts_with(&format!("{FLOODER}{mark}"));
            assert!(sources.next().is_some_and(is_first), "{line}: {said}");
        }
        ["ban", ..] => {
            assert_eq!(reason(&status(), "limited").packets, 0, "dropped before the ban");
            has("banned 203.0.113.7/32 for 1h");
        }
        ["status"] => {
            let banned = || reason(&status(), "banned").packets;
            let before = banned();
            wait::until("what is banned grows", || (banned() > before).then_some(()));
        }
        ["bans"] if said.contains("command") => has("flood, ticket 4711"),
        ["bans"] => has("rule every-source"),
        ["bucket", ..] => has("203.0.113.7 is banned"),
        ["unban", ..] => has("unbanned 203.0.113.7/32"),
        ["reload", ..] => has("on trial: everything passes in"),
        ["confirm"] => assert!(!said.contains("nothing is on trial"), "{said}"),
        _ => assert!(line.contains("validate") || line.contains("systemctl"), "{line}: not checked"),
    }
}
