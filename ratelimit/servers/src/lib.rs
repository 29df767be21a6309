//! The servers of the application layer: gateways and programs ask over gRPC or HTTP whether a request may go on, and
//! get what [`Service`] decides.
//!
//! They run on threads of their own, so nothing that they do delays the control socket or a reload. They decide
//! nothing. How they serve is for [`serving`], which the metrics and the control socket use, too.
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod context;
mod convert;
mod deadline;
mod error;
mod grpc;
mod handler;
mod json_object;
mod judge;
mod layer;
mod limits;
mod message;
pub mod metrics;
pub mod offenders;
mod overview;
pub mod peer;
pub mod proto;
mod proxy;
mod saving;
pub mod serving;
pub mod socket;
pub mod stats;
mod tls;
pub mod unjudged;
mod web;

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::{
    runtime::{Handle, Runtime},
    sync::watch,
    task::JoinHandle,
};
use tracing::{info, warn};

use self::{
    context::ServeContext,
    handler::{Protocol, RateLimitHandler},
    offenders::Offenders,
    proxy::ProxyHandler,
    serving::{Bounded, Budget, ConnectionLimit, Endpoint, Exchange, Listener, Overload, Phase},
    stats::Stats,
    tls::Certificates,
};
pub use self::{
    error::{ServerError, advice},
    layer::{Layer, LayerError, Prepared},
    overview::{LayerStatus, ListenerStatus, Overview},
    proxy::{FreshRoutes, Proxy, ProxyStats, Turned, UpstreamFailure, UpstreamStatus},
    tls::{
        DoubtfulCertificate, FreshCertificates, TlsError, certificates, check_certificates, own_certificates,
        private_key, shown_time,
    },
};
use ratelimit_limiter::{self as limiter, answers, application, client_address, text};
use ratelimit_policy as policy;

use crate::{
    application::Service,
    policy::application::{self as config, Application, ListenAddress, ProxyListener, Tls},
    socket::{ControlSocket, check_place},
};

/// How long clients that keep their connections have to use them once more, so that they hear that they are to go.
const GOODBYE: Duration = Duration::from_millis(500);
/// How long what has been asked may take to be answered at the end.
const PATIENCE: Duration = Duration::from_secs(10);

/// Whether a listener has a place, as far as that can be told without making anything or asking who is there.
///
/// # Errors
/// Something else is there.
pub fn check_listener(address: &ListenAddress) -> Result<(), ServerError> {
    match address {
        ListenAddress::Tcp(_) => Ok(()),
        ListenAddress::Unix(path) => {
            check_place(path).map_err(|error| ServerError::of_socket(address, error))
        }
    }
}

/// Servers that run until they are dropped or [drained](Self::drain).
#[derive(Debug)]
pub struct Servers {
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
    phase: watch::Sender<Phase>,
    connection_limits: [Arc<ConnectionLimit>; 2],
    context: Arc<ServeContext>,
    running: Vec<JoinHandle<()>>,
    certificates: Vec<Arc<Certificates>>,
    addresses: ListenAddresses,
    listeners: Vec<ListenerStatus>,
    proxy: Arc<Proxy>,
    stats: Arc<Stats>,
}

/// Where servers listen, with their real ports if any was asked for.
#[derive(Clone, Debug, Default)]
pub struct ListenAddresses {
    /// For gRPC.
    pub grpc: Vec<ListenAddress>,
    /// For HTTP.
    pub http: Vec<ListenAddress>,
    /// Where the proxy listens.
    pub proxy: Vec<ListenAddress>,
}

/// Listeners that are bound, and answer nobody yet: what needs rights, and no threads.
#[derive(Debug)]
pub struct BoundServers {
    questions: Vec<(Protocol, Listener)>,
    proxies: Vec<Listener>,
    proxy: Arc<Proxy>,
    capacity: limits::Capacity,
}

impl BoundServers {
    /// Binds all listeners of a policy.
    ///
    /// # Errors
    /// One can't be bound; then none is.
    pub fn bind(application: &Application) -> Result<Self, ServerError> {
        let (listen, proxies) = (&application.listen, &application.proxy);
        let capacity = limits::capacity(!proxies.is_empty());
        let proxy = Proxy::new(proxies, capacity.requests)?;
        let grpc = listen.grpc.iter().map(|listener| (Protocol::Grpc, listener));
        let http = listen.http.iter().map(|listener| (Protocol::Http, listener));
        let questions =
            grpc.chain(http).map(|(protocol, listener)| Ok((protocol, bind(listener, protocol.alpn())?)));
        let questions = questions.collect::<Result<_, ServerError>>()?;
        let at = |listener: &ProxyListener| {
            let announcers = proxy::announcers(&listener.proxy_protocol);
            Ok(bind(&listener.listener, proxy::ALPN)?.with_announcers(announcers))
        };
        let proxies = proxies.iter().map(at).collect::<Result<_, ServerError>>()?;
        Ok(Self { questions, proxies, proxy, capacity })
    }
}

fn bind(
    listener: &config::ListenerSettings,
    protocols: &'static [&'static [u8]],
) -> Result<Listener, ServerError> {
    let tls = listener.tls.clone().map(|files| Certificates::load(files, protocols).map(Arc::new));
    let tls = tls.transpose()?;
    let address = &listener.address;
    let bound = match address {
        ListenAddress::Tcp(address) => Listener::tcp(*address),
        ListenAddress::Unix(path) => {
            let socket = ControlSocket::bind(path).map_err(|error| ServerError::of_socket(address, error))?;
            Listener::open_to_all(socket)
        }
    };
    let bound = bound.map_err(|source| ServerError::Bind { address: address.to_string(), source })?;
    Ok(bound.with_tls(tls))
}

impl Servers {
    /// Binds all listeners of the policy and answers at them.
    ///
    /// # Errors
    /// One can't be bound; then none is.
    pub fn start(application: &Application, service: Arc<Service>) -> Result<Self, ServerError> {
        Self::start_at(BoundServers::bind(application)?, service)
    }

    /// Answers at listeners that are bound.
    ///
    /// # Errors
    /// There can be no threads.
    pub fn start_at(bound: BoundServers, service: Arc<Service>) -> Result<Self, ServerError> {
        Ok(Self::start_in(Self::runtime()?, bound, service))
    }

    /// The threads that answer.
    fn runtime() -> Result<Runtime, ServerError> {
        tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .thread_name("ratelimit-server")
            .build()
            .map_err(ServerError::Threads)
    }

    fn start_in(runtime: Runtime, bound: BoundServers, service: Arc<Service>) -> Self {
        if service.is_shared() {
            runtime.spawn(flush(Arc::downgrade(&service)));
        }
        let (sender, phase) = watch::channel(Phase::Serving);
        let stats = Arc::<Stats>::default();
        let mut servers = Self {
            runtime: Some(runtime),
            phase: sender,
            connection_limits: [
                ConnectionLimit::new(bound.capacity.questions, Overload::Evict),
                ConnectionLimit::new(bound.capacity.clients, Overload::Evict),
            ],
            proxy: Arc::clone(&bound.proxy),
            context: Arc::new(ServeContext::new(service, Arc::clone(&stats), phase.clone())),
            running: Vec::new(),
            certificates: Vec::new(),
            addresses: ListenAddresses::default(),
            listeners: Vec::new(),
            stats,
        };
        servers.open(bound, &phase);
        servers
    }

    fn open(&mut self, bound: BoundServers, phase: &watch::Receiver<Phase>) {
        let Some(runtime) = self.runtime.as_ref().map(|runtime| runtime.handle().clone()) else { return };
        let _inside = runtime.enter();
        let grpc = RateLimitHandler::Grpc(Arc::clone(&self.context), grpc::router(&self.context));
        let (http, budget) = (RateLimitHandler::Http(Arc::clone(&self.context)), Budget::new(limits::HELD));
        if bound.questions.is_empty() && bound.proxies.is_empty() {
            warn!("no `application.listen`: nobody can ask about requests");
        }
        for (protocol, listener) in bound.questions {
            self.note(protocol.name(), &listener);
            let handler = match protocol {
                Protocol::Grpc => grpc.clone(),
                Protocol::Http => http.clone(),
            };
            let bounds = protocol.bounds();
            let exchange = Bounded { handler, budget: Arc::clone(&budget), time: bounds.times.request };
            self.run(listener, 0, Endpoint { exchange, bounds, phase: phase.clone() }, &runtime);
        }
        for (place, listener) in bound.proxies.into_iter().enumerate() {
            self.note("proxy", &listener);
            let exchange = ProxyHandler::new(Arc::clone(&self.context), Arc::clone(&self.proxy), place);
            let endpoint = Endpoint { exchange, bounds: proxy::BOUNDS, phase: phase.clone() };
            self.run(listener, 1, endpoint, &runtime);
        }
        runtime.spawn(Proxy::sweep(Arc::downgrade(&self.proxy)));
    }

    fn run<E: Exchange>(&mut self, listener: Listener, kind: usize, endpoint: Endpoint<E>, runtime: &Handle) {
        let Some(limit) = self.connection_limits.get(kind).map(Arc::clone) else { return };
        let (address, run) = (listener.address().clone(), listener.run(limit, endpoint));
        self.running.push(runtime.spawn(async move {
            if let Err(error) = run.await {
                warn!(%address, "can't take connections: {error}");
            }
        }));
    }

    fn note(&mut self, name: &'static str, listener: &Listener) {
        let addresses = match name {
            "gRPC" => &mut self.addresses.grpc,
            "HTTP" => &mut self.addresses.http,
            _ => &mut self.addresses.proxy,
        };
        let (address, tls) = (listener.address(), listener.certificates().is_some());
        info!(%address, protocol = name, tls, "answering");
        addresses.push(address.clone());
        let (protocol, address) = (name.to_ascii_lowercase(), address.to_string());
        self.listeners.push(ListenerStatus { protocol, address, tls });
        self.certificates.extend(listener.certificates().cloned());
    }

    /// Where they listen.
    #[must_use]
    pub const fn addresses(&self) -> &ListenAddresses {
        &self.addresses
    }

    /// Where they listen, and what is spoken there.
    #[must_use]
    pub fn listeners(&self) -> &[ListenerStatus] {
        &self.listeners
    }

    /// Who goes on exceeding limits.
    #[must_use]
    pub fn offenders(&self) -> &Arc<Offenders> {
        self.context.offenders()
    }

    /// What they count.
    #[must_use]
    pub const fn stats(&self) -> &Arc<Stats> {
        &self.stats
    }

    /// Reads those certificates again that a policy still names, and waits for that, but not for long. Where to listen
    /// is fixed.
    ///
    /// # Errors
    /// Some can't be used. All stays as it was then.
    pub fn read_certificates(&self, application: &Application) -> Result<FreshCertificates, ServerError> {
        let is_named =
            |files: &Tls| application.listeners().any(|listener| listener.tls.as_ref() == Some(files));
        let named = self.certificates.iter().filter(|certificates| is_named(certificates.files()));
        let named: Vec<_> = named.cloned().collect();
        let fresh = self.runtime.as_ref().map(|runtime| FreshCertificates::read(&named, runtime));
        Ok(fresh.transpose()?.unwrap_or_default())
    }

    /// Reads where the proxy's requests go by another policy; its listeners are fixed.
    ///
    /// # Errors
    /// Certificates to trust can't be used. All stays as it was then.
    pub fn read_routes(&self, application: &Application) -> Result<FreshRoutes, ServerError> {
        Ok(self.proxy.read(&application.proxy)?)
    }

    /// The proxy, which has no listeners if none are configured.
    #[must_use]
    pub const fn proxy(&self) -> &Arc<Proxy> {
        &self.proxy
    }

    /// Stops without leaving a request unanswered: takes no more connections, tells clients to go, answers what has
    /// been asked. It gives up on those that are not served after some seconds.
    pub async fn drain(mut self) {
        self.phase.send_replace(Phase::Leaving);
        for running in self.running.drain(..) {
            // Its end is all that matters.
            let _ = running.await;
        }
        if tokio::time::timeout(GOODBYE, self.all_are_gone()).await.is_ok() {
            return;
        }
        self.phase.send_replace(Phase::Ending);
        if tokio::time::timeout(PATIENCE, self.all_are_gone()).await.is_err() {
            warn!("some clients did not take their answers in time");
        }
    }

    async fn all_are_gone(&self) {
        for limit in &self.connection_limits {
            limit.all_are_gone().await;
        }
    }
}

/// Sends a store that several daemons share what it is still to be charged, for as long as there is a service.
async fn flush(service: Weak<Service>) {
    let mut interval = tokio::time::interval(FLUSH);
    while let Some(service) = service.upgrade() {
        service.flush();
        drop(service);
        interval.tick().await;
    }
}

/// How often charges are sent that decide nothing.
const FLUSH: Duration = Duration::from_millis(200);

impl Drop for Servers {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Waiting for its tasks is for `drain`.
            runtime.shutdown_background();
        }
    }
}
