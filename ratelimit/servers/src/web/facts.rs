//! What a request is that a proxy shows: nginx (`auth_request`), Traefik (ForwardAuth) and Caddy (`forward_auth`) send
//! a request of their own, with the one that it is about in headers.

use std::{borrow::Cow, net::IpAddr};

use http::{HeaderMap, HeaderValue, Method, Uri, header};

use crate::{
    client_address,
    policy::application::{
        FactValue, Facts,
        target::{self, PathForm},
    },
};

/// Where proxies put the method, in the order of belief.
const METHOD: [&str; 2] = ["x-forwarded-method", "x-original-method"];
/// Where they put the path with its query; in the last it is a whole URL, as ingress-nginx has it.
const TARGET: [&str; 3] = ["x-forwarded-uri", "x-original-uri", "x-original-url"];
/// Where they put the host.
const HOST: [&str; 2] = ["x-forwarded-host", "host"];

/// What a proxy shows.
pub struct ForwardedFacts<'r> {
    headers: &'r HeaderMap,
    method: &'r Method,
    uri: &'r Uri,
    client: Option<IpAddr>,
    path: PathForm,
}

impl<'r> ForwardedFacts<'r> {
    /// By a request that came from `peer`.
    pub fn new(
        request: &'r http::request::Parts,
        peer: Option<IpAddr>,
        trusted_hops: u8,
        path: PathForm,
    ) -> Self {
        let client = client_address::client(&request.headers, peer, trusted_hops);
        Self { headers: &request.headers, method: &request.method, uri: &request.uri, client, path }
    }

    fn any(&self, names: &[&str]) -> Option<&'r [u8]> {
        names.iter().find_map(|name| self.headers.get(*name)).map(HeaderValue::as_bytes)
    }

    /// The path and query that the proxy was asked for.
    fn target(&self) -> Option<&'r [u8]> {
        self.any(&TARGET)
    }
}

impl<'r> Facts for ForwardedFacts<'r> {
    fn client_address(&self) -> Option<IpAddr> {
        self.client
    }

    fn method(&self) -> Option<Cow<'_, str>> {
        Some(self.any(&METHOD).map_or_else(|| self.method.as_str().into(), String::from_utf8_lossy))
    }

    fn path(&self) -> Option<Cow<'_, str>> {
        Some(target::path(self.target()?, self.path).into())
    }

    fn host(&self) -> Option<Cow<'_, str>> {
        let host = self.any(&HOST).map(String::from_utf8_lossy).or_else(|| self.uri.host().map(Cow::from))?;
        Some(target::host(&host).into())
    }

    fn header(&self, name: &str) -> FactValue<'_> {
        FactValue::of_header(name, self.headers.get_all(name).iter().map(HeaderValue::as_bytes))
    }

    fn cookie(&self, name: &str) -> FactValue<'_> {
        FactValue::of_cookie(self.headers.get_all(header::COOKIE).iter().map(HeaderValue::as_bytes), name)
    }

    /// A parameter of the request that the proxy was asked for, else of the one to this server.
    fn query(&self, name: &str) -> FactValue<'_> {
        let own = self.uri.path_and_query().map(|target| target.as_str().as_bytes());
        let of = |target: Option<&'r [u8]>| {
            target.map_or(FactValue::Absent, |target| target::parameter(target, name))
        };
        match of(self.target()) {
            FactValue::Absent => of(own),
            value => value,
        }
    }
}
