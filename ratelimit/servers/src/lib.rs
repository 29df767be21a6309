//! The servers of the application layer: gateways and programs ask over gRPC or HTTP whether a request may go on, and get
//! what [`Service`] decides.
//!
//! They run on threads of their own, so nothing that they do delays the control socket or a reload. They decide nothing.
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod activity;
mod budget;
mod connection;
mod convert;
mod deadline;
mod grpc;
mod held;
pub mod http1;
mod layer;
mod limits;
mod linger;
mod listen;
mod message;
pub mod metrics;
mod object;
mod overview;
pub mod peer;
pub mod proto;
pub mod socket;
mod state;
pub mod stats;
mod tls;
pub mod unjudged;
mod web;

use std::{io, sync::Arc, time::Duration};

use thiserror::Error;
use tokio::{
    runtime::Runtime,
    sync::{Semaphore, watch},
    task::JoinHandle,
};
use tracing::{info, warn};

use self::{
    budget::Budget,
    connection::{Answerer, Phase, Protocol, Site},
    listen::Door,
    state::State,
    stats::Stats,
    tls::Certificates,
};
pub use self::{
    layer::{Layer, LayerError, Prepared},
    overview::{LayerStatus, ListenerStatus, Overview},
    tls::{
        DoubtfulCertificate, FreshCertificates, TlsError, certificates, check_certificates, own_certificates,
        private_key, shown_time,
    },
};
use ratelimit_limiter::{self as limiter, answers, application, client_address, text};
use ratelimit_policy as policy;

use crate::{
    application::Service,
    policy::application::{Application, Listen, ListenAddress, Tls},
    socket::{SocketError, check_place},
};

/// How long clients that keep their connections have to use them once more, so that they hear that they are to go.
const GOODBYE: Duration = Duration::from_millis(500);
/// How long those may take to go then that wait for no answer: what they ask may be on its way.
const FAREWELL: Duration = Duration::from_secs(2);
/// How long what has been asked may take to be answered at the end.
const PATIENCE: Duration = Duration::from_secs(10);

/// The servers can't start.
#[derive(Debug, Error)]
pub enum ServerError {
    /// An address can't be had.
    #[error(
        "{address}: can't listen there ({source}): choose another address under `application.listen`, or end who has it"
    )]
    Bind {
        /// The address.
        address: String,
        /// Why not.
        source: io::Error,
    },
    /// A certificate can't be used.
    #[error("`application.listen`: {0}")]
    Tls(#[from] TlsError),
    /// No threads.
    #[error("starting the servers' threads: {0}")]
    Threads(io::Error),
}

impl ServerError {
    /// A Unix socket's file can't be made.
    fn of_socket(address: &ListenAddress, error: SocketError) -> Self {
        let source = match error {
            SocketError::Taken(_) => io::ErrorKind::AddrInUse.into(),
            SocketError::NotASocket { kind, .. } => io::Error::other(format!("{kind} is there")),
            SocketError::Make { source, .. } => source,
        };
        Self::Bind { address: address.to_string(), source }
    }
}

/// Whether there is a place for a listener, as far as that can be told without making anything or asking who listens there.
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
    room: Arc<Semaphore>,
    places: u32,
    state: Arc<State>,
    doors: Vec<JoinHandle<()>>,
    certificates: Vec<Arc<Certificates>>,
    addresses: Addresses,
    listeners: Vec<ListenerStatus>,
    stats: Arc<Stats>,
}

/// Where servers listen, with their real ports if any was asked for.
#[derive(Clone, Debug, Default)]
pub struct Addresses {
    /// For gRPC.
    pub grpc: Vec<ListenAddress>,
    /// For HTTP.
    pub http: Vec<ListenAddress>,
}

/// Listeners that are bound, and answer nobody yet: what needs rights, and no threads.
#[derive(Debug)]
pub struct Bound(Vec<(Protocol, Door)>);

impl Bound {
    /// Binds all listeners of a policy.
    ///
    /// # Errors
    /// One can't be bound; then none is.
    pub fn bind(listen: &Listen) -> Result<Self, ServerError> {
        let grpc = listen.grpc.iter().map(|listener| (Protocol::Grpc, listener));
        let http = listen.http.iter().map(|listener| (Protocol::Http, listener));
        let doors =
            grpc.chain(http).map(|(protocol, listener)| Ok((protocol, Door::bind(listener, protocol)?)));
        doors.collect::<Result<_, _>>().map(Self)
    }
}

impl Servers {
    /// Binds all listeners of the policy and answers at them.
    ///
    /// # Errors
    /// One can't be bound; then none is.
    pub fn start(application: &Application, service: Arc<Service>) -> Result<Self, ServerError> {
        Self::start_at(Bound::bind(&application.listen)?, service)
    }

    /// Answers at listeners that are bound.
    ///
    /// # Errors
    /// There can be no threads.
    pub fn start_at(bound: Bound, service: Arc<Service>) -> Result<Self, ServerError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .thread_name("ratelimit-server")
            .build()
            .map_err(ServerError::Threads)?;
        let most = limits::connections();
        let (sender, phase) = watch::channel(Phase::Serving);
        let stats = Arc::<Stats>::default();
        let mut servers = Self {
            runtime: Some(runtime),
            phase: sender,
            room: Arc::new(Semaphore::new(most)),
            places: u32::try_from(most).unwrap_or(u32::MAX),
            state: Arc::new(State::new(service, Arc::clone(&stats), phase.clone())),
            doors: Vec::new(),
            certificates: Vec::new(),
            addresses: Addresses::default(),
            listeners: Vec::new(),
            stats,
        };
        servers.open(bound, &phase);
        Ok(servers)
    }

    fn open(&mut self, Bound(doors): Bound, phase: &watch::Receiver<Phase>) {
        let Some(runtime) = &self.runtime else { return };
        let _inside = runtime.enter();
        let grpc = Answerer::Grpc(Arc::clone(&self.state), grpc::router(&self.state));
        let http = Answerer::Http(Arc::clone(&self.state));
        let budget = Budget::new(limits::BODIES);
        if doors.is_empty() {
            warn!("no `application.listen`: nobody can ask about requests");
        }
        for (protocol, door) in doors {
            let (name, answerer, addresses) = match protocol {
                Protocol::Grpc => ("gRPC", &grpc, &mut self.addresses.grpc),
                Protocol::Http => ("HTTP", &http, &mut self.addresses.http),
            };
            info!(address = %door.address(), protocol = name, tls = door.certificates().is_some(), "answering");
            addresses.push(door.address().clone());
            self.listeners.push(ListenerStatus {
                protocol: name.to_ascii_lowercase(),
                address: door.address().to_string(),
                tls: door.certificates().is_some(),
            });
            self.certificates.extend(door.certificates().cloned());
            let site = Site {
                answerer: answerer.clone(),
                budget: Arc::clone(&budget),
                stats: Arc::clone(&self.stats),
                phase: phase.clone(),
            };
            self.doors.push(runtime.spawn(door.run(Arc::clone(&self.room), site)));
        }
    }

    /// Where they listen.
    #[must_use]
    pub const fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// Where they listen, and what is spoken there.
    #[must_use]
    pub fn listeners(&self) -> &[ListenerStatus] {
        &self.listeners
    }

    /// What they count.
    #[must_use]
    pub const fn stats(&self) -> &Arc<Stats> {
        &self.stats
    }

    /// Reads those certificates again that a policy still names, and waits for that, but not for long. Where to listen is
    /// fixed.
    ///
    /// # Errors
    /// Some can't be used. All stays as it was then.
    pub fn read_certificates(&self, application: &Application) -> Result<FreshCertificates, ServerError> {
        let listeners = || application.listen.grpc.iter().chain(&application.listen.http);
        let is_named = |files: &Tls| listeners().any(|listener| listener.tls.as_ref() == Some(files));
        let named = self.certificates.iter().filter(|certificates| is_named(certificates.files()));
        let named: Vec<_> = named.cloned().collect();
        let fresh = self.runtime.as_ref().map(|runtime| FreshCertificates::read(&named, runtime));
        Ok(fresh.transpose()?.unwrap_or_default())
    }

    /// Stops without leaving a request unanswered: takes no more connections, tells clients to go, answers what has been
    /// asked. It gives up on those that are not served after some seconds.
    pub async fn drain(mut self) {
        self.phase.send_replace(Phase::Leaving);
        for door in self.doors.drain(..) {
            // Its end is all that matters.
            let _ = door.await;
        }
        let room = Arc::clone(&self.room);
        let all_are_gone = || room.acquire_many(self.places);
        if tokio::time::timeout(GOODBYE, all_are_gone()).await.is_ok() {
            return;
        }
        self.phase.send_replace(Phase::Ending);
        if tokio::time::timeout(PATIENCE, all_are_gone()).await.is_err() {
            warn!("some clients did not take their answers in time");
        }
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Waiting for its tasks is for `drain`.
            runtime.shutdown_background();
        }
    }
}
