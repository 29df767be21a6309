//! `metrics.listen`: the same counters as everywhere, also under load, and nothing that is sent there does harm.

use std::{
    collections::HashMap,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::atomic::AtomicBool,
    thread,
    time::Duration,
};

use crate::{
    daemon::{Daemon, command, config_at, judged, output, reason, rule, run, status, text},
    flood,
    frames::Raw,
    leftovers::assert_no_files,
    limits,
    net::{Link, client_interface, isolated},
    packets::{self, PORTS},
    stops::StopsAtEnd,
    wait,
};

const ADDRESS: &str = "127.0.0.1:9102";
const METRICS: &str = "metrics: {listen: 127.0.0.1:9102}";

fn start(rules: &[&str]) -> Daemon {
    Daemon::start(&config_at("/run/ratelimit.yaml", METRICS, &["table_size: 32768"], rules))
}

/// Sends these bytes, and returns all that comes back before the other side closes or falls silent.
fn exchange(request: &[u8]) -> String {
    let mut stream = TcpStream::connect(ADDRESS).expect("the metrics' port");
    stream.set_read_timeout(Some(wait::LONGEST)).unwrap();
    // It may be closed before all is sent, which is an answer, too.
    let _ = stream.write_all(request);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

/// What the metrics' address of these tests answers, head and body.
pub fn get(path: &str) -> String {
    exchange(format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").as_bytes())
}

/// The values of all series.
fn scrape() -> HashMap<String, u64> {
    let answer = get("/metrics");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    assert!(head.starts_with("HTTP/1.1 200") && head.contains("text/plain; version=0.0.4"), "{head}");
    let lines = body.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| line.rsplit_once(' '))
        .map(|(name, value)| (name.to_owned(), value.parse().unwrap()))
        .collect()
}

#[test]
fn metrics_are_the_counters_that_status_shows() {
    isolated(|| {
        let link = Link::new(&["10.1.0.2"]);
        let _daemon = start(&[
            "{name: 'say \"no\"', rate: 1/h, burst: 50}",
            "{name: watch, rate: 1/h, burst: 20, action: observe}",
        ]);
        limits::send(&link.sender("10.1.0.2"), 200);
        let status = judged(200);
        let metrics = scrape();
        for counted in &status.reasons {
            let labels = format!("{{reason=\"{}\",verdict=\"{}\"}}", counted.reason, counted.verdict);
            assert_eq!(
                metrics[&format!("ratelimit_packets_total{labels}")],
                counted.count.packets,
                "{labels}"
            );
            assert_eq!(metrics[&format!("ratelimit_bytes_total{labels}")], counted.count.bytes, "{labels}");
        }
        assert_eq!((rule(&status, "say \"no\""), rule(&status, "watch")), ((50, 150), (20, 30)));
        for (labels, packets) in [
            (r#"rule="say \"no\"",verdict="pass""#, 50),
            (r#"rule="say \"no\"",verdict="drop""#, 150),
            (r#"rule="watch",verdict="observe""#, 30),
            (r#"rule="watch",verdict="drop""#, 0),
        ] {
            assert_eq!(metrics[&format!("ratelimit_rule_packets_total{{{labels}}}")], packets, "{labels}");
        }
        for (name, value) in [
            ("ratelimit_network_up", 1),
            ("ratelimit_rules", 2),
            ("ratelimit_table_buckets", 32_768),
            ("ratelimit_events_total", status.events.written),
            ("ratelimit_reloads_total{result=\"failed\"}", 0),
            ("ratelimit_build_info{version=\"0.1.0\"}", 1),
        ] {
            assert_eq!(metrics[name], value, "{name}");
        }
        assert!(get("/healthz").ends_with("\r\n\r\nok\n"));
        run(&["detach"]);
    });
}

#[test]
fn reading_counters_and_sources_under_load_fails_no_packet() {
    isolated(|| {
        let link = Link::silent();
        let _daemon = start(&["{name: every, rate: 100M/s}"]);
        let (stop, frame) = (AtomicBool::new(false), packets::v4(packets::UDP, &PORTS));
        let all = "ratelimit_packets_total{reason=\"passed\",verdict=\"pass\"}";
        thread::scope(|scope| {
            let at_end = StopsAtEnd(&stop);
            let flood = scope.spawn(|| flood::send(&link, client_interface(), &frame, &stop));
            let mut last = 0;
            for round in 0..20 {
                let packets = scrape()[all];
                assert!(packets >= last, "{packets} after {last}");
                last = packets;
                // It takes a second or two.
                if round % 5 == 0 {
                    run(&["top", "--once"]);
                }
                run(&["rules"]);
            }
            drop(at_end);
            let sent = flood.join().unwrap();
            assert!(last > 0);
            // What a full ring has lost never got here; everything that did has passed.
            let judged = wait::until("the last has been judged", || {
                let (before, after) = (scrape()[all], scrape()[all]);
                (before == after).then_some(after)
            });
            assert!(judged <= sent);
            let status = status();
            assert_eq!(reason(&status, "passed").packets, judged);
            assert_eq!(rule(&status, "every"), (judged, 0));
            let others: u64 = status.reasons.iter().map(|reason| reason.count.packets).sum();
            assert_eq!(others, judged);
        });
    });
}

#[test]
fn nothing_that_is_sent_to_the_port_does_harm() {
    isolated(|| {
        let link = Link::silent();
        let _daemon = start(&["{name: every, rate: 1/h, burst: 5}"]);
        let head =
            |path: &str, more: &str| format!("GET {path} HTTP/1.1\r\nhost: x\r\n{more}\r\n\r\n").into_bytes();
        for (request, expected) in [
            (b"\0\xff\x16\x03nonsense\r\n\r\n".to_vec(), "400"),
            (head("/metrics", &format!("long: {}", "x".repeat(1 << 20))), "431"),
            (head(&format!("/{}", "x".repeat(1 << 20)), "a: b"), "4"),
            (head("/metrics", &(0..10_000).map(|i| format!("h{i}: x\r\n")).collect::<String>()), "431"),
            (head("/nothing", "connection: close"), "404"),
            (b"DELETE /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".to_vec(), "405"),
            (
                [
                    &b"POST /healthz HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999\r\n\r\n"[..],
                    &[0; 1 << 20],
                ]
                .concat(),
                "405",
            ),
        ] {
            let answer = exchange(&request);
            // A reset may overtake the answer to one who sends on and on.
            assert!(
                answer.is_empty() || answer.starts_with(&format!("HTTP/1.1 {expected}")),
                "{expected}: {answer:.100}"
            );
        }
        // More than may be there at once say nothing, or half of something.
        let silent: Vec<TcpStream> = (0..200)
            .map(|index| {
                let mut stream = TcpStream::connect(ADDRESS).unwrap();
                let _ = stream.write_all(if index % 2 == 0 { b"" } else { b"GET /metrics HTTP/1.1\r\nho" });
                stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
                stream
            })
            .collect();
        let raw = Raw::new(&link);
        let frame = packets::v4(packets::UDP, &PORTS);
        (0..20).for_each(|_| raw.send(&frame));
        assert_eq!(rule(&judged(20), "every"), (5, 15));
        wait::until("who asks properly is answered", || get("/healthz").ends_with("ok\n").then_some(()));
        drop(silent);
    });
}

#[test]
fn a_port_that_somebody_has_is_said_before_anything_is_attached() {
    isolated(|| {
        let _link = Link::silent();
        let _taken = TcpListener::bind(ADDRESS).unwrap();
        let config = config_at("/run/ratelimit.yaml", METRICS, &[], &["{name: every, rate: 1/h}"]);
        let output = output(command(&["run", "--config"]).arg(config));
        let (_, stderr) = text(&output);
        assert!(
            stderr.contains("metrics.listen: 127.0.0.1:9102: can't listen there (Address already in use"),
            "{stderr}"
        );
        assert_eq!((output.status.code(), stderr.lines().count()), (Some(1), 1), "{stderr}");
        assert_no_files();
    });
}
