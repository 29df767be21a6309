//! Requests that go in one call: their keys, each once, and all numbers in one argument.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use ratelimit_common::limit::StateKind;

use super::{
    number::{Micros, flag},
    request::{ShardPart, ShardRequest},
    row::{log_reader, row},
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
    let keys = CallKeys::of(requests.clone().map(|(request, _)| request));
    let mut batch = Batch {
        of_key: &keys.of_key,
        at: times.at,
        rows: Vec::new(),
        of_parts: Vec::new(),
        of_readers: Vec::new(),
        asked: Vec::new(),
    };
    let mut count = 0;
    for (request, not_after) in requests {
        batch.add(request, not_after);
        count += 1;
    }
    let Batch { rows, asked, .. } = batch;
    let head =
        [keys.strings as f64, times.earliest.number(), f64::from(count), (HEAD + rows.len() + 1) as f64];
    let mut numbers = Vec::with_capacity((HEAD + rows.len() + asked.len()) * size_of::<f64>());
    for number in head.iter().chain(&rows).chain(&asked) {
        numbers.extend_from_slice(&number.to_le_bytes());
    }
    CallArguments { keys: keys.keys, numbers }
}

/// The keys that requests have in one call.
pub(crate) fn keys<'r>(requests: impl Iterator<Item = &'r ShardRequest> + Clone) -> Vec<Vec<u8>> {
    CallKeys::of(requests).keys
}

/// Keys, each once: first those kept as strings.
#[derive(Default)]
struct CallKeys<'r> {
    keys: Vec<Vec<u8>>,
    /// Where keys are, counted from 1.
    of_key: HashMap<&'r [u8], usize, FixedState>,
    /// How many keys are not of logs.
    strings: usize,
}

impl<'r> CallKeys<'r> {
    fn of(requests: impl Iterator<Item = &'r ShardRequest> + Clone) -> Self {
        let mut keys = Self::default();
        for logs in [false, true] {
            for request in requests.clone() {
                for (index, bucket) in request.buckets.iter().enumerate() {
                    if is_log(request, index) == logs {
                        keys.add(&bucket.key);
                    }
                }
            }
            if !logs {
                keys.strings = keys.keys.len();
            }
        }
        keys
    }

    fn add(&mut self, key: &'r [u8]) {
        let next = self.keys.len() + 1;
        if *self.of_key.entry(key).or_insert(next) == next {
            self.keys.push(key.to_vec());
        }
    }
}

/// The rows that are looked through for one that is there already.
const MOST_SOUGHT: usize = 16;

/// Requests as numbers.
struct Batch<'b, 'r> {
    of_key: &'b HashMap<&'r [u8], usize, FixedState>,
    at: Micros,
    rows: Vec<f64>,
    /// Rows of parts, and rows that read a log for one part alone, with where they are.
    of_parts: Vec<(ShardPart, f64)>,
    of_readers: Vec<(ShardPart, f64)>,
    asked: Vec<f64>,
}

impl<'r> Batch<'_, 'r> {
    fn add(&mut self, request: &'r ShardRequest, not_after: Micros) {
        let counts = [request.buckets.len() as f64, request.parts.len() as f64];
        self.asked.extend([not_after.number(), flag(request.passes_all), flag(request.has_open_quota)]);
        self.asked.extend(counts);
        for (index, bucket) in request.buckets.iter().enumerate() {
            let key = self.of_key.get(&*bucket.key).copied().unwrap_or_default();
            let reader = match request.reader(index) {
                Some(part) if is_log(request, index) => self.log_reader(request, index, part),
                Some(part) => self.part(part),
                None => 0.0,
            };
            self.asked.extend([key as f64, reader]);
        }
        for part in &request.parts {
            let row = self.part(part);
            self.asked.extend([row, (part.bucket + 1) as f64]);
        }
    }

    /// Where a part's row is; those of equal ones are there once, mostly.
    fn part(&mut self, part: &ShardPart) -> f64 {
        if let Some(place) = find(&self.of_parts, part) {
            return place;
        }
        let place = self.push(&row(part, self.at));
        self.of_parts.push((*part, place));
        place
    }

    fn log_reader(&mut self, request: &ShardRequest, bucket: usize, part: &ShardPart) -> f64 {
        let is_alone = request.about(bucket).count() == 1;
        if is_alone && let Some(place) = find(&self.of_readers, part) {
            return place;
        }
        let place = self.push(&log_reader(request, bucket, self.at).unwrap_or_default());
        if is_alone {
            self.of_readers.push((*part, place));
        }
        place
    }

    fn push(&mut self, row: &[f64]) -> f64 {
        let place = (HEAD + self.rows.len() + 1) as f64;
        self.rows.extend_from_slice(row);
        place
    }
}

fn find(rows: &[(ShardPart, f64)], part: &ShardPart) -> Option<f64> {
    let recent = rows.iter().rev().take(MOST_SOUGHT);
    recent.into_iter().find(|(known, _)| known.has_row_of(part)).map(|&(_, place)| place)
}

fn is_log(request: &ShardRequest, bucket: usize) -> bool {
    request.reader(bucket).is_some_and(|part| part.limit.kind() == StateKind::Log)
}
