//! What all handlers share: who decides, and what answers are to look like.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use tokio::sync::watch;

use super::{connection::Phase, stats::Stats};
use crate::{
    application::{Request, RequestError, Response, Service},
    policy::application::{AnswerHeaders, Application, Auth},
};

/// Shared by all handlers.
#[derive(Debug)]
pub struct State {
    service: Arc<Service>,
    settings: ArcSwap<Settings>,
    stats: Arc<Stats>,
    phase: watch::Receiver<Phase>,
}

/// What a policy says of answers.
#[derive(Debug)]
pub struct Settings {
    /// Which headers they have.
    pub headers: AnswerHeaders,
    /// How many proxies are in front.
    pub trusted_hops: u8,
    /// What `/v1/auth` asks.
    pub auth: Option<Auth>,
}

impl Settings {
    /// Of a policy.
    pub fn of(application: &Application) -> Self {
        Self {
            headers: application.headers,
            trusted_hops: application.trusted_hops,
            auth: application.auth.clone(),
        }
    }
}

impl State {
    pub fn new(
        service: Arc<Service>,
        settings: Settings,
        stats: Arc<Stats>,
        phase: watch::Receiver<Phase>,
    ) -> Self {
        Self { service, settings: ArcSwap::from_pointee(settings), stats, phase }
    }

    /// Lets other settings count from the next request on.
    pub fn put_in_force(&self, settings: Settings) {
        self.settings.store(Arc::new(settings));
    }

    /// Those in force.
    pub fn settings(&self) -> Guard<Arc<Settings>> {
        self.settings.load()
    }

    /// Decides about a request.
    ///
    /// # Errors
    /// It can't be answered.
    pub fn decide(&self, request: &Request) -> Result<Response, RequestError> {
        self.service.decide(request)
    }

    /// What is counted.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// What the servers are doing.
    pub fn phase(&self) -> watch::Receiver<Phase> {
        self.phase.clone()
    }

    /// Whether requests will go on to be answered.
    pub fn is_serving(&self) -> bool {
        *self.phase.borrow() == Phase::Serving
    }
}
