//! What a daemon makes of single frames: which of its rules judge them, and the reason for their verdict.

use ratelimit::dataplane::InstanceStatus;

use crate::{
    daemon::{Daemon, config, judged, status},
    frames::Raw,
    net::Link,
};

/// A daemon whose rules deny nothing, and the wire to it.
pub struct Witness {
    _daemon: Daemon,
    raw: Raw,
    last: InstanceStatus,
}

impl Witness {
    /// With rules that have these names and conditions.
    pub fn new(link: &Link, conditions: &[(&str, &str)]) -> Self {
        let rule = |(name, condition): &(&str, &str)| {
            format!("{{name: {name}, rate: 1M/s, match: {{{condition}}}}}")
        };
        let rules: Vec<String> = conditions.iter().map(rule).collect();
        let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
        let daemon = Daemon::start(&config(&[], &rules));
        Self { _daemon: daemon, raw: Raw::new(link), last: status() }
    }

    /// The rules that judged a frame, in their order and with spaces between, and the reason.
    pub fn judge(&mut self, frame: &[u8]) -> (String, String) {
        self.raw.send(frame);
        let all: u64 = self.last.reasons.iter().map(|reason| reason.count.packets).sum();
        let now = judged(all + 1);
        let rules = now.rules.iter().zip(&self.last.rules);
        let changed = rules.filter(|(now, last)| now.passed.packets != last.passed.packets);
        let names: Vec<&str> = changed.map(|(now, _)| now.rule.name.as_str()).collect();
        let mut reasons = now.reasons.iter().zip(&self.last.reasons);
        let reason = reasons.find(|(now, last)| now.count.packets != last.count.packets);
        let found = (names.join(" "), reason.unwrap().0.reason.clone());
        self.last = now;
        found
    }
}
