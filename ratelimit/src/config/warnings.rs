//! What a configuration may say, but probably does not mean to.

use super::{
    error::Report,
    raw::{RawConfig, RawNetwork},
};
use crate::policy::{Network, Policy};

/// New sources in a second that an ordinary host on the internet meets, scans and all; a table that does not even
/// withstand these forgets clients in ordinary use.
const ORDINARY_NEW_SOURCES: u64 = 100;

/// Notes what is worth a look. The policy is only complete if the report is clean.
pub fn find(raw: &RawConfig, policy: &Policy, report: &mut Report) {
    if let (Some(raw), Some(network), true) = (&raw.network, &policy.network, report.is_clean()) {
        find_in_network(raw, network, report);
    }
}

fn find_in_network(raw: &RawNetwork, network: &Network, report: &mut Report) {
    if network.rules.is_empty() {
        report.warning(&raw.at, "no rules: every packet will pass");
    }
    for text in &raw.allow {
        if text.text.ends_with("/0") {
            report.warning(&text.at, "allows every source of its family: no rule will limit them");
        }
    }
    // In a clean report each rule of the file has become one of the policy.
    for (raw, rule) in raw.rules.iter().zip(&network.rules) {
        let withstands = network.new_sources_per_second(rule);
        if withstands < ORDINARY_NEW_SOURCES {
            let message = format!(
                "one packet keeps a bucket for so long that {withstands} new sources a second fill half the table; \
                 take a larger table_size, a shorter time or token_bucket"
            );
            report.warning(&raw.at, message);
        }
    }
}
