//! What was counted of questions to a store that several daemons share.

use std::fmt;

use prometheus_client::{
    encoding::{DescriptorEncoder, EncodeMetric as _, NoLabelSet},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::Unit,
};

use super::counter;
use crate::application::{LATENCY_BOUNDS, SharedStoreStats};
use ratelimit_limiter::store::remote::Breaker;

const STATES: [(&str, Breaker); 3] =
    [("closed", Breaker::Closed), ("half_open", Breaker::HalfOpen), ("open", Breaker::Open)];

/// Writes it.
pub(super) fn encode(store: &SharedStoreStats, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let help = "Questions to the store without a decision, by why";
    let mut family = encoder.encode_descriptor("store_errors", help, None, MetricType::Counter)?;
    for (reason, count) in store.errors {
        ConstCounter::new(count).encode(family.encode_family(&[("reason", reason)])?)?;
    }
    let help = "Decisions without the store, by what `on_store_error` says";
    let mut family = encoder.encode_descriptor("store_fallback", help, None, MetricType::Counter)?;
    for (decision, count) in store.without_store {
        ConstCounter::new(count).encode(family.encode_family(&[("decision", decision)])?)?;
    }
    let help = "1 at the state of the circuit breaker before the store; while it is open, nobody waits for the store";
    let mut family = encoder.encode_descriptor("store_breaker", help, None, MetricType::Gauge)?;
    for (name, state) in STATES {
        let is_it = u64::from(store.health.breaker == state);
        ConstGauge::new(is_it).encode(family.encode_family(&[("state", name)])?)?;
    }
    let help = "Requests that were denied by what the store had said less than a second before";
    counter(encoder, "store_recalled", help, store.recalled)?;
    let help = "Requests that were denied since the store and this daemon did not agree about them, \
        which is a bug";
    counter(encoder, "store_disagreements", help, store.disagreements)?;
    latencies(store, encoder)
}

fn latencies(store: &SharedStoreStats, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let help = "How long the store took to answer";
    let unit = Unit::Seconds;
    let mut family = encoder.encode_descriptor("store_latency", help, Some(&unit), MetricType::Histogram)?;
    let bounds = LATENCY_BOUNDS.iter().map(|micros| *micros as f64 / 1e6).chain([f64::MAX]);
    let buckets: Vec<(f64, u64)> = bounds.zip(store.latencies).collect();
    let count = store.latencies.iter().sum();
    family.encode_histogram::<NoLabelSet>(store.latency.as_secs_f64(), count, &buckets, None)
}
