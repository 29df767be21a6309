//! `ratelimit events`: what was dropped, of whom, why, and no more of it than anybody can read.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Stdio},
    thread,
    time::{Duration, Instant},
};

use nix::sys::signal::{Signal, kill};
use ratelimit::events::Description;
use ratelimit_common::time::Nanos;

use crate::{
    daemon::{Daemon, command, config, judged, output, status, text},
    frames::{self, Raw},
    limits,
    net::{Link, SERVER, isolated},
    offline,
    packets::{self, PORTS, SYN, TCP, tcp},
    wait,
};

/// Repeats these frames until `ratelimit events` has shown so many, and returns them.
fn events(raw: &Raw, sent: &[&[u8]], arguments: &[&str]) -> Vec<Description> {
    let arguments = [&["events", "--output", "json"], arguments].concat();
    let child = command(&arguments).stdout(Stdio::piped()).spawn().expect("starting events");
    let mut listener = Listener(child);
    let status = wait::until("there are enough events", || {
        sent.iter().for_each(|frame| raw.send(frame));
        listener.0.try_wait().unwrap()
    });
    assert!(status.success(), "{status}");
    let lines = BufReader::new(listener.0.stdout.take().unwrap()).lines();
    lines.map(|line| serde_json::from_str(&line.unwrap()).expect("an event")).collect()
}

/// Ends with the test.
struct Listener(Child);

impl Drop for Listener {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn events_say_what_was_dropped_and_why() {
    isolated(|| {
        let link = Link::silent();
        let rules = [
            "{name: syn, match: {protocol: tcp, tcp_flags: [syn]}, rate: 1/h}",
            "{name: watch, match: {ip_version: 6}, rate: 1/h, action: observe}",
            "{name: every, rate: 1/h, match: {protocol: udp, length: 200-300}}",
        ];
        let _daemon = Daemon::start(&config(&["on_malformed: drop"], &rules));
        let raw = Raw::new(&link);
        let udp = packets::padded(packets::v4(packets::UDP, &PORTS), 200);
        let syn = packets::v4(TCP, &tcp(SYN));
        let icmp = packets::v6(&[], packets::ICMPV6, &packets::message(128));
        let broken = frames::ipv4("10.1.0.9".parse().unwrap(), 4, &[0; 30]);
        let hidden = packets::tagged(&packets::tagged(&packets::tagged(&udp, 0), 0), 0);
        let event = |frame: &[u8], verdict: &str, reason: &str, rule: Option<&str>| {
            let found = events(&raw, &[frame], &["-n", "3"]);
            let event = found.into_iter().next_back().unwrap();
            assert_eq!((event.verdict.as_str(), event.reason.as_str()), (verdict, reason), "{event:?}");
            assert_eq!((event.rule.as_deref(), event.length), (rule, frame.len() as u64), "{event:?}");
            assert_eq!(event.interface.as_deref(), Some(SERVER));
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
            assert!((now.as_secs_f64() - event.time).abs() < 60.0, "{event:?}");
            let ends = [event.source, event.destination].map(|end| end.map(|end| end.to_string()));
            (ends, event.protocol, [event.source_port, event.destination_port])
        };
        let v4 = |source: &str| [Some(source.to_owned()), Some("10.1.0.1".to_owned())];
        let ports = [Some(4_096), Some(8_192)];
        assert_eq!(event(&udp, "drop", "limited", Some("every")), (v4("10.1.0.2"), Some(17), ports));
        assert_eq!(event(&syn, "drop", "limited", Some("syn")), (v4("10.1.0.2"), Some(6), ports));
        let v6 = ["fd00:0:0:1::2".to_owned(), "fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fdfd".to_owned()].map(Some);
        assert_eq!(event(&icmp, "observe", "limited", Some("watch")), (v6, Some(58), [None; 2]));
        let (ends, ..) = event(&broken, "drop", "malformed_dropped", None);
        assert_eq!(ends[0].as_deref(), Some("10.1.0.9"));
        let nothing = ([None, None], None, [None; 2]);
        assert_eq!(event(&hidden, "drop", "malformed_dropped", None), nothing);
    });
}

/// For machines on which a flood would leave the listener no time.
#[test]
fn a_trickle_of_dropped_packets_gives_events() {
    isolated(|| {
        let link = Link::silent();
        let _daemon = Daemon::start(&config(&[], &["{name: every, rate: 1/h}"]));
        let raw = Raw::new(&link);
        let frame = packets::v4(packets::UDP, &PORTS);
        let child =
            command(&["events", "--output", "json", "-n", "1"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut listener = Listener(child);
        let status = wait::until("there is an event", || {
            raw.send(&frame);
            thread::sleep(Duration::from_millis(10)); // tidy: sleep, pacing
            listener.0.try_wait().unwrap()
        });
        assert!(status.success(), "{status}");
        let event: Description = serde_json::from_reader(listener.0.stdout.take().unwrap()).unwrap();
        assert_eq!((event.verdict.as_str(), event.reason.as_str()), ("drop", "limited"), "{event:?}");
        assert_eq!(event.rule.as_deref(), Some("every"));
        assert_eq!(event.source.map(|source| source.to_string()).as_deref(), Some("10.1.0.2"));
        assert_eq!((event.source_port, event.destination_port), (Some(4_096), Some(8_192)));
    });
}

#[test]
fn events_of_one_rule_and_of_none_that_there_is() {
    isolated(|| {
        let link = Link::silent();
        let rules = [
            "{name: small, match: {length: 34-100}, rate: 1/h}",
            "{name: large, match: {length: 101-1514}, rate: 1/h}",
        ];
        let _daemon = Daemon::start(&config(&[], &rules));
        let raw = Raw::new(&link);
        let small = packets::v4(packets::UDP, &PORTS);
        let large = packets::padded(small.clone(), 300);
        let found = events(&raw, &[&small, &large], &["-n", "20", "--rule", "large"]);
        assert_eq!(found.len(), 20);
        assert!(found.iter().all(|event| event.length == 300), "{found:?}");

        let refused = output(&mut command(&["events", "--rule", "larger"]));
        let (_, stderr) = text(&refused);
        assert!(stderr.contains("no rule `larger` is in force; there are: small, large"), "{stderr}");
        assert_eq!(refused.status.code(), Some(1));
    });
}

#[test]
fn who_has_seen_enough_ends_quietly_and_the_end_of_the_daemon_is_told() {
    isolated(|| {
        let link = Link::silent();
        let daemon = Daemon::start(&config(&[], &["{name: every, rate: 1/h}"]));
        let raw = Raw::new(&link);
        let frame = packets::v4(packets::UDP, &PORTS);
        let start = || {
            let mut command = command(&["events"]);
            Listener(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
        };
        // Its output has a line: it listens.
        let listening = |listener: &mut Listener| {
            let mut lines = BufReader::new(listener.0.stdout.take().unwrap()).lines();
            let (line, said) = std::sync::mpsc::channel();
            let reader = thread::spawn(move || {
                let first = lines.next();
                line.send(first.unwrap().unwrap()).unwrap();
                lines
            });
            let line = wait::until("there is an event", || {
                raw.send(&frame);
                said.try_recv().ok()
            });
            assert!(
                line.contains(" dropped server0 udp 10.1.0.2:4096 > 10.1.0.1:8192, 50 bytes: rule `every`"),
                "{line}"
            );
            reader.join().unwrap()
        };
        let end = |listener: &mut Listener| {
            let status = wait::until("it has ended", || {
                raw.send(&frame);
                listener.0.try_wait().unwrap()
            });
            let mut stderr = String::new();
            std::io::Read::read_to_string(&mut listener.0.stderr.take().unwrap(), &mut stderr).unwrap();
            (status.code(), stderr)
        };

        let mut interrupted = start();
        let lines = listening(&mut interrupted);
        kill(nix::unistd::Pid::from_raw(interrupted.0.id().cast_signed()), Signal::SIGINT).unwrap();
        assert_eq!(end(&mut interrupted), (Some(0), String::new()));
        drop(lines);

        let mut closed = start();
        drop(listening(&mut closed));
        assert_eq!(end(&mut closed), (Some(0), String::new()));

        let mut left = start();
        let _lines = listening(&mut left);
        daemon.kill();
        assert_eq!(end(&mut left), (Some(1), "ratelimit: the daemon has ended\n".to_owned()));
        let (_, stderr) = text(&output(&mut command(&["events"])));
        assert!(stderr.contains("no daemon serves instance `default`"), "{stderr}");
    });
}

#[test]
fn a_flood_of_drops_gives_no_more_events_than_may_be() {
    isolated(|| {
        const PACKETS: u64 = 50_000;
        let link = Link::new(&["10.1.0.2"]);
        let started = Instant::now();
        let _daemon = Daemon::start(&config(&[], &["{name: every, rate: 1/h}"]));
        limits::send(&link.sender("10.1.0.2"), PACKETS as u32);
        judged(PACKETS);
        let events = status().events;
        let processors = thread::available_parallelism().unwrap().get() as f64;
        let most = (101.0 + 100.0 * started.elapsed().as_secs_f64()) * processors;
        assert!(events.written >= 100 && (events.written as f64) <= most, "{events:?}, at most {most}");
        assert_eq!(events.lost, 0);
    });
}

#[test]
fn events_that_nobody_reads_are_counted_as_lost_and_hold_up_no_packet() {
    isolated(|| {
        let made =
            offline::Made { monotonic: Nanos(1_000_000_000_000), unix: Nanos::from_secs(1_700_000_000) };
        let mut generation = offline::load_rules(&["{name: every, rate: 1/d}"], made);
        let frame = packets::v4(packets::UDP, &PORTS);
        // More than the buffer has room for: each 10 ms after the one before.
        for turn in 0..4_000 {
            generation.dry_run(&frame, 0, Nanos(made.monotonic.0 + turn * 10_000_000)).unwrap();
        }
        let events = generation.event_counts().unwrap();
        assert!(events.written > 3_000 && events.lost > 500, "{events:?}");
        assert_eq!(events.written + events.lost, 3_999);
    });
}
