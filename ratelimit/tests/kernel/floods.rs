//! Floods of forged sources: whoever keeps to the limit loses nothing, offenders stay in bounds, the table does not
//! grow.
//!
//! The flood has a wire of its own, so that nobody's packets are lost before the program sees them.

use std::{
    collections::HashSet,
    env,
    net::UdpSocket,
    sync::atomic::AtomicBool,
    thread,
    time::{Duration, Instant},
};

use crate::{
    daemon::{Daemon, command, config, rule, status},
    flood,
    limits::{all_arrivals, count},
    net::{Link, SERVER, SERVER_V4, arrivals, isolated, receiver},
    packets::{PORTS, UDP, v4},
    stops::StopsAtEnd,
    wait,
    wiretap::Wiretap,
};

const GOOD: &str = "10.1.0.2";
const OFFENDER: &str = "10.1.0.66";

/// The flood's wire.
const FLOODED: &str = "server1";
const FLOODER: &str = "client1";

/// A good client sends one packet in this time, an offender so many.
const TICK: Duration = Duration::from_millis(5);
const OFFENCES: u64 = 40;

/// How long a flood takes. With this variable set it takes that many seconds; 30 show more of the same.
const SECONDS: u64 = 5;
const VARIABLE: &str = "RATELIMIT_FLOOD_SECONDS";

const RATE: f64 = 1000.0;
const BURST: f64 = 1000.0;

/// What all know, and the clients' sockets.
struct Scene {
    link: Link,
    good: UdpSocket,
    offender: UdpSocket,
    server: UdpSocket,
    _daemon: Daemon,
}

impl Scene {
    fn new(rule: &str) -> Self {
        let link = Link::new(&[GOOD, OFFENDER]);
        link.add_wire((FLOODED, "02:00:00:00:00:03"), (FLOODER, "02:00:00:00:00:04"));
        let mut command = command(&["run", "--interface", SERVER, "--interface", FLOODED, "--config"]);
        let mut daemon = Daemon::spawn(command.arg(config(&["table_size: 32768"], &[rule])));
        daemon.wait_for("limiting");
        let (good, offender) = (link.sender(GOOD), link.sender(OFFENDER));
        Self { link, good, offender, server: receiver(SERVER_V4), _daemon: daemon }
    }

    /// Floods, while both clients send. Returns how many the good one sent.
    fn flood(&self) -> u64 {
        let link = &self.link;
        let seconds = env::var(VARIABLE).map_or(SECONDS, |seconds| seconds.parse().unwrap());
        let (stop, mut frame) = (AtomicBool::new(false), v4(UDP, &PORTS));
        // For another host, which costs this one no answer.
        frame[5] = 9;
        thread::scope(|scope| {
            let at_end = StopsAtEnd(&stop);
            let flooder = scope.spawn(|| flood::send(link, FLOODER, &frame, &stop));
            let (begun, mut sent) = (Instant::now(), 0);
            while begun.elapsed() < Duration::from_secs(seconds) {
                self.good.send(b"good").unwrap();
                sent += 1;
                (0..OFFENCES).for_each(|_| assert_eq!(self.offender.send(b"offence").unwrap(), 7));
                // Paced by the last packet, not by the clock: a good client does not catch up.
                thread::sleep(TICK); // tidy: sleep, pacing
            }
            drop(at_end);
            println!("{} forged and {sent} good packets in {:?}", flooder.join().unwrap(), begun.elapsed());
            sent
        })
    }

    /// Checks that all good packets have arrived, and of the offender's no more than the limit lets through since
    /// `begun`.
    fn check(&self, good: u64, begun: Instant) {
        let offences = good * OFFENCES;
        let (passed_all, dropped_all) = rule(&status(), "every");
        assert!(passed_all + dropped_all > 100_000, "that was no flood");
        let mut arrived = Vec::new();
        wait::until("all good packets have arrived", || {
            arrived.extend(arrivals(&self.server));
            (count(&arrived, &[GOOD]) as u64 >= good).then_some(())
        });
        let bound = BURST + RATE * begun.elapsed().as_secs_f64() + 2.0;
        let offender = count(&arrived, &[OFFENDER]) as f64;
        println!("{offender} of the offender's {offences} packets, at most {bound}");
        assert_eq!(count(&arrived, &[GOOD]) as u64, good);
        assert!((BURST..=bound).contains(&offender));
    }
}

#[test]
fn a_flood_of_forged_sources_costs_a_good_client_nothing_and_lets_an_offender_get_no_more() {
    isolated(|| {
        let scene = Scene::new("{name: every, rate: 1000/s, burst: 1000}");
        let before = status().table;
        let begun = Instant::now();
        let good = scene.flood();
        scene.check(good, begun);
        let after = status().table;
        assert_eq!((after.buckets, after.bytes), (before.buckets, before.bytes));
        assert_eq!((after.live_evictions, after.exhausted_tries), (0, 0));
    });
}

#[test]
fn no_more_new_sources_than_the_cap_reach_the_host_and_known_ones_lose_nothing() {
    isolated(|| {
        let scene = Scene::new("{name: every, rate: 1000/s, burst: 1000, new_sources: 500/s}");
        let wiretap = Wiretap::new(FLOODED);
        let begun = Instant::now();
        for known in [&scene.good, &scene.offender] {
            known.send(b"known").unwrap();
        }
        all_arrivals(&scene.server, 2);
        let good = scene.flood();
        let bound = 500.0 + 500.0 * begun.elapsed().as_secs_f64() + 1.0;
        scene.check(good, begun);
        // Those that got a bucket are known, and may come again.
        let received: HashSet<_> = wiretap.sources().into_iter().collect();
        println!("{} new sources, at most {bound}", received.len());
        assert!((500.0..=bound).contains(&(received.len() as f64)));
    });
}
