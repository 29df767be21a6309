//! Limits on real traffic: what arrives lies between the bounds of the limit, and nobody else loses anything.

use std::{
    net::{IpAddr, UdpSocket},
    time::{Duration, Instant},
};

use crate::{
    daemon::{Daemon, config, judged, reason, rule},
    net::{Link, SERVER_V4, SERVER_V6, arrivals, isolated, receiver},
    wait,
};

const RATE: f64 = 100.0;
const BURST: f64 = 50.0;
const RULE: &str = "{name: every, rate: 100/s, burst: 50}";

const TICKS: u32 = 500;
const TICK: Duration = Duration::from_millis(2);
pub const FLOOD: u64 = 10_000;
pub const TRICKLE: u64 = 20;

/// Times that frame when packets were judged.
pub struct Times {
    before_first: Instant,
    after_first: Instant,
    before_last: Instant,
}

impl Times {
    /// Checks how many of a flood arrived by now, all of it having been judged.
    pub fn check(&self, arrived: usize) {
        let shortest = (self.before_last - self.after_first).as_secs_f64();
        let longest = self.before_first.elapsed().as_secs_f64();
        let (least, most) = (BURST + RATE * shortest - 2.0, BURST + RATE * longest + 2.0);
        println!("{arrived} arrived in {shortest:.3} to {longest:.3} s: {least:.1} to {most:.1} expected");
        assert!((least..=most).contains(&(arrived as f64)), "{arrived} is not in {least}..={most}");
    }
}

/// Sends [`FLOOD`] datagrams, in turn from `flooders`, and [`TRICKLE`] from another client, over a second. `halfway` is
/// called in the middle.
pub fn flood(
    flooders: &[&UdpSocket],
    trickle: &UdpSocket,
    server: &UdpSocket,
    halfway: impl FnOnce(),
) -> Times {
    let mut halfway = Some(halfway);
    let mut turns = flooders.iter().cycle();
    let mut send = || assert_eq!(turns.next().unwrap().send(b"flood").unwrap(), 5);
    let before_first = Instant::now();
    send();
    wait::until("the first arrives", || server.peek_from(&mut [0; 8]).ok());
    let after_first = Instant::now();
    let mut before_last = after_first;
    for tick in 0..TICKS {
        // Paced by the clock: a flood of about a second is what is tested.
        std::thread::sleep((after_first + tick * TICK).saturating_duration_since(Instant::now())); // tidy: sleep, pacing
        if u64::from(tick) % (u64::from(TICKS) / TRICKLE) == 0 {
            trickle.send(b"trickle").unwrap();
        }
        if tick == TICKS / 2 {
            halfway.take().unwrap()();
        }
        before_last = Instant::now();
        let sent_before = if tick == 0 { 1 } else { 0 };
        (sent_before..FLOOD / u64::from(TICKS)).for_each(|_| send());
    }
    Times { before_first, after_first, before_last }
}

/// What arrived from a source.
pub fn count(arrived: &[IpAddr], sources: &[&str]) -> usize {
    let sources: Vec<IpAddr> = sources.iter().map(|source| source.parse().unwrap()).collect();
    arrived.iter().filter(|source| sources.contains(source)).count()
}

/// Takes what arrives until there are `expected`.
pub fn all_arrivals(server: &UdpSocket, expected: u64) -> Vec<IpAddr> {
    let mut arrived = Vec::new();
    wait::until("what passed has arrived", || {
        arrived.extend(arrivals(server));
        (arrived.len() as u64 >= expected).then_some(())
    });
    assert_eq!(arrived.len() as u64, expected);
    arrived
}

#[test]
fn ipv4_source_above_its_rate_loses_what_is_above_and_others_lose_nothing() {
    isolated(|| limits_between_bounds(SERVER_V4, &["10.1.0.2"], "10.1.0.3"));
}

#[test]
fn ipv6_addresses_of_one_64_share_a_bucket_and_others_lose_nothing() {
    isolated(|| limits_between_bounds(SERVER_V6, &["fd00:0:0:1::1", "fd00:0:0:1:8000::2"], "fd00:0:0:2::1"));
}

fn limits_between_bounds(server: &str, flooders: &[&str], other: &str) {
    let link = Link::new(&[flooders, &[other]].concat());
    let _daemon = Daemon::start(&config(&[], &[RULE]));
    let server = receiver(server);
    let senders: Vec<UdpSocket> = flooders.iter().map(|client| link.sender(client)).collect();
    let senders: Vec<&UdpSocket> = senders.iter().collect();

    let times = flood(&senders, &link.sender(other), &server, || {});

    let status = judged(FLOOD + TRICKLE);
    let (passed, dropped) = rule(&status, "every");
    let arrived = all_arrivals(&server, passed);
    times.check(count(&arrived, flooders));
    assert_eq!(count(&arrived, &[other]) as u64, TRICKLE);
    assert_eq!(passed + dropped, FLOOD + TRICKLE);
    assert_eq!(reason(&status, "limited").packets, dropped);
}

#[test]
fn observing_drops_nothing_and_counts_what_it_would_have_dropped() {
    isolated(|| {
        let link = Link::new(&["10.1.0.2"]);
        let _daemon = Daemon::start(&config(&[], &["{name: every, rate: 1/h, burst: 50, action: observe}"]));
        let server = receiver(SERVER_V4);
        send(&link.sender("10.1.0.2"), 1000);

        let status = judged(1000);
        assert_eq!(all_arrivals(&server, 1000).len(), 1000);
        assert_eq!(rule(&status, "every"), (50, 950));
        let counted = &status.rules[0];
        assert_eq!((counted.observed.packets, counted.dropped.packets), (950, 0));
        assert_eq!(counted.observed.bytes, counted.passed.bytes * 19, "all are as long");
        assert_eq!(reason(&status, "limited").packets, 0);
    });
}

#[test]
fn what_observes_beside_a_rule_that_drops_judges_only_what_passes() {
    isolated(|| {
        let link = Link::new(&["10.1.0.2"]);
        let rules =
            ["{name: watch, rate: 1/h, burst: 30, action: observe}", "{name: every, rate: 1/h, burst: 50}"];
        let _daemon = Daemon::start(&config(&[], &rules));
        let server = receiver(SERVER_V4);
        send(&link.sender("10.1.0.2"), 200);

        let status = judged(200);
        assert_eq!(all_arrivals(&server, 50).len(), 50);
        assert_eq!((rule(&status, "every"), rule(&status, "watch")), ((50, 150), (30, 20)));
        let counts =
            |index: usize| (status.rules[index].dropped.packets, status.rules[index].observed.packets);
        assert_eq!((counts(0), counts(1)), ((0, 20), (150, 0)));
    });
}

#[test]
fn allowed_sources_lose_nothing_and_others_do() {
    isolated(|| {
        let (inside, outside) = (["10.1.7.2", "fd00:0:0:7::1"], ["10.1.8.2", "fd00:0:0:8::1"]);
        let link = Link::new(&[inside, outside].concat());
        let network = ["allow: [10.1.7.0/24, \"fd00:0:0:7::/64\"]"];
        let _daemon = Daemon::start(&config(&network, &["{name: every, rate: 1/h, burst: 10}"]));
        let servers = [receiver(SERVER_V4), receiver(SERVER_V6)];
        for client in [inside, outside].concat() {
            send(&link.sender(client), 100);
        }

        let status = judged(400);
        assert_eq!((reason(&status, "allowed").packets, rule(&status, "every")), (200, (20, 180)));
        for (server, (inside, outside)) in servers.iter().zip(inside.iter().zip(outside)) {
            let arrived = all_arrivals(server, 110);
            assert_eq!((count(&arrived, &[inside]), count(&arrived, &[outside])), (100, 10));
        }
    });
}

/// Sends datagrams, a few at a time: a veth's ring is short.
pub fn send(client: &UdpSocket, datagrams: u32) {
    for _ in 0..datagrams {
        client.send(b"datagram").unwrap();
    }
}
