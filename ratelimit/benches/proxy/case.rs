//! The cases: who stands before the server, and which version of HTTP is spoken with clients.

use std::{sync::Arc, time::Duration};

use super::{
    load::{self, Protocol},
    process::{Kind, Running},
};

/// Requests a second at which answers are timed: far below what any of them bears.
const RATE: u32 = 1_000;

/// A proxy, or none, and how it is asked.
pub struct Case {
    pub protocol: Protocol,
    pub kind: Kind,
    server: Arc<Running>,
}

/// What a case came to in one round; times in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    pub a_second: f64,
    /// Processor time of whoever is asked, for a request.
    pub processor: f64,
    pub p50: f64,
    pub p99: f64,
    pub p999: f64,
}

/// Each proxy runs once, for both versions.
pub fn all() -> Vec<Case> {
    let upstream = Arc::new(Running::start(Kind::Straight, None));
    let behind = upstream.http1;
    let mut servers = vec![(Kind::Straight, upstream)];
    for kind in [Kind::Limited, Kind::Unlimited, Kind::Nginx, Kind::HaProxy, Kind::Bare] {
        servers.push((kind, Arc::new(Running::start(kind, Some(behind)))));
    }
    let of = |protocol| {
        let case = move |(kind, server): &(Kind, Arc<Running>)| Case {
            protocol,
            kind: *kind,
            server: Arc::clone(server),
        };
        servers.iter().map(case).collect::<Vec<_>>()
    };
    [of(Protocol::Http1), of(Protocol::Http2)].into_iter().flatten().collect()
}

impl Case {
    /// Connections to servers are made, and memory is touched.
    pub fn warm_up(&self) {
        load::at_most(self.server.address(self.protocol), self.protocol, Duration::from_secs(1));
    }

    /// Asks for so long as fast as it can, and again at the rate.
    pub fn run(&self, time: Duration) -> Figures {
        let address = self.server.address(self.protocol);
        let before = self.server.processor_time();
        let answered = load::at_most(address, self.protocol, time);
        let processor = self.server.processor_time() - before;
        let mut times = load::at_rate(address, self.protocol, time, RATE);
        times.sort_unstable();
        let at = |share: f64| f64::from(times[((times.len() - 1) as f64 * share) as usize]);
        Figures {
            a_second: answered as f64 / time.as_secs_f64(),
            processor: processor.as_secs_f64() * 1e6 / answered as f64,
            p50: at(0.5),
            p99: at(0.99),
            p999: at(0.999),
        }
    }
}
