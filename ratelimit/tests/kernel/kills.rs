//! Daemons that are killed at any time: the next one starts, nothing leaks, no traffic is cut.

use std::{
    fs,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use nix::sys::signal::Signal;
use ratelimit::{control, policy::InstanceName};
use serde_json::json;

use crate::{
    daemon::{Daemon, command, config, reason, run, status},
    guest,
    leftovers::{assert_gone, in_kernel},
    limits::all_arrivals,
    net::{Link, SERVER_V4, isolated, receiver},
    stops::StopsAtEnd,
};

/// How often a daemon is killed: RATELIMIT_KILLS, else as often as there is time for.
fn kills() -> u64 {
    let asked = std::env::var("RATELIMIT_KILLS").ok().and_then(|text| text.parse().ok());
    asked.unwrap_or_else(|| guest::repetitions(12, 40).into())
}

const CLIENT: &str = "10.1.0.2";

/// A daemon does this until it dies.
fn work(what: u64) {
    let socket = Path::new("/run/ratelimit/default.sock");
    let ask = |what: &str, asked| {
        // It is dead, or about to be.
        let _ = control::ask(socket, &InstanceName::default(), what, &asked, Duration::from_secs(2));
    };
    match what {
        0 => {}
        1 => {
            config(
                &[],
                &[["{name: one, rate: 1M/s}", "{name: two, rate: 1M/s}"]
                    [fs::read("/run/turn").map_or(0, |turn| turn.len() % 2)]],
            );
            ask("reload", json!({}));
        }
        2 => (0..100)
            .for_each(|index| ask("bans", json!({"prefix": format!("192.0.2.{index}"), "for_seconds": 600}))),
        _ => ask("detach", json!({})),
    }
}

#[test]
fn a_daemon_can_be_killed_at_any_time() {
    isolated(|| {
        let link = Link::new(&[CLIENT]);
        let path = config(&[], &["{name: one, rate: 1M/s}"]);
        let server = receiver(SERVER_V4);
        let sender = link.sender(CLIENT);
        let stop = AtomicBool::new(false);
        let mut random = 0x243f_6a88_85a3_08d3_u64;
        thread::scope(|scope| {
            let at_end = StopsAtEnd(&stop);
            let sent = scope.spawn(|| {
                let (mut sent, mut arrived) = (0_u64, 0);
                while !stop.load(Ordering::Relaxed) {
                    sender.send(b"datagram").unwrap();
                    sent += 1;
                    // Each one arrives, whatever happens to the daemon.
                    arrived += all_arrivals(&server, 1).len() as u64;
                }
                (sent, arrived)
            });
            for kill in 0..kills() {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let (what, wait) = (kill % 4, Duration::from_micros((random >> 33) % 400_000));
                let daemon = Daemon::spawn(command(&["run", "--config"]).arg(&path));
                thread::scope(|scope| {
                    if what == 0 {
                        // While it attaches.
                        thread::sleep(wait); // tidy: sleep, a kill at a random time is what is tested
                    } else {
                        let mut daemon = daemon;
                        daemon.wait_for("limiting");
                        scope.spawn(|| work(what));
                        thread::sleep(wait / 2); // tidy: sleep, as above
                        daemon.signal(Signal::SIGKILL);
                        let _ = daemon.end();
                        return;
                    }
                    daemon.signal(Signal::SIGKILL);
                    let _ = daemon.end();
                });
            }
            drop(at_end);
            let (sent, arrived) = sent.join().unwrap();
            println!("{sent} datagrams, {arrived} arrived");
            assert_eq!(sent, arrived);
        });
        let last = Daemon::start(&config(&[], &["{name: one, rate: 1M/s}"]));
        let status = status();
        assert_eq!(reason(&status, "limited").packets, 0);
        let kernel = in_kernel();
        run(&["detach"]);
        assert_eq!(last.end().code(), Some(0));
        assert_gone(&kernel);
    });
}
