//! `ratelimit top`: the heaviest sources among very many, exact numbers of few, and no daemon needed.

use std::{
    fs,
    io::{Read as _, Write as _},
    process::{Child, Command, Stdio},
    sync::{
        atomic::AtomicBool,
        mpsc::{Receiver, channel},
    },
    thread,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use ratelimit::dataplane::current_window;
use serde_json::Value;

use crate::{
    daemon::{Daemon, command, config, output, run, status, text},
    flood,
    frames::{self, Raw},
    net::{Link, client_interface, isolated},
    packets::{self, PORTS},
    stops::StopsAtEnd,
    wait,
};

fn top(arguments: &[&str]) -> Vec<Value> {
    let text = run(&[&["top", "--output", "json"], arguments].concat());
    text.lines().map(|line| serde_json::from_str(line).expect("a table")).collect()
}

fn sources(table: &Value) -> Vec<String> {
    let sources = table["sources"].as_array().unwrap();
    sources.iter().map(|source| source["source"].as_str().unwrap().to_owned()).collect()
}

/// Sums over so many seconds of one column of a source.
fn sums(table: &Value, source: &str, column: &str) -> [f64; 3] {
    let seconds = table["seconds"].as_f64().unwrap();
    let mut all = table["sources"].as_array().unwrap().iter();
    let source =
        all.find(|found| found["source"] == source).unwrap_or_else(|| panic!("no {source} in {table}"));
    ["low", "about", "high"].map(|bound| source[column][bound].as_f64().unwrap() * seconds)
}

#[test]
fn ten_sources_of_a_hundredth_each_among_a_million_are_the_ten_heaviest() {
    isolated(|| {
        let link = Link::silent();
        let daemon = Daemon::start(&config(&["table_size: 32768"], &["{name: every, rate: 1/h, burst: 3}"]));
        let (stop, frame) = (AtomicBool::new(false), packets::v4(packets::UDP, &PORTS));
        let mut expected: Vec<String> = (0..10).map(|last| format!("10.9.0.{last}")).collect();
        expected.sort();
        thread::scope(|scope| {
            let stops = StopsAtEnd(&stop);
            scope.spawn(|| flood::send_ten_heavy(&link, client_interface(), &frame, &stop));
            wait::until("the flood is there", || (status().reasons[0].count.packets > 10_000).then_some(()));
            // It needs none.
            daemon.kill();
            for by in ["packets", "bytes", "drops"] {
                for table in &top(&["-n", "2", "--by", by]) {
                    let mut found = sources(table);
                    found.sort();
                    assert_eq!(found, expected, "by {by}: {table}");
                    for source in &expected {
                        let [low, about, high] = sums(table, source, "packets");
                        let truth = table["packets"].as_f64().unwrap() * 45.0 / 4_096.0;
                        println!("{by} {source}: {low:.0} {about:.0} {high:.0}, {truth:.0} expected");
                        // Five standard deviations, of which the bounds have two.
                        let margin = 2.5;
                        assert!(
                            about - margin * (about - low) < truth && truth < about + margin * (high - about)
                        );
                    }
                }
            }
            drop(stops);
        });
    });
}

#[test]
fn the_screen_shows_sources_and_bans_the_one_that_is_chosen() {
    isolated(|| {
        let link = Link::silent();
        let _daemon = Daemon::start(&config(&[], &["{name: every, rate: 1/h}"]));
        let raw = Raw::new(&link);
        let frame = packets::v4(packets::UDP, &PORTS);
        let mut screen = Screen::start("--by drops");
        wait::until("the source is on the screen", || {
            raw.send(&frame);
            screen.shows("10.1.0.2").then_some(())
        });
        assert!(!run(&["bans"]).contains("10.1.0.2"));
        // Down, ban, yes. What is drawn after that are only the cells that differ.
        screen.press(b"jxy");
        wait::until("the source is banned", || run(&["bans"]).contains("10.1.0.2/32").then_some(()));
        screen.press(b"q");
        assert!(wait::until("it has ended", || screen.terminal.try_wait().unwrap()).success());
    });
}

#[test]
fn the_screen_follows_an_instance_that_begins_anew_and_leaves_the_terminal_as_it_was() {
    isolated(|| {
        let link = Link::silent();
        let config = config(&[], &["{name: every, rate: 1/h}"]);
        let daemon = Daemon::start(&config);
        let mut screen = Screen::start("");
        wait::until("the screen is there", || screen.shows("quit").then_some(()));
        run(&["detach"]);
        daemon.end();
        wait::until("it says that it waits", || screen.shows("waiting").then_some(()));
        let _daemon = Daemon::start(&config);
        let raw = Raw::new(&link);
        let frame = packets::v4(packets::UDP, &PORTS);
        wait::until("it shows what the new one sees", || {
            raw.send(&frame);
            screen.shows("10.1.0.2").then_some(())
        });
        for (signal, number) in [(Signal::SIGTERM, 15), (Signal::SIGHUP, 1)] {
            let mut screen = Screen::start("");
            wait::until("the screen is there", || screen.shows("quit").then_some(()));
            let process = fs::read_to_string(PROCESS).unwrap().trim().parse().unwrap();
            kill(Pid::from_raw(process), signal).unwrap();
            let status = wait::until("it has ended", || screen.terminal.try_wait().unwrap());
            assert_eq!(status.code(), Some(128 + number), "as ever");
            wait::until("the terminal is as before", || {
                // The screen's own page is left, and the cursor is there.
                (screen.shows("\u{1b}[?1049l") && screen.shows("\u{1b}[?25h")).then_some(())
            });
        }
    });
}

/// Where the process of a screen is noted.
const PROCESS: &str = "/run/top.process";

/// `top` in a terminal of its own; ends with the test.
struct Screen {
    terminal: Child,
    shown: Receiver<String>,
    text: String,
}

impl Screen {
    fn start(arguments: &str) -> Self {
        let binary = env!("CARGO_BIN_EXE_ratelimit");
        let inside = format!("echo $$ >{PROCESS}; stty cols 120 rows 20; exec {binary} top {arguments}");
        let mut terminal = Command::new("script");
        terminal
            .args(["--quiet", "--return", "--flush", "--command", &inside, "/dev/null"])
            .env("TERM", "xterm");
        let mut terminal = terminal.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("script");
        let mut out = terminal.stdout.take().unwrap();
        let (sender, shown) = channel();
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(length @ 1..) = out.read(&mut bytes) {
                let text = String::from_utf8_lossy(&bytes[..length]).into_owned();
                if sender.send(text).is_err() {
                    break;
                }
            }
        });
        Self { terminal, shown, text: String::new() }
    }

    /// Whether this has ever been drawn, in one piece.
    fn shows(&mut self, text: &str) -> bool {
        self.text.extend(self.shown.try_iter());
        self.text.contains(text)
    }

    fn press(&mut self, key: &[u8]) {
        let keys = self.terminal.stdin.as_mut().unwrap();
        keys.write_all(key).and_then(|()| keys.flush()).unwrap();
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.terminal.kill();
        let _ = self.terminal.wait();
    }
}

#[test]
fn few_packets_are_counted_exactly_by_source_and_by_network() {
    isolated(|| {
        let link = Link::silent();
        let _daemon = Daemon::start(&config(&[], &["{name: every, rate: 1/h, burst: 40}"]));
        // These begin before the packets come and end after that: each within the second after this one.
        let start = |more: &str| {
            let mut command =
                command(&["top", "--output", "json", "-n", "1", "--interval", "5", "--by", "bytes"]);
            command.args(more.split_whitespace()).stdout(Stdio::piped()).spawn().unwrap()
        };
        let before = second();
        let (by_address, by_network) = (start(""), start("--networks"));
        wait_for_second(before + 2);
        let raw = Raw::new(&link);
        let sent: [(&str, u32); 4] = [("10.1.0.2", 50), ("10.1.0.3", 20), ("fd00::1", 7), ("fd00::2", 5)];
        for (source, count) in sent {
            let frame = frames::udp(source.parse().unwrap());
            (0..count).for_each(|_| raw.send(&frame));
        }
        let table_by_address = table(by_address);
        assert_eq!(sources(&table_by_address), ["10.1.0.2", "10.1.0.3", "fd00::1", "fd00::2"]);
        for (source, count) in sent {
            let (count, length) = (f64::from(count), if source.contains(':') { 70.0 } else { 50.0 });
            assert_eq!(sums(&table_by_address, source, "packets"), [count; 3], "{source}");
            assert_eq!(sums(&table_by_address, source, "bytes"), [count * length; 3], "{source}");
            assert_eq!(sums(&table_by_address, source, "drops"), [(count - 40.0).max(0.0); 3], "{source}");
        }
        let table_by_network = table(by_network);
        assert_eq!(sources(&table_by_network), ["10.1.0.2", "10.1.0.3", "fd00::/64"]);
        assert_eq!(sums(&table_by_network, "fd00::/64", "packets"), [12.0; 3]);
        assert_eq!(table_by_network["packets"].as_f64().unwrap() * 5.0, 82.0);
    });
}

/// The number of the second that is being measured.
fn second() -> u64 {
    current_window().unwrap().0
}

fn wait_for_second(number: u64) {
    wait::until("the second comes", || (second() >= number).then_some(()));
}

fn table(child: Child) -> Value {
    serde_json::from_slice(&child.wait_with_output().unwrap().stdout).unwrap()
}

#[test]
fn a_table_is_of_whole_seconds_even_right_after_the_start() {
    isolated(|| {
        let link = Link::silent();
        let _daemon = Daemon::start(&config(&[], &["{name: every, rate: 1/h}"]));
        let raw = Raw::new(&link);
        let [earlier, later] = ["10.1.0.2", "10.1.0.3"].map(|source| frames::udp(source.parse().unwrap()));
        // These come before it begins, so that its table may have no part of their second.
        (0..100).for_each(|_| raw.send(&earlier));
        let mut child =
            command(&["top", "--output", "json", "--once"]).stdout(Stdio::piped()).spawn().unwrap();
        wait::until("it has ended", || {
            raw.send(&later);
            child.try_wait().unwrap()
        });
        let table = table(child);
        assert_eq!((sources(&table), &table["seconds"]), (vec!["10.1.0.3".to_owned()], &1.into()), "{table}");
    });
}

#[test]
fn a_table_for_people_and_what_can_not_be_shown() {
    isolated(|| {
        let link = Link::silent();
        assert_refused(&mut command(&["top", "--once"]), "instance `default` is not attached");
        let settings = ["allow: [10.1.0.3]", "deny: [10.1.0.4]"];
        let _daemon = Daemon::start(&config(&settings, &["{name: every, rate: 1/h}"]));
        run(&["ban", "10.1.0.2"]);
        let raw = Raw::new(&link);
        let frame = |source: &str| frames::udp(source.parse().unwrap());
        let frames = ["10.1.0.2", "10.1.0.3", "10.1.0.4", "10.1.0.5"].map(frame);
        // Without a terminal it is one table.
        let mut child = command(&["top"]).stdout(Stdio::piped()).spawn().unwrap();
        wait::until("its second is over", || {
            frames.iter().for_each(|frame| raw.send(frame));
            child.try_wait().unwrap()
        });
        let text = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("all sources, 1 second: about "), "{text}");
        let columns: Vec<&str> =
            lines[2].split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
        assert_eq!(columns, ["SOURCE", "PACKETS/S", "BYTES/S", "DROPS/S", "SHARE", "95 % SURE"]);
        for source in ["10.1.0.2 (banned) ", "10.1.0.3 (allowed) ", "10.1.0.4 (denied) ", "10.1.0.5  "] {
            assert!(lines[3..].iter().any(|line| line.starts_with(source)), "{source}: {text}");
        }
        assert!(lines[3..].iter().all(|line| line.ends_with(" %  exact")), "{text}");
        assert_eq!(output(&mut command(&["top", "--once", "-n", "2"])).status.code(), Some(2));
    });
}

fn assert_refused(command: &mut Command, expected: &str) {
    let output = output(command);
    let (_, stderr) = text(&output);
    assert!(stderr.contains(expected), "{stderr}");
    assert_eq!(output.status.code(), Some(1));
}
