//! What the application layer has counted, read whenever it is asked for.

mod store;

use std::{
    fmt,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric as _, NoLabelSet},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::Unit,
};

use crate::{
    application::{DomainCounts, RuleCounts, Service},
    offenders::{OffenceCounts, Offenders},
    proxy::{Proxy, UpstreamCounts, UpstreamFailure},
    stats::{BOUNDS, Stats},
};

/// The application layer.
#[derive(Debug)]
pub struct RequestMetrics {
    /// Who decides.
    pub service: Arc<Service>,
    /// What the servers count.
    pub stats: Arc<Stats>,
    /// What requests are passed on by.
    pub proxy: Arc<Proxy>,
    /// Who goes on exceeding limits.
    pub offenders: Arc<Offenders>,
}

/// What a rule's hits are counted as, in the words of envoyproxy/ratelimit.
type OfRule = (&'static str, &'static str, fn(&RuleCounts) -> u64);

const OF_RULES: [OfRule; 7] = [
    ("rule_hits", "Hits that a limit applied to", |counts| counts.total_hits),
    ("rule_over_limit", "Hits above the limit", |counts| counts.over_limit),
    ("rule_near_limit", "Hits above the near limit ratio, up to the limit", |counts| counts.near_limit),
    ("rule_within_limit", "Hits of requests within the limit", |counts| counts.within_limit),
    ("rule_shadow_mode", "Hits over a limit that only counts", |counts| counts.shadow_mode),
    ("rule_soft_limit", "Hits that passed above the soft limit", |counts| counts.soft_limit),
    ("rule_cut", "Hits that were not charged, since no more could be owed", |counts| counts.cut),
];

impl Collector for RequestMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.decisions(&mut encoder)?;
        self.rules(&mut encoder)?;
        let evictions = self.service.store().live_evictions();
        counter(
            &mut encoder,
            "request_errors",
            "Requests that made no sense, and got an error",
            self.service.request_errors() + self.stats.refused_requests(),
        )?;
        self.unjudged(&mut encoder)?;
        counter(
            &mut encoder,
            "store_live_evictions",
            "Buckets in use that gave way to others because the store was full",
            evictions,
        )?;
        gauge(&mut encoder, "store_keys", "Buckets in use", self.service.keys_in_use())?;
        gauge(&mut encoder, "store_bytes", "Memory of the store in bytes", self.service.store().bytes())?;
        if let Some(store) = self.service.shared_store() {
            store::encode(&store, &mut encoder)?;
        }
        let refused = self.stats.refused();
        counter(
            &mut encoder,
            "connections_refused",
            "Connections refused because there were too many",
            refused,
        )?;
        let help = "Connections of clients that ask about requests";
        gauge(&mut encoder, "connections", help, self.stats.open())?;
        self.passed_on(&mut encoder)?;
        self.bans(&mut encoder)?;
        self.times(&mut encoder)
    }
}

impl RequestMetrics {
    fn decisions(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Decisions about requests, by their domain";
        let mut family = encoder.encode_descriptor("decisions", help, None, MetricType::Counter)?;
        let mut domains = self.service.domain_counts();
        // No rule file can be about this one.
        domains.push((String::new(), self.service.unknown_domain_counts()));
        for (domain, DomainCounts { allowed, denied, shadowed }) in &domains {
            let passed = allowed.saturating_sub(*shadowed);
            for (decision, count) in [("allowed", passed), ("denied", *denied), ("shadowed", *shadowed)] {
                let labels = [("domain", domain.as_str()), ("decision", decision)];
                ConstCounter::new(count).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }

    fn unjudged(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Requests that were denied because they could not be judged";
        let mut family = encoder.encode_descriptor("denied_unjudged", help, None, MetricType::Counter)?;
        let of_servers = self.stats.denied_unjudged().map(|(why, count)| (why.name(), count));
        for (reason, count) in of_servers.into_iter().chain([("too_many", self.service.requests_too_much())])
        {
            ConstCounter::new(count).encode(family.encode_family(&[("reason", reason)])?)?;
        }
        Ok(())
    }

    fn bans(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Denied requests whose rule bans, by what came of them: bans asked for, bans lost \
            because too many waited, clients that are never banned, and clients whose address nobody \
            trusted names";
        let mut family = encoder.encode_descriptor("request_bans", help, None, MetricType::Counter)?;
        let OffenceCounts { asked, lost, spared, nameless, .. } = self.offenders.counts();
        for (outcome, count) in [("asked", asked), ("lost", lost), ("spared", spared), ("nameless", nameless)]
        {
            ConstCounter::new(count.load(Relaxed)).encode(family.encode_family(&[("outcome", outcome)])?)?;
        }
        let help = "Bans that a rule on requests has asked for";
        let mut family = encoder.encode_descriptor("rule_bans_asked", help, None, MetricType::Counter)?;
        for (label, count) in self.offenders.counts().asked_by() {
            let labels = [("domain", label.domain.as_str()), ("rule", label.key.as_str())];
            ConstCounter::new(count).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }

    fn rules(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let rules = self.service.rule_counts();
        for (name, help, of) in OF_RULES {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (label, counts) in &rules {
                let labels = [("domain", label.domain.as_str()), ("rule", label.key.as_str())];
                ConstCounter::new(of(counts)).encode(family.encode_family(&labels)?)?;
            }
        }
        let help = "Hits under the rule's own label because there may be no more labels for its values";
        let mut family = encoder.encode_descriptor("rule_unlabelled", help, None, MetricType::Counter)?;
        for (label, hits) in self.service.unlabelled_hits() {
            let labels = [("domain", label.domain.as_str()), ("rule", label.key.as_str())];
            ConstCounter::new(hits).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }

    fn passed_on(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let counts = self.proxy.counts();
        if counts.is_empty() {
            return Ok(());
        }
        let help = "Requests that a server behind the proxy was given";
        let mut family = encoder.encode_descriptor("proxy_requests", help, None, MetricType::Counter)?;
        for (upstream, UpstreamCounts { requests, .. }) in &counts {
            let labels = [("upstream", upstream.as_str())];
            ConstCounter::new(*requests).encode(family.encode_family(&labels)?)?;
        }
        let help = "Requests that a server behind the proxy has yet to answer";
        let mut family = encoder.encode_descriptor("proxy_in_flight", help, None, MetricType::Gauge)?;
        for (upstream, UpstreamCounts { in_flight, .. }) in &counts {
            let labels = [("upstream", upstream.as_str())];
            ConstGauge::new(*in_flight).encode(family.encode_family(&labels)?)?;
        }
        let help = "How often a server behind the proxy failed, and how";
        let mut family = encoder.encode_descriptor("proxy_failures", help, None, MetricType::Counter)?;
        for (upstream, UpstreamCounts { failures, .. }) in &counts {
            for (failure, count) in UpstreamFailure::ALL.iter().zip(failures) {
                let labels = [("upstream", upstream.as_str()), ("reason", failure.name())];
                ConstCounter::new(*count).encode(family.encode_family(&labels)?)?;
            }
        }
        let help = "Requests at the proxy that no server got, besides those that are over their limits";
        let mut family = encoder.encode_descriptor("proxy_turned_away", help, None, MetricType::Counter)?;
        for (why, count) in self.proxy.stats().turned_away() {
            ConstCounter::new(count).encode(family.encode_family(&[("reason", why.name())])?)?;
        }
        Ok(())
    }

    fn times(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "How long answers took";
        let unit = Unit::Seconds;
        let mut family = encoder.encode_descriptor("answer", help, Some(&unit), MetricType::Histogram)?;
        let bounds = BOUNDS.iter().map(|nanos| *nanos as f64 / 1e9).chain([f64::MAX]);
        let bounds: Vec<f64> = bounds.collect();
        for (protocol, times) in self.stats.answer_times() {
            let buckets: Vec<(f64, u64)> = bounds.iter().copied().zip(times.counts).collect();
            let count = times.counts.iter().sum();
            let labels = [("protocol", protocol)];
            let mut one = family.encode_family(&labels)?;
            one.encode_histogram::<NoLabelSet>(times.nanos as f64 / 1e9, count, &buckets, None)?;
        }
        Ok(())
    }
}

fn counter(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: u64) -> fmt::Result {
    ConstCounter::new(value).encode(encoder.encode_descriptor(name, help, None, MetricType::Counter)?)
}

fn gauge(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: u64) -> fmt::Result {
    ConstGauge::new(value).encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)
}
