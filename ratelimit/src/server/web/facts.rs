//! What a request is that a proxy shows: nginx (`auth_request`), Traefik (ForwardAuth) and Caddy (`forward_auth`) send
//! a request of their own, with the one that it is about in headers.

use std::{borrow::Cow, net::IpAddr};

use http::{HeaderMap, Method, Uri};

use super::super::client;
use crate::policy::application::Facts;

/// Where proxies put the method, in the order of belief.
const METHOD: [&str; 2] = ["x-forwarded-method", "x-original-method"];
/// Where they put the path with its query.
const TARGET: [&str; 3] = ["x-forwarded-uri", "x-original-uri", "x-original-url"];
/// Where they put the host.
const HOST: [&str; 2] = ["x-forwarded-host", "host"];

/// What a proxy shows.
pub struct Shown<'r> {
    headers: &'r HeaderMap,
    method: &'r Method,
    uri: &'r Uri,
    client: Option<IpAddr>,
}

impl<'r> Shown<'r> {
    /// By a request that came from `peer`.
    pub fn new(request: &'r http::request::Parts, peer: Option<IpAddr>, trusted_hops: u8) -> Self {
        let client = client::client(&request.headers, peer, trusted_hops);
        Self { headers: &request.headers, method: &request.method, uri: &request.uri, client }
    }

    fn any(&self, names: &[&str]) -> Option<&str> {
        names.iter().find_map(|name| self.header(name))
    }

    /// The path and query that the proxy was asked for.
    fn target(&self) -> Option<&str> {
        let target = self.any(&TARGET)?;
        // `x-original-url` is a whole URL, as ingress-nginx has it.
        let after_scheme =
            target.split_once("://").map(|(_, rest)| rest.find('/').map_or("/", |at| &rest[at..]));
        Some(after_scheme.unwrap_or(target))
    }
}

impl Facts for Shown<'_> {
    fn client_address(&self) -> Option<IpAddr> {
        self.client
    }

    fn method(&self) -> Option<&str> {
        Some(self.any(&METHOD).unwrap_or(self.method.as_str()))
    }

    fn path(&self) -> Option<&str> {
        let target = self.target()?;
        Some(target.split_once('?').map_or(target, |(path, _)| path))
    }

    fn host(&self) -> Option<&str> {
        self.any(&HOST).or_else(|| self.uri.host())
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Of the request that the proxy was asked for, else of that to this server.
    fn query(&self, name: &str) -> Option<Cow<'_, str>> {
        let shown = self.target().and_then(|target| target.split_once('?')).map(|(_, query)| query);
        [shown, self.uri.query()].into_iter().flatten().find_map(|query| parameter(query, name))
    }
}

fn parameter<'q>(query: &'q str, name: &str) -> Option<Cow<'q, str>> {
    form_urlencoded::parse(query.as_bytes()).find_map(|(key, value)| (key == name).then_some(value))
}
