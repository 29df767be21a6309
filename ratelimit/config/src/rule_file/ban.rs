//! `ban` of a limit on requests, and whether anybody can be banned by it.

use std::net::SocketAddr;

use ratelimit_common::limit::{Algorithm, LimitSpec, Rate, StateStorage};

use super::keys::read_mapping;
use crate::{
    error::{At, Report, quoted},
    fields::Field,
    policy::{
        PrefixLengths, Range,
        application::{Listen, ListenAddress, ProxyListener, ProxyProtocol, RequestBan, RequestTemplate},
    },
    raw::read_ban,
    validate::{ban_terms, number},
};

/// A ban of a rule of a set of files.
#[derive(Clone, Debug)]
pub struct BanPlace {
    /// Which of the files it stands in.
    pub file: usize,
    /// Whose rule it is of.
    pub domain: String,
    /// Where it stands.
    pub at: At,
    /// What it says.
    pub ban: RequestBan,
}

/// What a daemon has that bans need.
#[derive(Clone, Copy, Debug)]
pub struct BanContext<'c> {
    /// Whether it can drop packets.
    pub has_network: bool,
    /// Where it is asked.
    pub listen: &'c Listen,
    /// What `/v1/auth` asks.
    pub auth: Option<&'c RequestTemplate>,
    /// Who sees clients connect.
    pub proxies: &'c [ProxyPeers],
}

/// What a proxy knows of who is connected to it.
#[derive(Clone, Debug)]
pub struct ProxyPeers {
    /// Whose rules it asks.
    pub domain: String,
    /// Where it listens, for messages.
    pub address: String,
    /// Whether clients connect to it themselves, or PROXY protocol says who does.
    pub are_clients: bool,
}

impl ProxyPeers {
    /// The peers of a listener, if it asks about requests.
    pub fn of(listener: &ProxyListener) -> Option<Self> {
        let domain = listener.asks.as_ref()?.domain.clone();
        let are_clients = listener.trusted_hops == 0 && listener.proxy_protocol != ProxyProtocol::Always;
        Some(Self { domain, address: listener.listener.address.to_string(), are_clients })
    }
}

/// Reads it.
pub fn read(field: &Field<'_>, report: &mut Report) -> Option<RequestBan> {
    let map = read_mapping(field, "descriptors[].rate_limit.ban", report)?;
    let raw = read_ban(&map, report);
    let prefix = map.get("prefix").filter(|prefix| !prefix.is_null());
    let prefix =
        prefix.and_then(|prefix| read_mapping(&prefix, "descriptors[].rate_limit.ban.prefix", report));
    let mut bits = |key: &str, most: u8, default: u8| {
        let text = prefix.as_ref().and_then(|prefix| prefix.text(key, report));
        let bits = text.and_then(|text| number(&text, Range::new(1, most.into()), report));
        bits.and_then(|bits| u8::try_from(bits).ok()).unwrap_or(default)
    };
    let ipv4 = bits("ipv4", PrefixLengths::MOST_IPV4, PrefixLengths::DEFAULT_IPV4);
    let ipv6 = bits("ipv6", PrefixLengths::MOST_IPV6, PrefixLengths::DEFAULT_IPV6);
    let source_entry = map.text("source_entry", report).map(|text| text.text);
    let raw = raw?;
    let terms = ban_terms(&raw, report)?;
    let counted = std::num::NonZeroU64::new(u64::from(terms.after.get()) - 1);
    let limit = counted.map(|amount| Rate { amount, per: terms.within });
    let limit = limit
        .map(|rate| LimitSpec::new(Algorithm::SlidingWindowCounter, rate).build(StateStorage::UserSpace));
    if let Some(Err(error)) = limit {
        report.error(&raw.after.at, error);
    }
    Some(RequestBan { terms, ipv4, ipv6, source_entry })
}

/// Notes bans that can't be, in the reports of the files that they stand in.
pub fn check(bans: &[BanPlace], context: &BanContext<'_>, reports: &mut [Report]) {
    for place in bans {
        let Some(report) = reports.get_mut(place.file) else { continue };
        if !context.has_network {
            let message =
                "nothing drops packets here: add `network` with the interfaces that clients come through";
            report.error(&place.at, message);
            continue;
        }
        match &place.ban.source_entry {
            Some(entry) => check_entry(entry, place, context, report),
            None => check_peers(place, context, report),
        }
        report.warning(
            &place.at,
            "many clients can share one address (carrier-grade NAT, offices), and one of them can get \
             them all banned: keep `for` short, and name in `network.allow` whoever must never be \
             banned",
        );
    }
}

/// Only a gateway on this host can say who the client is.
fn check_entry(entry: &str, place: &BanPlace, context: &BanContext<'_>, report: &mut Report) {
    let mut listeners =
        context.listen.grpc.iter().chain(&context.listen.http).map(|listener| &listener.address);
    let is_local = |address: &ListenAddress| match address {
        ListenAddress::Unix(_) => true,
        ListenAddress::Tcp(address) => can_be_local(address),
    };
    if !listeners.any(is_local) {
        let message = "`source_entry` is believed from a gateway on a Unix socket or a loopback address, and `listen` has none";
        report.error(&place.at, message);
    }
    let Some(asks) = context.auth.filter(|asks| asks.domain == place.domain) else { return };
    let entries = asks.descriptors.iter().flat_map(|descriptor| &descriptor.entries);
    for (_, template) in entries.filter(|(key, _)| key == entry) {
        match template.client_bits(asks.client) {
            None => {
                let message = format!(
                    "clients can write {} of `auth`, so any of them could have others banned: it has to be \
                     `{{client_address}}`",
                    quoted(entry)
                );
                report.error(&place.at, message);
            }
            Some(bits) if bits.ipv4 < place.ban.ipv4 || bits.ipv6 < place.ban.ipv6 => {
                let (ipv4, ipv6) = (place.ban.ipv4, place.ban.ipv6);
                let message = format!(
                    "{} of `auth` has too few bits of the address: write `{{client_address/{ipv4}/{ipv6}}}` there, or \
                     fewer bits under `prefix`",
                    quoted(entry)
                );
                report.error(&place.at, message);
            }
            Some(_) => {}
        }
    }
}

fn can_be_local(address: &SocketAddr) -> bool {
    address.ip().is_loopback() || address.ip().is_unspecified()
}

fn check_peers(place: &BanPlace, context: &BanContext<'_>, report: &mut Report) {
    let mut asking = context.proxies.iter().filter(|proxy| proxy.domain == place.domain).peekable();
    if asking.peek().is_none() {
        let message = "only a proxy of this daemon sees who the client is, and none asks about this \
            domain: name the entry \
                       that a gateway on this host puts the address into, such as `source_entry: client`";
        report.error(&place.at, message);
    }
    for proxy in asking.filter(|proxy| !proxy.are_clients) {
        let message = format!(
            "the peer that is connected to {} is not the client (`trusted_hops`), or can name any client \
             (`proxy_protocol` from everywhere): leave `ban` out, or name the proxies in front under \
             `proxy_protocol`",
            quoted(&proxy.address)
        );
        report.error(&place.at, message);
    }
}
