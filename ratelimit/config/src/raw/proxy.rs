//! The shape of `application.proxy`.

use super::{
    application::{RawListener, read_tls},
    asking::{self, RawAsking, RawPath},
};
use crate::{
    error::{At, Report},
    fields::{Field, LocatedText, LocatedTexts, Mapping},
    keys,
};

/// An item of `proxy`.
#[derive(Debug)]
pub struct RawProxy {
    /// Where it stands.
    pub at: At,
    /// `listen` and `tls`
    pub listener: RawListener,
    /// `trusted_hops`
    pub trusted_hops: Option<LocatedText>,
    /// `proxy_protocol`
    pub proxy_protocol: Option<LocatedTexts>,
    /// What is asked about a request, if anything is.
    pub asks: Option<RawAsking>,
    /// `path`, if nothing is asked.
    pub path: Option<RawPath>,
    /// `deny_body`
    pub deny_body: Option<LocatedText>,
    /// `routes`
    pub routes: Vec<RawRoute>,
    /// Where these stand.
    pub at_routes: At,
}

/// An item of `routes`.
#[derive(Debug)]
pub struct RawRoute {
    /// Where it stands.
    pub at: At,
    /// `host`
    pub host: Option<LocatedText>,
    /// `path`
    pub path: Option<LocatedText>,
    /// `upstreams`
    pub upstreams: LocatedTexts,
    /// `balance`
    pub balance: Option<LocatedText>,
    /// `host_header`
    pub host_header: Option<LocatedText>,
    /// `tls.ca`
    pub ca: Option<LocatedText>,
    /// `tls.server_name`
    pub server_name: Option<LocatedText>,
    /// `timeouts.connect`
    pub connect: Option<LocatedText>,
    /// `timeouts.response`
    pub response: Option<LocatedText>,
    /// `timeouts.idle`
    pub idle: Option<LocatedText>,
}

const PROXY: &str = "application.proxy[]";
const ROUTE: &str = "application.proxy[].routes[]";

/// Reads the list.
pub fn read(field: &Field<'_>, report: &mut Report) -> Vec<RawProxy> {
    field.items(report).iter().filter_map(|item| read_listener(item, report)).collect()
}

fn read_listener(field: &Field<'_>, report: &mut Report) -> Option<RawProxy> {
    let map = field.mapping(&keys::names(PROXY), report)?;
    let address = map.required_text("listen", "127.0.0.1:8000", report);
    let tls = match map.get("tls") {
        Some(tls) => Some(read_tls(&tls, &format!("{PROXY}.tls"), report)?),
        None => None,
    };
    let is_limited = ["domain", "descriptors", "client"].iter().any(|key| map.get(key).is_some());
    let routes = map.get("routes");
    if routes.is_none() {
        let message = "missing; add `routes: [{upstreams: [\"http://127.0.0.1:3000\"]}]`";
        report.error(&map.at_of("routes"), message);
    }
    let routes = routes.map(|list| list.items(report)).unwrap_or_default();
    Some(RawProxy {
        at: map.at().clone(),
        trusted_hops: map.text("trusted_hops", report),
        deny_body: map.text("deny_body", report),
        proxy_protocol: map.texts("proxy_protocol", report),
        path: map
            .get("path")
            .filter(|_| !is_limited)
            .and_then(|path| asking::read_path(&path, PROXY, report)),
        asks: is_limited.then(|| asking::read(&map, PROXY, report)),
        routes: routes.iter().filter_map(|route| read_route(route, report)).collect(),
        at_routes: map.at_of("routes"),
        listener: RawListener { address: address?, tls },
    })
}

fn read_route(field: &Field<'_>, report: &mut Report) -> Option<RawRoute> {
    let map = field.mapping(&keys::names(ROUTE), report)?;
    if map.get("upstreams").is_none() && !map.has_misspelled("upstreams") {
        report.error(&map.at_of("upstreams"), "missing; add `upstreams: [\"http://127.0.0.1:3000\"]`");
    }
    let section = |key: &str, report: &mut Report| {
        map.get(key).and_then(|field| field.mapping(&keys::names(&format!("{ROUTE}.{key}")), report))
    };
    let (tls, timeouts) = (section("tls", report), section("timeouts", report));
    let of = |section: &Option<Mapping<'_>>, key: &str, report: &mut Report| {
        section.as_ref().and_then(|section| section.text(key, report))
    };
    Some(RawRoute {
        at: map.at().clone(),
        host: map.text("host", report),
        path: map.text("path", report),
        balance: map.text("balance", report),
        host_header: map.text("host_header", report),
        ca: of(&tls, "ca", report),
        server_name: of(&tls, "server_name", report),
        connect: of(&timeouts, "connect", report),
        response: of(&timeouts, "response", report),
        idle: of(&timeouts, "idle", report),
        upstreams: map.texts("upstreams", report)?,
    })
}
