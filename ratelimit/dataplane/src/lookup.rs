//! One source's buckets, for people who ask about it.

use std::net::IpAddr;

use ratelimit_common::{
    algorithm,
    packet::{Address, Ports},
    table::Key,
    time::{Nanos, Now},
    wire::{self, TAKES_BYTES},
};
use serde::{Deserialize, Serialize};

use super::{Dataplane, Error, RuleInForce};
use crate::policy::Prefix;

/// A bucket as outputs have it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BucketStatus {
    /// The rule.
    pub rule: String,
    /// Whose it is: a prefix, or `all`.
    pub key: String,
    /// `packets` or `bytes`.
    pub unit: String,
    /// The most at once: the burst, or what a window holds.
    pub limit: u64,
    /// What is left of it.
    pub remaining: u64,
    /// For how many seconds the next packet is denied still; 0 if it is not.
    pub retry_after: f64,
    /// In how many seconds nothing of it will be used any more.
    pub reset_after: f64,
    /// Whether there is a bucket: without one all is left.
    pub in_use: bool,
}

impl Dataplane {
    /// The buckets that packets of a source are charged to, as far as its address alone tells, under the rules whose
    /// names are meant; they are made as good as new if `reset`, and nothing counts towards a ban any more.
    ///
    /// # Errors
    /// The clock can't be read.
    pub fn buckets_of(
        &self,
        source: IpAddr,
        is_meant: impl Fn(&str) -> bool,
        reset: bool,
    ) -> Result<Vec<BucketStatus>, Error> {
        let now = self.now()?;
        let limits = &self.compiled().limits;
        let named = limits.iter().filter_map(|limit| Some((limit, self.rule_of(limit)?)));
        let asked = named.filter(|(_, named)| is_meant(&named.name));
        Ok(asked.filter_map(|(limit, named)| self.bucket_of(source, limit, named, now, reset)).collect())
    }

    /// The rule whose packets a limit counts.
    fn rule_of(&self, limit: &wire::CompiledRule) -> Option<&RuleInForce> {
        let is_part = limit.group != 0;
        self.rules().iter().find(|rule| is_part && rule.number == limit.counters)
    }

    fn bucket_of(
        &self,
        source: IpAddr,
        limit: &wire::CompiledRule,
        rule: &RuleInForce,
        now: Now,
        reset: bool,
    ) -> Option<BucketStatus> {
        let address = Address::from(source);
        let mask = &limit.masks[usize::from(source.is_ipv6())];
        let bits = mask.source[0].count_ones() + mask.source[1].count_ones();
        let is_global = rule.key == "global";
        if mask.destination != [0; 2] || mask.ports != 0 || (bits == 0 && !is_global) {
            return None;
        }
        let key = self.key(address, limit);
        if reset {
            self.buckets().reset(&key, now);
            self.forget_denied(address, limit, now);
        }
        let state = self.buckets().state(&key).filter(|state| !algorithm::is_idle(*state, now));
        let fresh = algorithm::fresh(now);
        let (decision, _) = algorithm::decide(&limit.limit, state.unwrap_or(fresh), now, 0);
        let seconds = |nanos: Nanos| nanos.0 as f64 / Nanos::SECOND.0 as f64;
        Some(BucketStatus {
            rule: rule.name.clone(),
            key: if is_global { "all".to_owned() } else { prefix(source, bits)?.to_string() },
            unit: if limit.takes == TAKES_BYTES { "bytes" } else { "packets" }.to_owned(),
            limit: decision.limit(),
            remaining: decision.remaining(),
            retry_after: decision.retry_after().map_or(0.0, seconds),
            reset_after: seconds(decision.reset_after()),
            in_use: state.is_some(),
        })
    }

    /// Forgets what has been counted of a source on the way to a ban.
    fn forget_denied(&self, source: Address, limit: &wire::CompiledRule, now: Now) {
        if let Some(denied) = self.compiled().limits.get(limit.ban as usize).filter(|_| limit.ban != 0) {
            self.buckets().reset(&self.key(source, denied), now);
        }
    }

    fn key(&self, source: Address, limit: &wire::CompiledRule) -> Key {
        let secret = &self.compiled().globals.secret;
        let mask = &limit.masks[source.family as usize];
        mask.key(secret, source.bits, [0; 2], Ports(0))
    }
}

fn prefix(address: IpAddr, bits: u32) -> Option<Prefix> {
    Prefix::around(address, u8::try_from(bits).ok()?)
}
