//! What a configuration may say, but probably does not mean to.

mod asking;
mod ban;
mod except;

use ratelimit_common::limit::{Algorithm, LimitSpec, Refill};

use super::{
    error::Report,
    limit::LimitOption,
    raw::{RawApplication, RawConfig, RawNetwork, RawPrefix, RawProxy, RawRule},
};
use crate::policy::{
    Application, IcmpType, IpVersion, LimitUnit, Network, PacketKey, PacketRule, Policy, Prefix,
    application::{ListenAddress, ProxyListener, ProxyProtocol},
};

/// New sources in a second that an ordinary host on the internet meets, scans and all; a table that does not even
/// withstand these forgets clients in ordinary use.
const ORDINARY_NEW_SOURCES: u64 = 100;

/// Wire bytes of the largest frame on an ordinary link.
const FULL_FRAME: u64 = 1514;

/// Notes what is worth a look. The policy is only complete if the report is clean.
pub fn find(raw: &RawConfig, policy: &Policy, report: &mut Report) {
    if let (Some(raw), Some(network), true) = (&raw.network, &policy.network, report.is_clean()) {
        find_in_network(raw, network, report);
    }
    if let (Some(raw), Some(application), true) = (&raw.application, &policy.application, report.is_clean()) {
        find_in_application(raw, application, report);
    }
}

fn find_in_application(raw: &RawApplication, application: &Application, report: &mut Report) {
    if application.rules.limits() == 0 {
        report.warning(&raw.at, "no rules: every request will pass");
    }
    // In a clean report each item of the file has become one of the policy.
    for (raw, made) in raw.proxy.iter().zip(&application.proxy) {
        find_in_proxy(raw, made, application, report);
    }
    if let Some((raw, auth)) = raw.auth.as_ref().zip(application.auth.as_ref()) {
        asking::find(&raw.asks, &auth.asks, &application.rules, application.trusted_hops == 0, report);
    }
}

fn find_in_proxy(raw: &RawProxy, made: &ProxyListener, application: &Application, report: &mut Report) {
    match raw.asks.as_ref().zip(made.asks.as_ref()) {
        Some((raw, asks)) => asking::find(raw, asks, &application.rules, false, report),
        None => report.warning(&raw.at, "no `domain` and no `descriptors`: every request is passed on"),
    }
    let is_open = matches!(made.listener.address, ListenAddress::Tcp(address) if !address.ip().is_loopback());
    if let (Some(texts), ProxyProtocol::Always, true) = (&raw.proxy_protocol, &made.proxy_protocol, is_open) {
        let message = "anybody who can connect can name any client: write the networks of the balancers instead, such as \
                       `proxy_protocol: [10.0.0.0/8]`";
        report.warning(&texts.at, message);
    }
}

fn find_in_network(raw: &RawNetwork, network: &Network, report: &mut Report) {
    if network.rules.is_empty() {
        report.warning(&raw.at, "no rules: every packet will pass");
    }
    let whole = |item: &&RawPrefix| matches!(item, RawPrefix::Inline(text) if text.text.ends_with("/0"));
    for text in raw.allow.iter().filter(whole).map(RawPrefix::text) {
        report.warning(&text.at, "allows every source of its family: no rule will limit them");
    }
    for text in raw.deny.iter().filter(whole).map(RawPrefix::text) {
        report.warning(&text.at, "drops every packet of its family, except from sources that `allow` names");
    }
    find_in_deny(raw, network, report);
    // In a clean report each rule of the file has become one of the policy.
    for (raw, rule) in raw.rules.iter().zip(&network.rules) {
        find_in_match(raw, rule, report);
        except::find(raw, rule, report);
        find_unreachable(raw, network, rule, report);
        ban::find(raw, rule, report);
        find_in_limit(raw, rule, report);
        find_in_key(raw, rule, report);
        find_in_table(raw, network, rule, report);
    }
}

fn find_in_match(raw: &RawRule, rule: &PacketRule, report: &mut Report) {
    let lists = raw.matches.iter().flat_map(|raw| [&raw.source, &raw.destination]);
    for (raw, prefixes) in lists.zip([&rule.matches.sources, &rule.matches.destinations]) {
        if let (Some(raw), Some([])) = (raw, prefixes.as_deref()) {
            report.warning(&raw.at, "has no prefix, because its files are empty: the rule matches no packet");
        }
    }
    if let Some(matches) = raw.matches.as_ref().filter(|matches| matches.is_empty) {
        report.warning(&matches.at, "is empty, so the rule is about every packet, as it is without `match`");
    }
}

/// What `allow` names is asked first.
fn find_in_deny(raw: &RawNetwork, network: &Network, report: &mut Report) {
    for item in &raw.deny {
        let RawPrefix::Inline(text) = item else { continue };
        let around = text.text.parse().ok().and_then(|denied| network.allow.around(&denied));
        if let Some(allowed) = around {
            report.warning(
                &text.at,
                format!("is inside {allowed}, which `allow` names: its packets are not dropped"),
            );
        }
    }
}

/// Conditions that only packets fulfil that never come to the rules, or none.
fn find_unreachable(raw: &RawRule, network: &Network, rule: &PacketRule, report: &mut Report) {
    let Some(raw) = &raw.matches else { return };
    let is_listed =
        |source: &Prefix| [&network.allow, &network.deny].iter().any(|list| list.around(source).is_some());
    if let (Some(raw), Some(sources @ [_, ..])) = (&raw.source, rule.matches.sources.as_deref())
        && sources.iter().all(is_listed)
    {
        report.warning(
            &raw.at,
            "`allow` and `deny` name all of it, and they come before the rules: the rule matches no packet",
        );
    }
    let is_discovery = |kind: &IcmpType| kind.version == IpVersion::V6 && (133..=137).contains(&kind.number);
    if let Some(raw) = raw.icmp_type.as_ref().filter(|_| rule.matches.icmp_types.iter().any(is_discovery)) {
        report.warning(
            &raw.at,
            "neighbour discovery (ICMPv6 133 to 137) that is for this host is never limited: this rule \
             is only about such messages that no neighbour has sent, or that this host forwards",
        );
    }
    let is_extension = |protocol: &u8| [0, 43, 44, 60].contains(protocol);
    if let Some(raw) = raw.protocol.as_ref().filter(|_| rule.matches.protocols.iter().any(is_extension)) {
        report.warning(
            &raw.at,
            "0, 43, 44 and 60 are extension headers in IPv6, where the protocol is what comes behind them: no IPv6 packet \
             has one of these as its protocol",
        );
    }
}

fn find_in_limit(raw: &RawRule, rule: &PacketRule, report: &mut Report) {
    let LimitSpec { rate, burst, .. } = *rule.limit.spec();
    let capacity = burst.unwrap_or(rate.amount).get();
    let longest = rule.matches.lengths.iter().map(|lengths| u64::from(*lengths.end())).max();
    let longest = longest.map_or(FULL_FRAME, |longest| longest.min(FULL_FRAME));
    if rule.limit.unit() == LimitUnit::Bytes && capacity < longest {
        let option = if burst.is_some() { LimitOption::Burst } else { LimitOption::Rate };
        let place =
            raw.limit.iter().find(|(given, _)| *given == option).map_or(&raw.at, |(_, text)| &text.at);
        report.warning(
            place,
            format!(
                "{capacity} bytes at once: a packet of {longest} bytes can never pass; take at least {longest}B \
                 as burst, or for a window as rate"
            ),
        );
    }
}

fn find_in_key(raw: &RawRule, rule: &PacketRule, report: &mut Report) {
    let families = rule.key.lengths().map(|lengths| [lengths.ipv4(), lengths.ipv6()]);
    let mut pairs = families.iter().flatten().flat_map(|lengths| lengths.windows(2));
    if let Some([longer, shorter]) = pairs.find(|pair| pair[0].factor == pair[1].factor) {
        let (longer, shorter) = (longer.bits, shorter.bits);
        report.warning(
            &raw.at,
            format!(
                "its key has the same factor for /{longer} and /{shorter}, so the limit of a /{longer} is never \
                 reached before that of the /{shorter} around it"
            ),
        );
    }
}

fn find_in_table(raw: &RawRule, network: &Network, rule: &PacketRule, report: &mut Report) {
    let withstands = network.new_sources_per_second(rule);
    if rule.key != PacketKey::Global && withstands < ORDINARY_NEW_SOURCES {
        let remedy = remedy(rule.limit.spec());
        let message = format!(
            "one packet keeps a bucket for so long that {withstands} new sources a second fill half the table; \
             take a larger table_size, or {remedy}"
        );
        report.warning(&raw.at, message);
    }
}

/// How a packet would keep its bucket for a shorter time.
const fn remedy(limit: &LimitSpec) -> &'static str {
    match (limit.algorithm, limit.refill) {
        (Algorithm::TokenBucket, Refill::Continuous) | (Algorithm::LeakyBucket, _) => "a higher rate",
        (Algorithm::TokenBucket, Refill::Interval) => "a shorter time or `refill: continuous`",
        (Algorithm::FixedWindow | Algorithm::SlidingWindowLog | Algorithm::SlidingWindowCounter, _) => {
            "a shorter time or token_bucket"
        }
    }
}
