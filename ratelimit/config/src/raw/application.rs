//! The shape of `application`.

use super::{
    asking::{self, RawAsking},
    proxy::{self, RawProxy},
    store::{self, RawStore},
};
use crate::{
    error::{At, Report},
    fields::{Field, LocatedText, LocatedTexts, Mapping},
    keys,
};

/// `application`
#[derive(Debug)]
pub struct RawApplication {
    /// Where it stands.
    pub at: At,
    /// `rules`
    pub rules: Option<LocatedTexts>,
    /// Keys whose values are a single word or number, as far as they are given.
    pub texts: Vec<(&'static str, LocatedText)>,
    /// Those of `headers`.
    pub headers: Vec<(&'static str, LocatedText)>,
    /// `auth`
    pub auth: Option<RawAuth>,
    /// `store`
    pub store: RawStore,
    /// `listen.grpc`
    pub grpc: Vec<RawListener>,
    /// `listen.http`
    pub http: Vec<RawListener>,
    /// `proxy`
    pub proxy: Vec<RawProxy>,
}

impl RawApplication {
    /// All sockets that it names: those of `listen`, and those of `proxy`.
    pub fn listeners(&self) -> impl Iterator<Item = &RawListener> {
        self.grpc.iter().chain(&self.http).chain(self.proxy.iter().map(|proxy| &proxy.listener))
    }
}

/// `auth`
#[derive(Debug)]
pub struct RawAuth {
    /// What is asked.
    pub asks: RawAsking,
    /// `deny_status`
    pub deny_status: Option<LocatedText>,
    /// `deny_body`
    pub deny_body: Option<LocatedText>,
}

/// An item of `listen.grpc` or `listen.http`.
#[derive(Debug)]
pub struct RawListener {
    /// The item, or its `address`.
    pub address: LocatedText,
    /// `tls`
    pub tls: Option<RawTls>,
}

/// `tls`
#[derive(Debug)]
pub struct RawTls {
    /// `cert`
    pub cert: LocatedText,
    /// `key`
    pub key: LocatedText,
    /// `client_ca`
    pub client_ca: Option<LocatedText>,
}

/// Keys with a single value.
const TEXTS: [&str; 7] = [
    "merge_domains",
    "shadow_mode",
    "quota_mode",
    "near_limit_ratio",
    "trusted_hops",
    "on_store_error",
    "consistency",
];

/// Reads `application`.
pub fn read(field: &Field<'_>, report: &mut Report) -> Option<RawApplication> {
    let map = field.mapping(&keys::names("application"), report)?;
    let headers = map.get("headers").and_then(|headers| {
        let known = keys::names("application.headers");
        Some(texts(&headers.mapping(&known, report)?, &known, report))
    });
    let listen = map.get("listen").and_then(|listen| {
        let listen = listen.mapping(&keys::names("application.listen"), report)?;
        Some((listeners(&listen, "grpc", report), listeners(&listen, "http", report)))
    });
    let (grpc, http) = listen.unwrap_or_default();
    Some(RawApplication {
        at: map.at().clone(),
        rules: map.texts("rules", report),
        texts: texts(&map, &TEXTS, report),
        headers: headers.unwrap_or_default(),
        auth: map.get("auth").and_then(|auth| read_auth(&auth, report)),
        store: map.get("store").and_then(|store| store::read(&store, report)).unwrap_or_default(),
        grpc,
        http,
        proxy: map.get("proxy").map(|list| proxy::read(&list, report)).unwrap_or_default(),
    })
}

pub(super) fn texts(
    map: &Mapping<'_>,
    keys: &[&'static str],
    report: &mut Report,
) -> Vec<(&'static str, LocatedText)> {
    keys.iter().filter_map(|key| Some((*key, map.text(key, report)?))).collect()
}

fn read_auth(field: &Field<'_>, report: &mut Report) -> Option<RawAuth> {
    let auth = field.mapping(&keys::names("application.auth"), report)?;
    let asks = asking::read(&auth, "application.auth", report);
    let (deny_status, deny_body) = (auth.text("deny_status", report), auth.text("deny_body", report));
    Some(RawAuth { asks, deny_status, deny_body })
}

fn listeners(listen: &Mapping<'_>, key: &str, report: &mut Report) -> Vec<RawListener> {
    let Some(field) = listen.get(key) else { return Vec::new() };
    let items = field.list().unwrap_or_else(|| vec![field]);
    items.iter().filter_map(|item| read_listener(item, report)).collect()
}

fn read_listener(field: &Field<'_>, report: &mut Report) -> Option<RawListener> {
    if !field.is_mapping() {
        return Some(RawListener { address: field.text(report)?, tls: None });
    }
    let listener = field.mapping(&keys::names("application.listen.grpc[]"), report)?;
    let address = listener.required_text("address", "127.0.0.1:8081", report);
    let tls = match listener.get("tls") {
        Some(tls) => Some(read_tls(&tls, "application.listen.grpc[].tls", report)?),
        None => None,
    };
    Some(RawListener { address: address?, tls })
}

/// Reads the certificates of a listener, in the mapping at `path`.
pub fn read_tls(field: &Field<'_>, path: &str, report: &mut Report) -> Option<RawTls> {
    let tls = field.mapping(&keys::names(path), report)?;
    let cert = tls.required_text("cert", "cert.pem", report);
    let key = tls.required_text("key", "key.pem", report);
    let client_ca = tls.text("client_ca", report);
    Some(RawTls { cert: cert?, key: key?, client_ca })
}
