//! What a listener does with requests, as one configuration says; servers outlive it.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use http::{HeaderName, HeaderValue};
use tokio_rustls::rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{IpAddr as TlsAddress, ServerName},
};

use super::{
    connect::TlsTo,
    upstream::{Upstream, UpstreamGroup},
};
use crate::{
    policy::application::{
        DenyBody, ProxyListener, ProxyRoute, RequestTemplate, Scheme, UpstreamTls, UpstreamUrl,
        target::PathForm,
    },
    tls::{TlsError, roots},
};

/// What a listener does with requests.
#[derive(Debug)]
pub struct RouteTable {
    /// How many proxies in front are trusted.
    pub trusted_hops: u8,
    /// What is asked about a request.
    pub asks: Option<RequestTemplate>,
    /// Headers that it asks about.
    pub judged_headers: Arc<[HeaderName]>,
    /// What a denied request gets to read.
    pub deny_body: Option<DenyBody>,
    /// What is one path and what is another.
    pub path: PathForm,
    /// Where requests go, those first that come before others.
    routes: Vec<Routed>,
}

/// A route and its servers.
#[derive(Debug)]
pub struct Routed {
    /// What is configured.
    pub route: ProxyRoute,
    /// What servers get as `Host`, if not what the client asked for.
    pub host_header: Option<HeaderValue>,
    /// The servers.
    pub group: UpstreamGroup,
}

impl RouteTable {
    /// The route for a host and a path, both in their one form.
    pub fn find(&self, host: &str, path: &str) -> Option<&Routed> {
        self.routes.iter().find(|routed| routed.route.is_for(host, path))
    }
}

/// All servers, each once, by what tells them apart.
#[derive(Debug, Default)]
pub struct Upstreams(Mutex<HashMap<(UpstreamUrl, UpstreamTls), Arc<Upstream>>>);

/// Tables that are to be in force, and the servers that they have.
#[derive(Debug)]
pub struct Fresh {
    /// One for each listener.
    pub tables: Vec<RouteTable>,
    upstreams: HashMap<(UpstreamUrl, UpstreamTls), Arc<Upstream>>,
    trust: Vec<(Arc<Upstream>, Option<TlsTo>)>,
}

impl Upstreams {
    /// All of them, in no order.
    pub fn all(&self) -> Vec<Arc<Upstream>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Makes tables of what is configured. Servers that are known already keep connections and counts.
    ///
    /// # Errors
    /// Certificates to trust can't be read.
    pub fn read(&self, listeners: &[ProxyListener]) -> Result<Fresh, TlsError> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut maker =
            TableBuilder { known, used: HashMap::new(), trusted: HashMap::new(), trust: Vec::new() };
        let tables = listeners.iter().map(|listener| maker.table(listener)).collect::<Result<_, _>>()?;
        Ok(Fresh { tables, upstreams: maker.used, trust: maker.trust })
    }
}

impl Fresh {
    /// Puts the servers in force, and hands out the tables.
    pub fn put_in_force(self, upstreams: &Upstreams) -> Vec<RouteTable> {
        for (upstream, tls) in self.trust {
            upstream.trust(tls);
        }
        *upstreams.0.lock().unwrap_or_else(PoisonError::into_inner) = self.upstreams;
        self.tables
    }
}

struct TableBuilder {
    known: HashMap<(UpstreamUrl, UpstreamTls), Arc<Upstream>>,
    used: HashMap<(UpstreamUrl, UpstreamTls), Arc<Upstream>>,
    trusted: HashMap<Option<PathBuf>, [Arc<ClientConfig>; 2]>,
    trust: Vec<(Arc<Upstream>, Option<TlsTo>)>,
}

impl TableBuilder {
    fn table(&mut self, listener: &ProxyListener) -> Result<RouteTable, TlsError> {
        let routed = listener.routes.iter().map(|route| self.routed(route));
        let mut routes = routed.collect::<Result<Vec<Routed>, _>>()?;
        routes.sort_by_key(|routed| std::cmp::Reverse(routed.route.rank()));
        Ok(RouteTable {
            trusted_hops: listener.trusted_hops,
            asks: listener.asks.clone(),
            judged_headers: listener
                .asks
                .iter()
                .flat_map(RequestTemplate::headers)
                .flat_map(str::parse)
                .collect(),
            deny_body: listener.deny_body.clone(),
            path: listener.path,
            routes,
        })
    }

    fn routed(&mut self, route: &ProxyRoute) -> Result<Routed, TlsError> {
        let upstreams = route.upstreams.iter().map(|url| self.upstream(url, &route.tls));
        let upstreams = upstreams.collect::<Result<_, _>>()?;
        let host_header = route.host_header.as_ref().and_then(|host| HeaderValue::from_str(host).ok());
        Ok(Routed { host_header, group: UpstreamGroup::new(upstreams, route.balance), route: route.clone() })
    }

    fn upstream(&mut self, url: &UpstreamUrl, tls: &UpstreamTls) -> Result<Arc<Upstream>, TlsError> {
        // Without TLS it makes no difference.
        let tls = if url.scheme == Scheme::Https { tls.clone() } else { UpstreamTls::default() };
        let name = (url.clone(), tls);
        if let Some(upstream) = self.used.get(&name) {
            return Ok(Arc::clone(upstream));
        }
        let upstream = self.known.get(&name).cloned().unwrap_or_else(|| Arc::new(Upstream::new(url.clone())));
        let trust = if url.scheme == Scheme::Https { Some(self.tls_to(url, &name.1)?) } else { None };
        self.trust.push((Arc::clone(&upstream), trust));
        self.used.insert(name, Arc::clone(&upstream));
        Ok(upstream)
    }

    fn tls_to(&mut self, url: &UpstreamUrl, tls: &UpstreamTls) -> Result<TlsTo, TlsError> {
        let name = tls.server_name.as_ref().unwrap_or(&url.host);
        let name = match name.parse::<std::net::IpAddr>() {
            Ok(address) => ServerName::IpAddress(TlsAddress::from(address)),
            Err(_) => {
                ServerName::try_from(name.clone()).map_err(|_| TlsError::Name { name: name.clone() })?
            }
        };
        let [any, http1] = match self.trusted.get(&tls.ca) {
            Some(configs) => configs.clone(),
            None => {
                let configs = configs(tls)?;
                self.trusted.insert(tls.ca.clone(), configs.clone());
                configs
            }
        };
        Ok(TlsTo { any, http1, name })
    }
}

/// For any version of HTTP, and for HTTP/1 alone.
fn configs(tls: &UpstreamTls) -> Result<[Arc<ClientConfig>; 2], TlsError> {
    let roots = match &tls.ca {
        Some(path) => roots(path)?,
        None => {
            let mut roots = RootCertStore::empty();
            // What can't be used of them is for nobody here to mend.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            roots
        }
    };
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|source| TlsError::Unusable { path: tls.ca.clone().unwrap_or_default(), source })?;
    let config = builder.with_root_certificates(roots).with_no_client_auth();
    Ok([&[&b"h2"[..], b"http/1.1"][..], &[b"http/1.1"]].map(|protocols| {
        let mut config = config.clone();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Arc::new(config)
    }))
}
