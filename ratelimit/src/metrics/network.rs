//! What the XDP program has counted, read from its pinned maps whenever it is asked for.

use std::fmt;

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
};
use tracing::debug;

use crate::{
    dataplane::{self, InstanceStatus, ListSize, PacketCount, TrialStatus, in_one_line},
    policy::InstanceName,
};

/// The network layer of an instance.
#[derive(Debug)]
pub struct NetworkMetrics {
    instance: InstanceName,
}

type Labels<const N: usize> = [(&'static str, String); N];

impl NetworkMetrics {
    pub const fn new(instance: InstanceName) -> Self {
        Self { instance }
    }
}

impl Collector for NetworkMetrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut to = Encoder(encoder);
        let status = dataplane::status(&self.instance);
        let is_up = status.as_ref().is_ok_and(InstanceStatus::is_limiting);
        to.gauge("network_up", "Whether limits are in force and their counters can be read", is_up)?;
        match status {
            Ok(status) => to.status(&status),
            Err(error) => {
                debug!("no counters for the metrics: {}", in_one_line(&error));
                Ok(())
            }
        }
    }
}

struct Encoder<'e>(DescriptorEncoder<'e>);

impl Encoder<'_> {
    fn status(&mut self, status: &InstanceStatus) -> fmt::Result {
        self.reasons(status)?;
        self.rules(status)?;
        self.gauge("rules", "Rules in force", status.rules.len() as u64)?;
        self.gauge("bans", "Bans in force", status.bans as u64)?;
        let is_reverted = status.trial == TrialStatus::Failed;
        self.gauge(
            "reverted",
            "Whether everything passes, because nobody confirmed the rules in time",
            is_reverted,
        )?;
        self.gauge("observes", "Whether all rules only observe for the time being", status.observes)?;
        let interfaces = status.interfaces.iter().map(|interface| {
            let labels =
                [("interface", interface.interface.clone()), ("mode", interface.mode.name().to_owned())];
            (labels, 1)
        });
        self.gauges("interface", "An interface with limits, and how they are attached", interfaces)?;
        let missing = status.missing.iter().map(|name| ([("interface", name.clone())], 1));
        self.gauges("interface_missing", "An interface that is to have limits and has none", missing)?;
        self.lists(status)?;
        let table = &status.table;
        self.gauge("table_buckets", "Buckets that the table has room for", table.buckets)?;
        self.gauge("table_bytes", "Memory of the table of buckets", table.bytes)?;
        self.counter(
            "table_live_evictions",
            "Buckets in use that gave way to others because the table was full",
            table.live_evictions,
        )?;
        self.counter(
            "table_exhausted_tries",
            "Packets denied because processors met at the same bucket too often",
            table.exhausted_tries,
        )?;
        self.counter("bans_made", "Bans that rules have made", table.bans_made)?;
        self.counter(
            "bans_replaced",
            "Bans in force that gave way to others because their table was full",
            table.bans_replaced,
        )?;
        self.counter("events", "Events of dropped packets that were handed over", status.events.written)?;
        self.counter(
            "events_lost",
            "Events of dropped packets that were lost because the daemon was too slow or not there",
            status.events.lost,
        )
    }

    fn reasons(&mut self, status: &InstanceStatus) -> fmt::Result {
        let labeled = |of: fn(&PacketCount) -> u64| {
            status.reasons.iter().map(move |reason| {
                let labels = [("reason", reason.reason.clone()), ("verdict", reason.verdict.clone())];
                (labels, of(&reason.count))
            })
        };
        self.counters("packets", "Packets, by the reason for their verdict", labeled(|count| count.packets))?;
        self.counters(
            "bytes",
            "Wire bytes of packets, by the reason for their verdict",
            labeled(|count| count.bytes),
        )
    }

    /// Labels are as many as the status has parts of lists, which is bounded.
    fn lists(&mut self, status: &InstanceStatus) -> fmt::Result {
        let labeled = |of: fn(&ListSize) -> u64| {
            status.lists.iter().map(move |size| {
                let file = size.file.clone().unwrap_or_default();
                let rule = size.rule.clone().map(|rule| ("rule", rule));
                let labels = [("list", size.list.clone()), ("file", file)].into_iter().chain(rule);
                (labels.collect::<Vec<_>>(), of(size))
            })
        };
        self.gauges(
            "list_prefixes",
            "Prefixes of a list from one file, or from the configuration itself (no file)",
            labeled(|size| size.prefixes),
        )?;
        self.gauges(
            "list_kept",
            "Whether the file is empty now, so that what it had before stays in force",
            labeled(|size| size.is_kept.into()),
        )
    }

    /// A rule that observes drops nothing; what it would have dropped has a verdict of its own.
    fn rules(&mut self, status: &InstanceStatus) -> fmt::Result {
        let labeled = |of: fn(&PacketCount) -> u64| {
            status.rules.iter().flat_map(move |rule| {
                let counts = [("pass", &rule.passed), ("drop", &rule.dropped), ("observe", &rule.observed)];
                counts.map(|(verdict, count)| {
                    ([("rule", rule.rule.name.clone()), ("verdict", verdict.to_owned())], of(count))
                })
            })
        };
        self.counters("rule_packets", "Packets that a rule judged", labeled(|count| count.packets))?;
        self.counters(
            "rule_bytes",
            "Wire bytes of packets that a rule judged",
            labeled(|count| count.bytes),
        )?;
        let bans = status.rules.iter().map(|rule| ([("rule", rule.rule.name.clone())], rule.bans));
        self.counters("rule_bans", "Bans that a rule has made", bans)
    }

    fn gauge(&mut self, name: &str, help: &str, value: impl Into<u64>) -> fmt::Result {
        let encoder = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        ConstGauge::new(value.into()).encode(encoder)
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        let encoder = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        ConstCounter::new(value).encode(encoder)
    }

    fn gauges<L: EncodeLabelSet>(
        &mut self,
        name: &str,
        help: &str,
        values: impl Iterator<Item = (L, u64)>,
    ) -> fmt::Result {
        let mut encoder = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (labels, value) in values {
            ConstGauge::new(value).encode(encoder.encode_family(&labels)?)?;
        }
        Ok(())
    }

    fn counters<const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        values: impl Iterator<Item = (Labels<N>, u64)>,
    ) -> fmt::Result {
        let mut encoder = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, value) in values {
            ConstCounter::new(value).encode(encoder.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use prometheus_client::{encoding::prometheus_text, registry::Registry};

    use super::*;
    use crate::dataplane::{
        AttachedMode, Attachment, EventStatus, ReasonStatus, RuleInForce, RuleStatus, TableStatus,
        TrialStatus,
    };

    #[derive(Debug)]
    struct Fixed(InstanceStatus);

    impl Collector for Fixed {
        fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
            Encoder(encoder).status(&self.0)
        }
    }

    fn status() -> InstanceStatus {
        let count = |packets| PacketCount { packets, bytes: packets * 60 };
        let rule = |name: &str, action: &str| RuleStatus {
            rule: RuleInForce {
                number: 1,
                name: name.to_owned(),
                limit: String::new(),
                key: String::new(),
                action: action.to_owned(),
                matches: String::new(),
                except: None,
                ban: None,
            },
            passed: count(3),
            dropped: count(4),
            observed: count(5),
            bans: 2,
        };
        let size = |list: &str, rule| ListSize {
            list: list.to_owned(),
            rule,
            file: Some("/a".to_owned()),
            prefixes: 7,
            is_kept: true,
        };
        let table = TableStatus {
            buckets: 32_768,
            bytes: 524_288,
            live_evictions: 8,
            exhausted_tries: 0,
            bans_made: 9,
            bans_replaced: 0,
        };
        InstanceStatus {
            missing: vec!["eth1".to_owned()],
            left_out: Vec::new(),
            out_of_sight: Vec::new(),
            obstacles: BTreeMap::new(),
            warnings: Vec::new(),
            reasons: vec![ReasonStatus {
                reason: "limited".to_owned(),
                verdict: "drop".to_owned(),
                count: count(7),
            }],
            rules: vec![rule("every \"one\" \\", "drop"), rule("watch", "observe")],
            interfaces: vec![Attachment {
                interface: "eth0".to_owned(),
                index: 2,
                mode: AttachedMode::Native,
            }],
            table,
            events: EventStatus { written: 5, lost: 6 },
            instance: "x".to_owned(),
            config: String::new(),
            since: 0,
            on_exit: "detach".to_owned(),
            allow: 0,
            deny: 0,
            lists: vec![size("deny", None), size("match.source", Some("r".to_owned()))],
            bans: 3,
            observes: false,
            trial: TrialStatus::None,
        }
    }

    #[test]
    fn counters_are_named_and_labeled_as_prometheus_has_it() {
        let mut registry = Registry::with_prefix("ratelimit");
        registry.register_collector(Box::new(Fixed(status())));
        let mut text = String::new();
        prometheus_text::encode(&mut text, &registry).unwrap();
        for line in [
            "# TYPE ratelimit_packets_total counter",
            "ratelimit_packets_total{reason=\"limited\",verdict=\"drop\"} 7",
            "ratelimit_bytes_total{reason=\"limited\",verdict=\"drop\"} 420",
            "ratelimit_rule_packets_total{rule=\"every \\\"one\\\" \\\\\",verdict=\"pass\"} 3",
            "ratelimit_rule_packets_total{rule=\"every \\\"one\\\" \\\\\",verdict=\"drop\"} 4",
            "ratelimit_rule_packets_total{rule=\"watch\",verdict=\"drop\"} 4",
            "ratelimit_rule_bytes_total{rule=\"watch\",verdict=\"observe\"} 300",
            "ratelimit_rule_bans_total{rule=\"watch\"} 2",
            "ratelimit_rules 2",
            "ratelimit_interface{interface=\"eth0\",mode=\"native\"} 1",
            "ratelimit_interface_missing{interface=\"eth1\"} 1",
            "ratelimit_list_prefixes{list=\"deny\",file=\"/a\"} 7",
            "ratelimit_list_kept{list=\"deny\",file=\"/a\"} 1",
            "ratelimit_list_prefixes{list=\"match.source\",file=\"/a\",rule=\"r\"} 7",
            "ratelimit_table_live_evictions_total 8",
            "ratelimit_bans_made_total 9",
            "ratelimit_events_total 5",
            "ratelimit_events_lost_total 6",
        ] {
            assert!(text.lines().any(|found| found == line), "no {line} in\n{text}");
        }
    }
}
