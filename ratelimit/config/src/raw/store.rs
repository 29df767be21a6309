//! The shape of `application.store`.

use super::application::texts;
use crate::{
    error::{At, Report},
    fields::{Field, LocatedText, LocatedTexts},
    keys,
};

/// `store`
#[derive(Debug, Default)]
pub struct RawStore {
    /// The word by itself.
    pub word: Option<LocatedText>,
    /// `memory.max_keys`
    pub max_keys: Option<LocatedText>,
    /// `memory.state_file`
    pub state_file: Option<LocatedText>,
    /// `memory.save_interval`
    pub save_interval: Option<LocatedText>,
    /// `redis`
    pub redis: Option<RawRedis>,
}

/// `redis`
#[derive(Debug)]
pub struct RawRedis {
    /// `url`
    pub url: Option<LocatedTexts>,
    /// Keys whose values are a single word or number, as far as they are given.
    pub texts: Vec<(&'static str, LocatedText)>,
    /// Those of `tls`, if it is there.
    pub tls: Option<(At, Vec<(&'static str, LocatedText)>)>,
}

/// Keys with a single value.
const TEXTS: [&str; 10] = [
    "cluster",
    "sentinel",
    "username",
    "password_file",
    "sentinel_username",
    "sentinel_password_file",
    "prefix",
    "shards",
    "timeout",
    "local_share",
];

/// Reads `store`.
pub fn read(field: &Field<'_>, report: &mut Report) -> Option<RawStore> {
    if !field.is_mapping() {
        return Some(RawStore { word: field.text(report), ..RawStore::default() });
    }
    let store = field.mapping(&keys::names("application.store"), report)?;
    let (memory, redis) = (store.get("memory"), store.get("redis"));
    let memory = memory.and_then(|memory| {
        let memory = memory.mapping(&keys::names("application.store.memory"), report)?;
        Some(["max_keys", "state_file", "save_interval"].map(|key| memory.text(key, report)))
    });
    let [max_keys, state_file, save_interval] = memory.unwrap_or_default();
    let redis = redis.and_then(|redis| read_redis(&redis, report));
    Some(RawStore { word: None, max_keys, state_file, save_interval, redis })
}

fn read_redis(field: &Field<'_>, report: &mut Report) -> Option<RawRedis> {
    let redis = field.mapping(&keys::names("application.store.redis"), report)?;
    if redis.get("url").is_none() && !redis.has_misspelled("url") {
        report.error(&redis.at_of("url"), "missing; add `url: redis://127.0.0.1:6379`");
    }
    let tls = redis.get("tls").and_then(|tls| {
        let known = keys::names("application.store.redis.tls");
        Some((tls.at().clone(), texts(&tls.mapping(&known, report)?, &known, report)))
    });
    let (url, texts) = (redis.texts("url", report), texts(&redis, &TEXTS, report));
    Some(RawRedis { url, texts, tls })
}
