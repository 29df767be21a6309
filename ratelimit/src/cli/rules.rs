//! `ratelimit rules`: the rules in force, what each is about and what it has done.

use std::fmt;

use clap::Args;
use serde_json::{Value, json};

use super::{
    answer_with,
    client::ClientArgs,
    failure::CommandFailure,
    output::Output,
    status::{RequestRules, has_no_network},
    table::TextTable,
};
use crate::{
    application::ServiceStatus,
    control::MOST_RULES,
    dataplane::{self, InstanceStatus, RuleStatus, TrialStatus, everything_passes},
    text::Thousands,
};

/// Lists the rules in force: what they match, their limits, and what they have done.
#[derive(Debug, Args)]
pub struct Rules {
    #[command(flatten)]
    pub daemon: ClientArgs,
}

/// The answer: each part is there if the instance has that layer.
struct RulesAnswer {
    packets: Option<Packets>,
    requests: Option<ServiceStatus>,
}

/// What is said instead of a table without rows.
pub const NO_RULES: &str = "no rules on packets: every packet passes";

/// Rules on packets.
struct Packets {
    rules: Vec<RuleStatus>,
    /// Whether none of them drops for the time being.
    observes: bool,
    /// Whether anything is dropped: not after a trial that nobody confirmed.
    in_force: bool,
}

impl From<InstanceStatus> for Packets {
    fn from(status: InstanceStatus) -> Self {
        let in_force = status.trial != TrialStatus::Failed;
        Self { rules: status.rules, observes: status.observes, in_force }
    }
}

impl Rules {
    /// Lists them.
    ///
    /// # Errors
    /// The instance has no rules in force, or can't be looked at.
    pub fn run(self, output: Output) -> Result<(), CommandFailure> {
        let requests = self.daemon.requests(MOST_RULES);
        let packets = match (dataplane::status(self.daemon.instance()), &requests) {
            (Ok(status), _) => Some(status.into()),
            (Err(error), Ok(Some(_))) if has_no_network(&error) => None,
            (Err(error), _) => return Err(CommandFailure::failed(error)),
        };
        let requests = requests.map_err(CommandFailure::failed)?.map(|layer| layer.service);
        let answer = RulesAnswer { packets, requests };
        answer_with(output, &answer, &answer.json())
    }
}

impl RulesAnswer {
    fn json(&self) -> Value {
        let (packets, requests) = (self.packets.as_ref(), self.requests.as_ref());
        json!({
            "rules": packets.map_or(&[][..], |packets| &packets.rules),
            "observes": packets.is_some_and(|packets| packets.observes),
            "in_force": packets.map(|packets| packets.in_force),
            "request_rules": requests.map_or(&[][..], |service| &service.rules),
            "request_rules_left_out": requests.map_or(0, |service| service.rules_left_out),
        })
    }
}

impl fmt::Display for RulesAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(packets) = &self.packets {
            packets.fmt(f)?;
        }
        if self.packets.is_some() && self.requests.is_some() {
            writeln!(f)?;
        }
        self.requests.as_ref().map_or(Ok(()), |service| RequestRules(service).fmt(f))
    }
}

impl fmt::Display for Packets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rules.is_empty() {
            return writeln!(f, "{NO_RULES}");
        }
        let mut table = TextTable::new([
            "RULE",
            "ACTION",
            "PASSED",
            "DROPPED",
            "SHARE",
            "DROPPED BYTES",
            "OBSERVED",
            "SHARE",
            "BANS",
            "BAN",
            "LIMIT",
            "KEY",
            "MATCH",
        ]);
        for RuleStatus { rule, passed, dropped, observed, bans } in &self.rules {
            let judged = passed.packets.saturating_add(dropped.packets).saturating_add(observed.packets);
            let action = if self.observes { "observe" } else { &rule.action };
            table.row([
                rule.name.clone(),
                action.to_owned(),
                Thousands(passed.packets).to_string(),
                Thousands(dropped.packets).to_string(),
                share(dropped.packets, judged),
                Thousands(dropped.bytes).to_string(),
                Thousands(observed.packets).to_string(),
                share(observed.packets, judged),
                Thousands(*bans).to_string(),
                ban(rule.ban.as_ref()),
                rule.limit.clone(),
                rule.key.clone(),
                rule.judged(),
            ]);
        }
        write!(f, "{table}{}", Observed(&self.rules))?;
        if self.observes {
            writeln!(f, "\nAll rules only observe, until `ratelimit observe off`.")?;
        }
        if !self.in_force {
            writeln!(f, "\n{}", everything_passes())?;
        }
        Ok(())
    }
}

/// What is said below a table of rules of which some have observed packets.
pub struct Observed<'r>(pub &'r [RuleStatus]);

impl fmt::Display for Observed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.iter().any(|rule| rule.observed.packets > 0) {
            writeln!(
                f,
                "\nOBSERVED packets have passed: a rule would have dropped them, but only observed then."
            )?;
        }
        Ok(())
    }
}

/// When a rule bans.
#[must_use]
pub fn ban(terms: Option<&String>) -> String {
    terms.map_or_else(|| "none".to_owned(), Clone::clone)
}

/// A part of a whole in percent.
#[must_use]
pub fn share(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "0 %".to_owned();
    }
    let percent = part as f64 * 100.0 / whole as f64;
    match percent {
        _ if part == 0 => "0 %".to_owned(),
        _ if part == whole => "100 %".to_owned(),
        small if small < 0.1 => "0.1 %".to_owned(),
        large if large > 99.9 => "99.9 %".to_owned(),
        percent => format!("{percent:.1} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataplane::{PacketCount, RuleInForce};

    fn rule(name: &str, action: &str, [passed, dropped, observed]: [u64; 3]) -> RuleStatus {
        let count = |packets| PacketCount { packets, bytes: packets * 100 };
        RuleStatus {
            rule: RuleInForce {
                number: 1,
                name: name.to_owned(),
                limit: "rate=5/s".to_owned(),
                key: "source v4/32 v6/64".to_owned(),
                action: action.to_owned(),
                matches: "any packet".to_owned(),
                except: (name == "watch").then(|| "source 192.0.2.53/32".to_owned()),
                ban: (name == "every").then(|| "after=100,within=10s,for=10m".to_owned()),
            },
            passed: count(passed),
            dropped: count(dropped),
            observed: count(observed),
            bans: dropped / 500,
        }
    }

    #[test]
    fn rules_are_shown_with_what_they_dropped_and_what_they_observed() {
        let rules = vec![rule("every", "drop", [3_000, 1_000, 0]), rule("watch", "observe", [0, 0, 0])];
        let text = Packets { rules: rules.clone(), observes: false, in_force: true }.to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[1],
            "every  drop      3,000    1,000  25.0 %        100,000         0    0 %     2  after=100,within=10s,for=10m  \
             rate=5/s  source v4/32 v6/64  any packet"
        );
        assert!(lines[2].contains("     0  none                          rate=5/s  "), "{text}");
        assert!(lines[2].ends_with("  any packet, except source 192.0.2.53/32"), "{text}");
        assert_eq!(lines.len(), 3, "nothing was observed");
        let text = Packets { rules, observes: true, in_force: false }.to_string();
        assert!(text.contains("every  observe") && text.contains("`ratelimit observe off`"), "{text}");
        assert!(text.ends_with(&format!("\n\n{}\n", everything_passes())), "{text}");
        let rules = vec![rule("watch", "observe", [600, 100, 300])];
        let text = Packets { rules, observes: false, in_force: true }.to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].contains("  600      100  10.0 %         10,000       300  30.0 %"), "{text}");
        assert!(lines[3].starts_with("OBSERVED packets have passed"), "{text}");
    }

    #[test]
    fn a_share_is_all_or_nothing_only_if_it_is() {
        for (part, whole, expected) in [
            (0, 0, "0 %"),
            (0, 5, "0 %"),
            (5, 5, "100 %"),
            (1, 1_000_000, "0.1 %"),
            (999_999, 1_000_000, "99.9 %"),
            (1, 3, "33.3 %"),
        ] {
            assert_eq!(share(part, whole), expected);
        }
    }
}
