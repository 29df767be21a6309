//! Clients that go on exceeding limits of requests whose rules ban them: counted here, and handed over to who drops
//! packets.
//!
//! It is asked only about requests that are denied. What it keeps is bounded: counts are in a table that forgets those
//! first that have least, and bans that nobody has taken yet are one for each prefix, at most so many.

mod queue;

use std::{
    collections::BTreeMap,
    net::IpAddr,
    num::NonZeroU64,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use arc_swap::{ArcSwap, ArcSwapOption};
use smallvec::SmallVec;
use tracing::error;

pub use self::queue::{BanOrder, BanQueue};
use crate::{
    application::{Code, Descriptor, Label, Request, Response, RuleIdentity, Status},
    limiter::{Algorithm, LimitSpec, Limiter, LimiterBuilder, Rate, Rule},
    policy::{
        BanTerms, Prefix, PrefixList,
        application::{DescriptorRule, RequestBan, RuleSet},
    },
};

/// Clients that are counted at once.
const MOST_CLIENTS: u64 = 100_000;

/// Rules whose bans are counted apart.
const MOST_LABELS: usize = 10_000;

/// Who is known to have sent a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// Who is connected to a proxy of ours, or whom PROXY protocol names.
    Client(IpAddr),
    /// Whom a gateway on this host names in an entry.
    Gateway,
    /// Nobody who could be believed.
    Unknown,
}

impl Sender {
    /// The sender of a question from `peer`: who has no address is at a Unix socket.
    #[must_use]
    pub fn of_question(peer: Option<IpAddr>) -> Self {
        match peer {
            Some(peer) if !peer.to_canonical().is_loopback() => Self::Unknown,
            _ => Self::Gateway,
        }
    }
}

/// What has been counted.
#[derive(Debug, Default)]
pub struct OffenceCounts {
    /// Bans that were asked for.
    pub asked: AtomicU64,
    /// The same by their rules.
    asked_by: Mutex<BTreeMap<Label, u64>>,
    /// Those that there was no room for.
    pub lost: AtomicU64,
    /// Denied requests of those who are never banned.
    pub spared: AtomicU64,
    /// Denied requests whose sender could not be told.
    pub nameless: AtomicU64,
}

impl OffenceCounts {
    /// Bans that were asked for by rules that still ban or have banned.
    #[must_use]
    pub fn asked_by(&self) -> BTreeMap<Label, u64> {
        self.asked_by.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn count_asked(&self, rule: &RuleIdentity) {
        self.asked.fetch_add(1, Relaxed);
        let mut asked_by = self.asked_by.lock().unwrap_or_else(PoisonError::into_inner);
        let label = Label { domain: rule.domain.clone(), key: rule.key.clone() };
        // Reloads with rules of ever other names: counters may begin anew.
        if asked_by.len() >= MOST_LABELS && !asked_by.contains_key(&label) {
            asked_by.clear();
        }
        *asked_by.entry(label).or_default() += 1;
    }
}

/// Counts what rules deny that ban.
#[derive(Debug, Default)]
pub struct Offenders {
    /// `None` while no rule bans.
    limiter: ArcSwapOption<Limiter>,
    never: ArcSwap<PrefixList>,
    queue: Arc<BanQueue>,
    counts: OffenceCounts,
}

impl Offenders {
    /// From now on by the bans of these rules. Those who are on the way to a ban whose terms stay are so still.
    pub fn reload(&self, rules: &RuleSet) {
        let mut terms = Vec::new();
        rules.domains().iter().for_each(|domain| add_terms(&domain.descriptors, &mut terms));
        let limits = terms.iter().filter_map(|terms| Some(Rule::new(name(terms), limit(terms)?)));
        let made = match self.limiter.load().as_deref() {
            _ if terms.is_empty() => Ok(None),
            Some(before) => before.with_rules(limits).map(Some),
            None => {
                let builder = Limiter::builder().max_keys(MOST_CLIENTS);
                limits.fold(builder, LimiterBuilder::rule).build().map(Some)
            }
        };
        match made {
            Ok(limiter) => self.limiter.store(limiter.map(Arc::new)),
            Err(error) => error!("bans of rules on requests stay as they were: {error}"),
        }
    }

    /// Nobody on this list is banned, whatever they do.
    pub fn spare(&self, never: PrefixList) {
        self.never.store(Arc::new(never));
    }

    /// The bans to make.
    #[must_use]
    pub const fn queue(&self) -> &Arc<BanQueue> {
        &self.queue
    }

    /// What has been counted.
    #[must_use]
    pub const fn counts(&self) -> &OffenceCounts {
        &self.counts
    }

    /// Counts what a request was denied by, if its rule bans.
    pub fn note(&self, request: &Request, response: &Response, sender: Sender) {
        if response.allowed() {
            return;
        }
        let mut counted: SmallVec<[*const RuleIdentity; 4]> = SmallVec::new();
        for (descriptor, status) in request.descriptors.iter().zip(&response.statuses) {
            let Some((rule, ban)) = banning(status) else { continue };
            // A request with several descriptors under one rule is one denial.
            if !counted.contains(&Arc::as_ptr(rule)) {
                counted.push(Arc::as_ptr(rule));
                self.count(rule, ban, descriptor, sender);
            }
        }
    }

    fn count(&self, rule: &RuleIdentity, ban: &RequestBan, descriptor: &Descriptor, sender: Sender) {
        let Some(prefix) = whom(ban, descriptor, sender) else {
            self.counts.nameless.fetch_add(1, Relaxed);
            return;
        };
        if is_never_banned(prefix.address()) || self.never.load().meeting(&prefix).is_some() {
            self.counts.spared.fetch_add(1, Relaxed);
        } else if self.exceeds(rule, &ban.terms, prefix) {
            let order = BanOrder { prefix, terms: ban.terms, rule: format!("{}.{}", rule.domain, rule.key) };
            if self.queue.push(order) {
                self.counts.count_asked(rule);
            } else {
                self.counts.lost.fetch_add(1, Relaxed);
            }
        }
    }

    /// Whether this denial is one too many.
    fn exceeds(&self, rule: &RuleIdentity, terms: &BanTerms, prefix: Prefix) -> bool {
        if terms.after.get() == 1 {
            return true;
        }
        let limiter = self.limiter.load();
        let Some(limiter) = limiter.as_deref() else { return false };
        let Some(index) = limiter.index_of(&name(terms)) else { return false };
        let key = (&*rule.domain, &*rule.key, prefix);
        let ask = limiter.ask(index, &key, 1);
        let exceeds = ask.is_some_and(|ask| !limiter.check_each(&[ask]).allowed());
        if exceeds && let Some(all) = limiter.ask(index, &key, terms.after.get() - 1) {
            // Whoever is let go, or whose ban has ended, is counted from nothing.
            limiter.refund_each(&[all]);
        }
        exceeds
    }
}

/// The rule that a status is denied by, if it bans.
fn banning(status: &Status) -> Option<(&Arc<RuleIdentity>, &RequestBan)> {
    let rule = status.rule.as_ref().filter(|_| status.code == Code::OverLimit)?;
    Some((rule, rule.ban.as_deref()?))
}

fn add_terms(rules: &[DescriptorRule], terms: &mut Vec<BanTerms>) {
    for rule in rules {
        let ban = rule.limit.as_ref().and_then(|limit| limit.ban.as_ref());
        if let Some(ban) = ban.filter(|ban| !terms.iter().any(|known| name(known) == name(&ban.terms))) {
            terms.push(ban.terms);
        }
        add_terms(&rule.children, terms);
    }
}

/// What is counted together: how many in which time.
fn name(terms: &BanTerms) -> String {
    format!("{}/{}", terms.after, terms.within.0)
}

/// What one denial less may use.
fn limit(terms: &BanTerms) -> Option<LimitSpec> {
    let amount = NonZeroU64::new(u64::from(terms.after.get()).checked_sub(1)?)?;
    Some(LimitSpec::new(Algorithm::SlidingWindowCounter, Rate { amount, per: terms.within }))
}

/// Whom a ban is to be of; `None` if nobody who could be believed says it.
fn whom(ban: &RequestBan, descriptor: &Descriptor, sender: Sender) -> Option<Prefix> {
    let known = match (&ban.source_entry, sender) {
        (None, Sender::Client(address)) => Prefix::from(address.to_canonical()),
        (Some(entry), Sender::Gateway) => {
            let mut values = descriptor.entries.iter().filter(|(key, _)| key == entry);
            let (_, value) = values.next()?;
            // Which of several is the client's nobody says.
            if values.next().is_some() {
                return None;
            }
            parse(value)?
        }
        _ => return None,
    };
    let bits = if known.address().is_ipv4() { ban.ipv4 } else { ban.ipv6 };
    // A longer prefix would be somebody else's just as well.
    Prefix::around(known.address(), bits).filter(|_| bits <= known.len())
}

/// An address, or a network as `{client_address/24/56}` makes it.
fn parse(value: &str) -> Option<Prefix> {
    let address = value.parse::<IpAddr>().map(|address| Prefix::from(address.to_canonical()));
    address.ok().or_else(|| value.parse().ok())
}

/// Addresses of this host, and those that no packet from outside has.
fn is_never_banned(address: IpAddr) -> bool {
    address.is_loopback() || address.is_unspecified() || address.is_multicast()
}

#[cfg(test)]
mod tests;
