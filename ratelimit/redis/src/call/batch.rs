//! Requests that go in one call: their keys, each once, and all numbers in one argument.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use ratelimit_common::limit::StateKind;

use super::{
    number::{Micros, flag},
    request::ShardRequest,
    row::{Row, log_reader, row},
};

/// The most keys of a call, unless one request has more.
pub(crate) const MOST_KEYS: usize = 256;

/// The most requests of a call.
pub(crate) const MOST_REQUESTS: usize = 64;

/// What the caller knows of the server's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// What it says now, about.
    pub(crate) at: Micros,
    /// What it says at least, if it has not been set back.
    pub(crate) earliest: Micros,
}

/// Keys and arguments of a call.
#[derive(Clone, Debug)]
pub(crate) struct CallArguments {
    pub(crate) keys: Vec<Vec<u8>>,
    pub(crate) numbers: Vec<u8>,
}

/// How many numbers are in front of rows.
const HEAD: usize = 4;

/// Puts requests in a call, each with the time from which on it is void.
pub(crate) fn arguments<'r>(
    requests: impl Iterator<Item = (&'r ShardRequest, Micros)> + Clone,
    times: Times,
) -> CallArguments {
    let mut batch = Batch::new(requests.clone().map(|(request, _)| request));
    let mut count = 0;
    for (request, not_after) in requests {
        batch.add(request, not_after, times.at);
        count += 1;
    }
    let Batch { keys, rows, asked, strings, .. } = batch;
    let head = [strings as f64, times.earliest.number(), f64::from(count), (HEAD + rows.len() + 1) as f64];
    let numbers = head.iter().chain(&rows).chain(&asked).flat_map(|number| number.to_le_bytes()).collect();
    CallArguments { keys, numbers }
}

struct Batch<'r> {
    keys: Vec<Vec<u8>>,
    /// Where keys are, counted from 1.
    of_key: HashMap<&'r [u8], usize, FixedState>,
    /// How many keys are not of logs.
    strings: usize,
    rows: Vec<f64>,
    of_row: HashMap<Vec<u64>, f64, FixedState>,
    asked: Vec<f64>,
}

impl<'r> Batch<'r> {
    /// With the keys of all requests: first those kept as strings.
    fn new(requests: impl Iterator<Item = &'r ShardRequest> + Clone) -> Self {
        let mut batch = Self {
            keys: Vec::new(),
            of_key: HashMap::default(),
            strings: 0,
            rows: Vec::new(),
            of_row: HashMap::default(),
            asked: Vec::new(),
        };
        for logs in [false, true] {
            for request in requests.clone() {
                for (index, bucket) in request.buckets.iter().enumerate() {
                    if is_log(request, index) == logs {
                        batch.add_key(&bucket.key);
                    }
                }
            }
            if !logs {
                batch.strings = batch.keys.len();
            }
        }
        batch
    }

    fn add_key(&mut self, key: &'r [u8]) {
        let next = self.keys.len() + 1;
        if *self.of_key.entry(key).or_insert(next) == next {
            self.keys.push(key.to_vec());
        }
    }

    fn add(&mut self, request: &ShardRequest, not_after: Micros, at: Micros) {
        let counts = [request.buckets.len() as f64, request.parts.len() as f64];
        self.asked.extend([not_after.number(), flag(request.passes_all), flag(request.has_open_quota)]);
        self.asked.extend(counts);
        for (index, bucket) in request.buckets.iter().enumerate() {
            let reader = match request.reader(index) {
                Some(_) if is_log(request, index) => log_reader(request, index, at).unwrap_or_default(),
                Some(part) => row(part, at),
                None => Row::new(),
            };
            let key = self.of_key.get(&*bucket.key).copied().unwrap_or_default();
            let reader = self.row(&reader);
            self.asked.extend([key as f64, reader]);
        }
        for part in &request.parts {
            let row = self.row(&row(part, at));
            self.asked.extend([row, (part.bucket + 1) as f64]);
        }
    }

    /// Where a row is; equal ones are there once.
    fn row(&mut self, row: &[f64]) -> f64 {
        let bits: Vec<u64> = row.iter().map(|number| number.to_bits()).collect();
        let next = (HEAD + self.rows.len() + 1) as f64;
        let place = *self.of_row.entry(bits).or_insert(next);
        if place == next {
            self.rows.extend_from_slice(row);
        }
        place
    }
}

fn is_log(request: &ShardRequest, bucket: usize) -> bool {
    request.reader(bucket).is_some_and(|part| part.limit.kind() == StateKind::Log)
}
