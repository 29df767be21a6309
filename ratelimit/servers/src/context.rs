//! What all handlers share.

use std::sync::{Arc, LazyLock};

use tokio::sync::watch;

use super::{offenders::Offenders, serving::Phase, stats::Stats};
use crate::{
    application::{InForce, Service},
    policy::application::AnswerSettings,
};

/// The settings of a service whose policy says nothing about answers.
static USUAL: LazyLock<AnswerSettings> = LazyLock::new(AnswerSettings::default);

/// What the policy in force says about questions and answers.
pub fn answering<'i>(in_force: &'i InForce<'_>) -> &'i AnswerSettings {
    in_force.extension().unwrap_or(&USUAL)
}

/// Shared by all handlers.
#[derive(Debug)]
pub struct ServeContext {
    service: Arc<Service>,
    stats: Arc<Stats>,
    phase: watch::Receiver<Phase>,
    offenders: Arc<Offenders>,
}

impl ServeContext {
    pub fn new(service: Arc<Service>, stats: Arc<Stats>, phase: watch::Receiver<Phase>) -> Self {
        Self { service, stats, phase, offenders: Arc::default() }
    }

    /// Who goes on exceeding limits.
    pub const fn offenders(&self) -> &Arc<Offenders> {
        &self.offenders
    }

    /// Who decides, by what is in force now.
    pub fn in_force(&self) -> InForce<'_> {
        self.service.in_force()
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
