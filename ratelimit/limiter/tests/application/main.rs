//! The application layer through its public interface: files of rules, decisions about requests, and what is counted,
//! with a clock that the tests move.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

mod answers;
mod bounds;
mod budgets;
mod chapter;
mod clock;
mod counting;
mod files;
mod labels;
mod logs;
mod lookup;
mod networks;
mod random;
mod refunds;
mod reload;
mod replaces;
mod reports;
mod soft;
mod state;
mod status;
#[path = "../../../tests/support/stops.rs"]
mod stops;
mod waits;

use std::{fs, path::PathBuf, sync::Arc};

use ratelimit_common::limit::Algorithm;
use ratelimit_config::{self as config, ConfigErrors};
use ratelimit_limiter::{
    Nanos,
    application::{Code, Descriptor, LimitOverride, Request, Response, Service, Status, TimeUnit},
    application::{RuleSet, ServicePolicy},
    clock::FakeClock,
};
use tempfile::TempDir;

/// A time in the middle of nothing: no window of a whole number of days, hours or minutes begins at it.
const START: Nanos = Nanos(1_700_000_123_456_789_012);

const SECOND: Nanos = Nanos::SECOND;

/// What rules call the algorithms. A test that goes through all of them takes them from here.
fn algorithms() -> impl Iterator<Item = &'static str> {
    Algorithm::ALL.into_iter().map(Algorithm::name)
}

/// Files of rules in a directory of their own.
struct Files {
    paths: Vec<PathBuf>,
    _directory: TempDir,
}

fn files(contents: &[&str]) -> Files {
    let directory = tempfile::tempdir().unwrap();
    let path = |(index, content): (usize, &&str)| {
        let path = directory.path().join(format!("{index}.yaml"));
        fs::write(&path, content).unwrap();
        path
    };
    Files { paths: contents.iter().enumerate().map(path).collect(), _directory: directory }
}

fn read_rules(contents: &[&str], merge_domains: bool) -> Result<RuleSet, ConfigErrors> {
    config::check_rules(&files(contents).paths, merge_domains).map(|checked| checked.rules)
}

fn rules(content: &str) -> RuleSet {
    read_rules(&[content], false).unwrap_or_else(|errors| panic!("{content}\n{errors}"))
}

/// A service and its clock, which stands at [`START`].
struct Lab {
    service: Service,
    clock: FakeClock,
}

/// A service with the rules of a file.
fn lab(content: &str) -> Lab {
    lab_of(&ServicePolicy::of_rules(rules(content)))
}

fn lab_of(policy: &ServicePolicy) -> Lab {
    logs::keep_messages();
    let clock = FakeClock::new(START);
    let service = Service::with_clock(policy, Arc::new(clock.clone())).unwrap();
    Lab { service, clock }
}

/// A service whose only descriptor is `user`, in domain `d`, with this limit.
fn lab_of_limit(limit: &str) -> Lab {
    lab(&format!("domain: d\ndescriptors:\n  - key: user\n    rate_limit: {{{limit}}}\n"))
}

impl Lab {
    fn ask(&self, request: &Request) -> Response {
        self.service.decide(request).unwrap()
    }

    /// Asks about one descriptor in domain `d`.
    fn one(&self, descriptor: &str) -> Status {
        let response = self.ask(&request(&[descriptor]));
        assert_eq!(response.statuses.len(), 1);
        response.statuses[0].clone()
    }

    /// How many of `count` requests pass.
    fn passes(&self, descriptor: &str, count: usize) -> usize {
        (0..count).filter(|_| self.ask(&request(&[descriptor])).allowed()).count()
    }

    fn advance(&self, seconds: u64) {
        self.clock.advance(Nanos::from_secs(seconds));
    }

    /// Moves to where a window of this length begins.
    fn to_window(&self, length: Nanos) {
        use ratelimit_limiter::clock::Clock as _;
        self.clock.set(Nanos(self.clock.now().0.next_multiple_of(length.0)));
    }
}

/// `key=value,key=value`; a key alone has an empty value.
fn descriptor(text: &str) -> Descriptor {
    Descriptor::of(text.split(',').map(|entry| entry.split_once('=').unwrap_or((entry, ""))))
}

/// A request in domain `d`.
fn request(descriptors: &[&str]) -> Request {
    let descriptors = descriptors.iter().map(|text| descriptor(text)).collect();
    Request { domain: "d".to_owned(), descriptors, hits_addend: 0 }
}

/// A request of one descriptor in domain `d` that takes so many hits.
fn hits(text: &str, hits: u64) -> Request {
    let descriptor = Descriptor { hits_addend: Some(hits), ..descriptor(text) };
    Request { descriptors: vec![descriptor], ..request(&[]) }
}

/// One that gives so many hits back.
fn refund(text: &str, count: u64) -> Request {
    let mut request = hits(text, count);
    request.descriptors[0].is_negative_hits = true;
    request
}

/// One that brings a limit of its own.
fn with_limit(text: &str, requests_per_unit: u32, unit: Option<TimeUnit>) -> Request {
    let limit = Some(LimitOverride { requests_per_unit, unit });
    Request { descriptors: vec![Descriptor { limit, ..descriptor(text) }], ..request(&[]) }
}

/// Code and what remains of each status, in short: `ok 4`, `over 0`.
fn shown(response: &Response) -> Vec<String> {
    let shown = |status: &Status| {
        let code = if status.code == Code::Ok { "ok" } else { "over" };
        format!("{code} {}", status.remaining)
    };
    response.statuses.iter().map(shown).collect()
}
