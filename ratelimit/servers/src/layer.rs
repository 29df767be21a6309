//! The application layer as a daemon has it: who decides, and the servers that ask.

use std::{path::PathBuf, sync::Arc};

use prometheus_client::registry::Registry;
use thiserror::Error;
use tokio::runtime::Handle;
use tracing::info;

use super::{BoundServers, Overview, ServerError, Servers, overview::Since, saving::Saving};
use crate::{
    application::{SaveError, Service, ServiceError},
    metrics::RequestMetrics,
    policy::application::{Application, RuleSet, UNKNOWN_CLIENT},
};

/// The application layer can't do it.
#[derive(Debug, Error)]
pub enum LayerError {
    /// The rules, or where counts are kept.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// The servers.
    #[error(transparent)]
    Servers(#[from] ServerError),
}

/// An application layer that has all that needs rights, and no threads yet: clients can connect, and wait.
#[derive(Debug)]
pub struct Prepared {
    service: Service,
    bound: BoundServers,
    rules: RuleSet,
}

impl Prepared {
    /// Makes it.
    ///
    /// # Errors
    /// The rules need more memory than there is, or an address can't be had.
    pub fn new(application: &Application) -> Result<Self, LayerError> {
        let service = Service::new(&application.service_policy())?;
        say_who_is_unknown(application);
        Ok(Self { service, bound: BoundServers::bind(application)?, rules: application.rules.clone() })
    }

    /// Answers. Counts are in a store that several daemons share if `share` makes one of the service, for the servers'
    /// threads.
    ///
    /// # Errors
    /// There can be no threads.
    pub fn start(self, share: impl FnOnce(Service, &Handle) -> Service) -> Result<Layer, LayerError> {
        let runtime = Servers::runtime()?;
        let service = Arc::new(share(self.service, runtime.handle()));
        let servers = Servers::start_in(runtime, self.bound, Arc::clone(&service));
        let saving = Saving::start(&service).map_err(ServerError::Threads)?;
        servers.offenders().reload(&self.rules);
        let since = Since::default();
        since.now();
        Ok(Layer { service, servers, saving, since })
    }
}

/// A limit that seems to be one client's may be that of many.
fn say_who_is_unknown(application: &Application) {
    let is_of_clients = application.auth.as_ref().is_some_and(|auth| auth.asks.names_clients());
    if is_of_clients && application.trusted_hops > 0 {
        info!(
            client = UNKNOWN_CLIENT,
            "all clients for whom the trusted proxies name no address count as one"
        );
    }
}

/// A running application layer.
#[derive(Debug)]
pub struct Layer {
    service: Arc<Service>,
    servers: Servers,
    /// If counts are saved.
    saving: Option<Saving>,
    since: Since,
}

impl Layer {
    /// Puts another policy in force, and new certificates; counts of rules that stay are kept.
    ///
    /// # Errors
    /// It can't be, or certificates can't be used; all stays as it was then.
    pub fn reload(&self, application: &Application) -> Result<(), LayerError> {
        let certificates = self.servers.read_certificates(application)?;
        let routes = self.servers.read_routes(application)?;
        self.service.reload(&application.service_policy())?;
        certificates.put_in_force();
        self.servers.proxy().put_in_force(routes);
        self.servers.offenders().reload(&application.rules);
        self.since.now();
        Ok(())
    }

    /// Puts the policy before the last one in force again. Certificates that are new since are good, and stay.
    ///
    /// # Errors
    /// It can't be.
    pub fn go_back(&self, application: &Application) -> Result<(), LayerError> {
        let routes = self.servers.read_routes(application)?;
        self.service.reload(&application.service_policy())?;
        self.servers.proxy().put_in_force(routes);
        self.servers.offenders().reload(&application.rules);
        Ok(())
    }

    /// For who asks what is in force by the file `config`.
    #[must_use]
    pub fn overview(&self, config: PathBuf) -> Overview {
        Overview::new(config, Arc::clone(&self.service), &self.servers, self.since.clone())
    }

    /// Moves windows to where they lie by the wall clock, if that was set; says whether it was. `application` is in
    /// force.
    ///
    /// # Errors
    /// They can't be moved.
    pub fn follow_clock(&self, application: &Application) -> Result<bool, LayerError> {
        let was_set = self.service.has_moved_windows();
        if was_set {
            self.service.reload(&application.service_policy())?;
        }
        Ok(was_set)
    }

    /// Adds what is counted to a registry.
    pub fn register(&self, registry: &mut Registry) {
        let (service, stats) = (Arc::clone(&self.service), Arc::clone(self.servers.stats()));
        let proxy = Arc::clone(self.servers.proxy());
        let offenders = Arc::clone(self.servers.offenders());
        registry.register_collector(Box::new(RequestMetrics { service, stats, proxy, offenders }));
    }

    /// Who decides.
    #[must_use]
    pub const fn service(&self) -> &Arc<Service> {
        &self.service
    }

    /// Who asks.
    #[must_use]
    pub const fn servers(&self) -> &Servers {
        &self.servers
    }

    /// Stops without leaving a request unanswered, then saves what is counted, if there is a file for it.
    ///
    /// # Errors
    /// What is counted is lost.
    pub async fn stop(self) -> Result<(), SaveError> {
        self.service.flush();
        let bans = Arc::clone(self.servers.offenders().queue());
        self.servers.drain().await;
        if let Some(saving) = self.saving {
            saving.stop();
        }
        bans.close();
        self.service.save()
    }
}
