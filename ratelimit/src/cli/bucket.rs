//! `ratelimit bucket`: what a source has left under the rules on packets, or a descriptor under those on requests.

mod requests;

use std::{
    fmt,
    net::{AddrParseError, IpAddr},
};

use clap::Args;
use ratelimit_common::time::Nanos;
use serde_json::json;

use super::{
    answer_with,
    bans::{Lasting, Masked},
    check::DescriptorArg,
    client::ClientArgs,
    failure::CommandFailure,
    output::Output,
    table::TextTable,
};
use crate::{
    control::{
        AnsweredBuckets, AnsweredRequestBuckets, AskedBuckets, AskedRequestBuckets, PATIENCE, SparingKey,
        SparingRule,
    },
    dataplane::{BanStatus, everything_passes},
    policy::BanLength,
};

/// Shows what a source has left under the rules on packets, and whether a list or a ban comes before them; with
/// --domain, what a descriptor has left under the rules on requests. With --reset, gives it all back.
#[derive(Debug, Args)]
pub struct Bucket {
    /// The source.
    #[arg(value_name = "ADDR", required_unless_present = "domain", conflicts_with = "domain", value_parser = address)]
    address: Option<IpAddr>,
    /// Only under this rule on packets.
    #[arg(long, value_name = "NAME", conflicts_with = "domain")]
    rule: Option<String>,
    /// The domain whose rules on requests are looked at.
    #[arg(long, value_name = "NAME", requires = "descriptor")]
    domain: Option<String>,
    /// A descriptor, as its entries in order; may be repeated.
    #[arg(long, requires = "domain", value_name = "KEY=VALUE,...")]
    descriptor: Vec<DescriptorArg>,
    /// Make the buckets as good as new.
    #[arg(long)]
    reset: bool,
    #[command(flatten)]
    pub daemon: ClientArgs,
}

impl Bucket {
    /// Shows them.
    ///
    /// # Errors
    /// There is no such rule, or nobody answers.
    pub fn run(self, output: Output) -> Result<(), CommandFailure> {
        let Self { address, rule, domain, descriptor, reset, daemon } = self;
        let no_answer = |error| CommandFailure::failed(format_args!("the daemon's answer: {error}"));
        if let Some(domain) = domain {
            let descriptors = descriptor.into_iter().map(|DescriptorArg(entries)| entries).collect();
            let asked = AskedRequestBuckets { domain, descriptors, reset };
            let answer = daemon.ask("requests/buckets", &json!(asked), PATIENCE)?;
            let shown: AnsweredRequestBuckets = serde_json::from_value(answer.clone()).map_err(no_answer)?;
            return answer_with(output, &requests::RequestBucketText(&shown), &answer);
        }
        let Some(address) = address else {
            return Err(CommandFailure::wrong_usage("name a source, or a domain"));
        };
        let asked = AskedBuckets { address, rule, reset };
        let answer = daemon.ask("buckets", &json!(asked), PATIENCE)?;
        let shown: AnsweredBuckets = serde_json::from_value(answer.clone()).map_err(no_answer)?;
        answer_with(output, &BucketText(&shown), &answer)
    }
}

/// A source, or what to do instead.
fn address(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|error: AddrParseError| match text.parse::<Masked>() {
        Ok(_) => "name one address inside it: a rule by network shows the network's bucket".to_owned(),
        Err(_) => error.to_string(),
    })
}

struct BucketText<'b>(&'b AnsweredBuckets);

impl BucketText<'_> {
    /// What comes before all rules, the first that holds first.
    fn before_rules(&self) -> Vec<String> {
        let AnsweredBuckets { address, in_force, allowed, denied, banned, .. } = self.0;
        let dropped =
            if *in_force { "all its packets are dropped" } else { "all its packets would be dropped" };
        let listed = |prefix: &String, list: &str, what: &str| {
            format!("{address} is on the {list} list, as {prefix}: {what}")
        };
        let allowed = allowed.as_ref().map(|prefix| listed(prefix, "allow", "all its packets pass"));
        let denied = denied.as_ref().map(|prefix| listed(prefix, "deny", dropped));
        let banned = banned.as_ref().map(|BanStatus { prefix, seconds_left, .. }| {
            let left = seconds_left.map_or(BanLength::Forever, |left| BanLength::For(Nanos::from_secs(left)));
            let left = Lasting(left);
            format!("{address} is banned, as {prefix}, {left}: {dropped}")
        });
        let listed =
            allowed.map_or_else(|| denied.into_iter().chain(banned).collect(), |allowed| vec![allowed]);
        (!in_force).then(everything_passes).into_iter().chain(listed).collect()
    }
}

impl fmt::Display for BucketText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = self.before_rules();
        lines.iter().try_for_each(|line| writeln!(f, "{line}"))?;
        if !lines.is_empty() {
            writeln!(f)?;
        }
        self.buckets(f)?;
        let AnsweredBuckets { address, spared_by, .. } = self.0;
        spared_by.iter().try_for_each(|SparingRule { rule, key }| {
            let why = match key {
                SparingKey::Match => "its `match` is about others",
                SparingKey::Except => "its `except` names it",
            };
            writeln!(f, "rule `{rule}` never judges {address}: {why}")
        })
    }
}

impl BucketText<'_> {
    fn buckets(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AnsweredBuckets { buckets, spared_by, .. } = self.0;
        match (buckets.is_empty(), spared_by.is_empty()) {
            (true, true) => return writeln!(f, "no rule has a bucket for a source alone"),
            (true, false) => return Ok(()),
            (false, _) => {}
        }
        let mut table =
            TextTable::new(["RULE", "KEY", "REMAINING", "LIMIT", "UNIT", "RETRY_AFTER", "RESET_AFTER"]);
        for bucket in buckets {
            table.row([
                bucket.rule.clone(),
                bucket.key.clone(),
                bucket.remaining.to_string(),
                bucket.limit.to_string(),
                bucket.unit.clone(),
                format!("{:.3}s", bucket.retry_after),
                format!("{:.3}s", bucket.reset_after),
            ]);
        }
        write!(f, "{table}")?;
        if spared_by.is_empty() { Ok(()) } else { writeln!(f) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_one_address() {
        assert!(address("192.0.2.7").is_ok() && address("2001:db8::7").is_ok());
        for network in ["192.0.2.0/24", "192.0.2.7/24", "2001:db8::/64"] {
            assert!(address(network).unwrap_err().starts_with("name one address inside it"), "{network}");
        }
        assert_eq!(address("nobody").unwrap_err(), "invalid IP address syntax");
    }

    #[test]
    fn what_comes_before_the_rules_is_said_first() {
        let ban = BanStatus {
            prefix: "192.0.2.0/24".to_owned(),
            seconds_left: Some(90),
            until: None,
            made: None,
            by: "command".to_owned(),
            rule: None,
            reason: None,
            allowed: None,
            in_force: true,
            longer: false,
        };
        let shown_if = |in_force, allowed: Option<&str>, denied: Option<&str>, banned: Option<&BanStatus>| {
            let [allowed, denied] = [allowed, denied].map(|prefix| prefix.map(str::to_owned));
            let address = "192.0.2.7".parse().unwrap();
            let banned = banned.cloned();
            let answered = AnsweredBuckets {
                address,
                reset: false,
                in_force,
                allowed,
                denied,
                banned,
                buckets: Vec::new(),
                spared_by: Vec::new(),
            };
            BucketText(&answered).to_string()
        };
        let shown = |allowed: Option<&str>, denied: Option<&str>, banned: Option<&BanStatus>| {
            shown_if(true, allowed, denied, banned)
        };
        let (list, end) = ("192.0.2.0/25", "\nno rule has a bucket for a source alone\n");
        let denied = "192.0.2.7 is on the deny list, as 192.0.2.0/25: all its packets are dropped\n";
        let banned = "192.0.2.7 is banned, as 192.0.2.0/24, for 1m30s: all its packets are dropped\n";
        assert_eq!(shown(None, None, None), &end[1..]);
        assert_eq!(shown(None, None, Some(&ban)), format!("{banned}{end}"));
        assert_eq!(shown(None, Some(list), Some(&ban)), format!("{denied}{banned}{end}"));
        let allowed = "192.0.2.7 is on the allow list, as 192.0.2.0/25: all its packets pass\n";
        assert_eq!(shown(Some(list), Some(list), Some(&ban)), format!("{allowed}{end}"));
        let passes = everything_passes();
        let would = |text: &str| text.replace("are dropped", "would be dropped");
        assert_eq!(shown_if(false, None, None, None), format!("{passes}\n{end}"));
        let expected = format!("{passes}\n{}{}{end}", would(denied), would(banned));
        assert_eq!(shown_if(false, None, Some(list), Some(&ban)), expected);
    }
}
