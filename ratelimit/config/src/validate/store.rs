//! `application.store`: where counts are kept, and what goes together there.

use std::{num::NonZeroU32, path::Path};

use ratelimit_common::time::Nanos;

use super::{
    application::{number, path},
    asking::BOOLEANS,
    parsed, report_duplicate, word,
};
use crate::{
    error::{Report, quoted},
    fields::LocatedText,
    policy::{
        Range,
        application::{Login, MAX_KEYS, RedisAddress, RedisSettings, RedisTls, StoreSettings, Topology},
    },
    rate::parse_time,
    raw::{RawRedis, RawStore},
};

/// Words by themselves.
const STORES: [(&str, bool); 2] = [("memory", true), ("redis", false)];

/// Judges `memory`.
pub fn memory(raw: &RawStore, directory: &Path, report: &mut Report) -> StoreSettings {
    if let (Some(text), Some(false)) = (&raw.word, word(raw.word.as_ref(), &STORES, report)) {
        report.error(&text.at, "needs its address; write `store: {redis: {url: redis://127.0.0.1:6379}}`");
    }
    let max_keys = raw.max_keys.as_ref().and_then(|text| number(text, MAX_KEYS, report));
    let state_file = raw.state_file.as_ref().and_then(|text| path(text, directory, report));
    let defaults = StoreSettings::default();
    let save_interval = raw.save_interval.as_ref().and_then(|text| save_interval(text, raw, report));
    StoreSettings {
        max_keys: max_keys.unwrap_or(defaults.max_keys),
        state_file,
        save_interval: save_interval.unwrap_or(defaults.save_interval),
    }
}

/// What is not saved for longer is as good as not saved.
const LONGEST_SAVE_INTERVAL: Nanos = Nanos::from_secs(86_400);

fn save_interval(text: &LocatedText, raw: &RawStore, report: &mut Report) -> Option<Nanos> {
    if raw.state_file.is_none() {
        report.error(&text.at, "there is no `state_file` that counts could be saved in; name one");
    }
    match parse_time(&text.text) {
        Ok(interval) if interval > LONGEST_SAVE_INTERVAL => {
            report.error(
                &text.at,
                "at most 1 day: a daemon that is killed loses what it has counted \
                since it saved last",
            );
            None
        }
        Ok(interval) => Some(interval),
        Err(error) => {
            report.error(&text.at, error);
            None
        }
    }
}

/// Judges `redis`.
pub fn redis(raw: &RawRedis, directory: &Path, report: &mut Report) -> Option<RedisSettings> {
    let text = |key: &str| raw.texts.iter().find(|(given, _)| *given == key).map(|(_, text)| text);
    let topology = topology(&text, report);
    let addresses = addresses(raw, &topology, report);
    let file = |key: &str, report: &mut Report| text(key).and_then(|text| path(text, directory, report));
    let name = |key: &str, report: &mut Report| text(key).and_then(|text| user(text, report));
    let login = Login { username: name("username", report), password_file: file("password_file", report) };
    let sentinel_login = Login {
        username: name("sentinel_username", report),
        password_file: file("sentinel_password_file", report),
    };
    for key in ["sentinel_username", "sentinel_password_file"] {
        if let (Some(text), Topology::Single | Topology::Cluster) = (text(key), &topology) {
            report.error(
                &text.at,
                "is for sentinels; add `sentinel: NAME`, the master that they watch, or leave it out",
            );
        }
    }
    let range =
        |key: &str, range: Range, report: &mut Report| text(key).and_then(|text| number(text, range, report));
    let shards = range("shards", RedisSettings::SHARDS, report);
    let local_share = range("local_share", RedisSettings::LOCAL_SHARES, report);
    let timeout = text("timeout").and_then(|text| timeout(text, report));
    let prefix = text("prefix").and_then(|text| prefix(text, report));
    let tls = tls(raw, &addresses, directory, report);
    let defaults = RedisSettings::new(addresses.first()?.clone());
    Some(RedisSettings {
        addresses,
        topology,
        login,
        sentinel_login,
        tls,
        prefix: prefix.unwrap_or(defaults.prefix),
        shards: shards.and_then(|shards| u16::try_from(shards).ok()).unwrap_or(defaults.shards),
        timeout: timeout.unwrap_or(defaults.timeout),
        local_share: local_share
            .and_then(|share| NonZeroU32::new(u32::try_from(share).ok()?))
            .unwrap_or(defaults.local_share),
    })
}

fn topology<'r>(text: &impl Fn(&str) -> Option<&'r LocatedText>, report: &mut Report) -> Topology {
    let cluster = word(text("cluster"), &BOOLEANS, report).unwrap_or_default();
    let Some(master) = text("sentinel") else {
        return if cluster { Topology::Cluster } else { Topology::Single };
    };
    if cluster {
        report.error(&master.at, "a cluster has no sentinels; leave out `cluster` or `sentinel`");
    }
    if master.text.is_empty()
        || master.text.contains(|character: char| character.is_control() || character == ' ')
    {
        report
            .error(&master.at, "must be the name of the master that the sentinels watch, such as `mymaster`");
    }
    Topology::Sentinel(master.text.clone())
}

/// Those that can be read. What is said of one address is said of all of them.
fn addresses(raw: &RawRedis, topology: &Topology, report: &mut Report) -> Vec<RedisAddress> {
    let mut addresses: Vec<(RedisAddress, &LocatedText)> = Vec::new();
    for text in raw.url.iter().flat_map(|texts| &texts.items) {
        let Some(address) = parsed::<RedisAddress>(Some(text), report) else { continue };
        let address = with_port(address, topology);
        if let Some((_, earlier)) = addresses.iter().find(|(other, _)| *other == address) {
            report_duplicate(text, earlier, report);
        }
        match (&address, topology) {
            (RedisAddress::Unix(_), Topology::Cluster | Topology::Sentinel(_)) => {
                report.error(
                    &text.at,
                    "a cluster or a sentinel is not reached by a Unix socket; write redis://HOST:PORT",
                );
            }
            (RedisAddress::Tcp { database: 1.., .. }, Topology::Cluster) => {
                report
                    .error(&text.at, "a cluster has one database only; leave out the number behind the port");
            }
            _ => {}
        }
        if let Some((first, _)) = addresses.first()
            && (first.has_tls(), database(first)) != (address.has_tls(), database(&address))
        {
            let message = "all addresses have to be `redis://`, or all `rediss://`, with the same database";
            report.error(&text.at, message);
        }
        addresses.push((address, text));
    }
    if let (Topology::Single, [_, (_, second), ..]) = (topology, &addresses[..]) {
        report.error(
            &second.at,
            "several addresses are for `cluster: true` or `sentinel: NAME`; one server has one",
        );
    }
    if let Some((_, text)) = addresses.get(RedisSettings::MOST_ADDRESSES) {
        report.error(&text.at, format!("at most {} addresses", RedisSettings::MOST_ADDRESSES));
    }
    addresses.into_iter().map(|(address, _)| address).collect()
}

fn database(address: &RedisAddress) -> u32 {
    match address {
        RedisAddress::Tcp { database, .. } => *database,
        RedisAddress::Unix(_) => 0,
    }
}

fn with_port(address: RedisAddress, topology: &Topology) -> RedisAddress {
    match address {
        RedisAddress::Tcp { host, port: 0, tls, database } => {
            let is_sentinel = matches!(topology, Topology::Sentinel(_));
            let port = if is_sentinel { RedisSettings::SENTINEL_PORT } else { RedisSettings::PORT };
            RedisAddress::Tcp { host, port, tls, database }
        }
        other => other,
    }
}

fn user(text: &LocatedText, report: &mut Report) -> Option<String> {
    if text.text.is_empty() || text.text.contains(char::is_whitespace) {
        report.error(&text.at, "must be the name of a user of the store's ACL, without spaces");
        return None;
    }
    Some(text.text.clone())
}

fn prefix(text: &LocatedText, report: &mut Report) -> Option<String> {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    let length = text.text.len();
    if length == 0 || length > RedisSettings::LONGEST_PREFIX || !text.text.bytes().all(is_good) {
        let most = RedisSettings::LONGEST_PREFIX;
        report.error(&text.at, format!("must be 1 to {most} letters, digits, and `-`, `_`, `.` and `:`"));
        return None;
    }
    Some(text.text.clone())
}

/// A time, in milliseconds as well.
fn timeout(text: &LocatedText, report: &mut Report) -> Option<Nanos> {
    let (least, most) = RedisSettings::TIMEOUTS;
    let millis = text.text.strip_suffix("ms").and_then(|digits| digits.parse::<u32>().ok());
    let time = match millis {
        Some(millis) => Some(Nanos(u64::from(millis) * 1_000_000)),
        None => parse_time(&text.text).ok(),
    };
    let time = time.filter(|time| (least..=most).contains(time));
    if time.is_none() {
        let message = format!("{} is not a time from 1ms to 10s, such as 50ms", quoted(&text.text));
        report.error(&text.at, message);
    }
    time
}

fn tls(raw: &RawRedis, addresses: &[RedisAddress], directory: &Path, report: &mut Report) -> RedisTls {
    let Some((at, texts)) = &raw.tls else { return RedisTls::default() };
    if addresses.iter().any(|address| !address.has_tls()) {
        report.error(at, "TLS is only for addresses that begin with `rediss://`");
    }
    let text = |key: &str| texts.iter().find(|(given, _)| *given == key).map(|(_, text)| text);
    let mut file = |key: &str| text(key).and_then(|text| path(text, directory, report));
    let (ca, cert, key) = (file("ca"), file("cert"), file("key"));
    if text("cert").is_some() != text("key").is_some() {
        report.error(at, "a certificate goes with its key: write both `cert` and `key`, or neither");
    }
    RedisTls { ca, identity: cert.zip(key) }
}
