//! The wall clock is set while packets are limited, and while no daemon runs. It is the tests' own: the machine's is
//! everybody's.

use std::{cell::Cell, net::UdpSocket, path::Path};

use nix::time::{ClockId, clock_gettime};
use ratelimit::{
    config,
    dataplane::{Claim, Dataplane, Error, TrialState, Wanted, WantedTrial},
    policy::{InstanceName, Network},
};
use ratelimit_common::time::Nanos;

use crate::{
    daemon::{self, judged, rule},
    limits::send,
    net::{Link, isolated},
};

const CLIENT: &str = "10.1.0.2";
const HOUR: u64 = Nanos::from_secs(3_600).0;
const DAY: u64 = 24 * HOUR;

thread_local! {
    /// What the wall clock of a test is ahead of the even one, as a wrapped number.
    static AHEAD: Cell<u64> = const { Cell::new(0) };
}

fn monotonic() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap();
    now.tv_sec().cast_unsigned() * Nanos::SECOND.0 + now.tv_nsec().cast_unsigned()
}

fn wall() -> Result<Nanos, Error> {
    Ok(Nanos(monotonic().wrapping_add(AHEAD.get())))
}

/// Sets it to so many hours after a midnight.
fn begin_at(hour: u64) {
    AHEAD.set((19_676 * DAY + hour * HOUR).wrapping_sub(monotonic()));
}

/// One rule for all packets, in force.
struct Limited {
    _link: Link,
    client: UdpSocket,
    network: Network,
    trial: Option<WantedTrial>,
    dataplane: Option<Dataplane>,
    sent: u64,
}

impl Limited {
    fn new(limit: &str) -> Self {
        let link = Link::new(&[CLIENT]);
        let client = link.sender(CLIENT);
        let path = daemon::config(&[], &[&format!("{{name: every, {limit}}}")]);
        let network = config::load(&path).unwrap().network.unwrap();
        let mut limited = Self { _link: link, client, network, trial: None, dataplane: None, sent: 0 };
        limited.start();
        limited
    }

    /// What a daemon does that begins, and adopts what there is.
    fn start(&mut self) {
        self.dataplane = None;
        let claim = Claim::take(&InstanceName::default()).unwrap().with_wall_clock(wall);
        self.dataplane =
            Some(claim.start(&wanted(&self.network, None), Path::new("/run/none.sock")).unwrap());
    }

    fn reload(&mut self) {
        let wanted = wanted(&self.network, self.trial);
        self.dataplane.as_mut().unwrap().replace(&wanted).unwrap();
    }

    fn has_moved_windows(&self) -> bool {
        self.dataplane.as_ref().unwrap().has_moved_windows().unwrap()
    }

    /// How many of so many datagrams pass.
    fn passes(&mut self, count: u64) -> u64 {
        let before = rule(&judged(self.sent), "every").0;
        send(&self.client, u32::try_from(count).unwrap());
        self.sent += count;
        rule(&judged(self.sent), "every").0 - before
    }

    fn hours_left(&self) -> u64 {
        let dataplane = self.dataplane.as_ref().unwrap();
        let bucket = dataplane.buckets_of(CLIENT.parse().unwrap(), |_| true, false).unwrap().remove(0);
        (bucket.reset_after / 3_600.0).ceil() as u64
    }
}

fn wanted(network: &Network, trial: Option<WantedTrial>) -> Wanted<'_> {
    Wanted { network, config: Path::new("/run/ratelimit.yaml"), is_same: false, observes: None, trial }
}

const LIMITS: [&str; 3] = [
    "rate: 10/d, algorithm: fixed_window",
    "rate: 10/d, algorithm: sliding_window_counter",
    "rate: 10/d, refill: interval",
];

#[test]
fn a_reload_after_the_clock_was_set_back_gives_no_new_day() {
    // Midnight is nearer by the old clock, or by the new one.
    for (limit, hour) in LIMITS.into_iter().flat_map(|limit| [(limit, 18), (limit, 2)]) {
        isolated(|| {
            begin_at(hour);
            let mut limited = Limited::new(limit);
            assert_eq!(limited.passes(15), 10);
            AHEAD.set(AHEAD.get().wrapping_sub(6 * HOUR));
            assert!(limited.has_moved_windows());
            limited.reload();
            assert!(!limited.has_moved_windows());
            assert_eq!((limited.passes(15), limited.hours_left()), (0, 30 - hour), "{limit} at {hour}");
            // Nor does a second one, or another daemon.
            limited.reload();
            assert_eq!((limited.passes(15), limited.hours_left()), (0, 30 - hour), "{limit} at {hour}");
            AHEAD.set(AHEAD.get().wrapping_sub(2 * HOUR));
            limited.start();
            assert_eq!((limited.passes(15), limited.hours_left()), (0, 32 - hour), "{limit} at {hour}");
            limited.start();
            assert_eq!((limited.passes(15), limited.hours_left()), (0, 32 - hour), "{limit} at {hour}");
        });
    }
}

#[test]
fn new_days_begin_at_once_after_the_clock_was_set_forward() {
    for limit in LIMITS {
        isolated(|| {
            begin_at(18);
            let mut limited = Limited::new(limit);
            assert_eq!(limited.passes(15), 10);
            AHEAD.set(AHEAD.get().wrapping_add(Nanos::SECOND.0 / 2));
            assert!(!limited.has_moved_windows());
            limited.reload();
            assert_eq!(limited.passes(15), 0, "{limit}");
            AHEAD.set(AHEAD.get().wrapping_add(2 * DAY));
            assert!(limited.has_moved_windows());
            limited.reload();
            assert_eq!((limited.passes(15), limited.hours_left()), (10, 6), "{limit}");
        });
    }
}

#[test]
fn a_clock_that_was_set_moves_no_token_bucket_no_ban_and_no_trial() {
    isolated(|| {
        begin_at(18);
        let mut limited = Limited::new("rate: 10/d");
        limited.trial = Some(WantedTrial::Begins(Nanos(HOUR)));
        limited.reload();
        limited.trial = Some(WantedTrial::GoesOn);
        assert_eq!(limited.passes(15), 10);
        daemon::run(&["ban", "10.9.0.1", "--for", "1h"]);
        for by in [2 * DAY, (3 * DAY).wrapping_neg()] {
            AHEAD.set(AHEAD.get().wrapping_add(by));
            // Nothing has windows, so nothing has to be done.
            assert!(!limited.has_moved_windows());
            limited.reload();
            assert_eq!(limited.passes(5), 0);
            let bans = daemon::run(&["bans", "--output", "json"]);
            let left = serde_json::from_str::<serde_json::Value>(&bans).unwrap()[0]["seconds_left"].as_u64();
            assert!(left.is_some_and(|left| (3_000..=3_600).contains(&left)), "{bans}");
            let trial = limited.dataplane.as_ref().unwrap().trial().unwrap();
            assert!(
                matches!(trial, TrialState::Left(left) if (HOUR / 2..=HOUR).contains(&left.0)),
                "{trial:?}"
            );
        }
    });
}
