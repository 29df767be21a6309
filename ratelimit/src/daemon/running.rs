//! What a running daemon has in force, and what can be done with it.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result};
use ratelimit_common::time::Nanos;
use serde_json::{Value, json};
use tracing::{error, info, warn};

use super::Source;
use crate::{
    config::Checked,
    control::AskedBuckets,
    dataplane::{self, Claim, Dataplane, Error, Log, Trial, Wanted, in_one_line},
    metrics::Reloads,
    policy::{InstanceName, Network, OnExit, Policy},
    text::{Shown, ShownLines},
};

/// A policy in force.
pub struct Running {
    source: Source,
    policy: Policy,
    network: Network,
    dataplane: Dataplane,
    trial: Option<OnTrial>,
    reloads: Reloads,
}

/// Rules that nobody has confirmed yet.
#[derive(Clone, Copy, Debug)]
struct OnTrial {
    length: Nanos,
    /// On CLOCK_MONOTONIC.
    end: Nanos,
}

impl OnTrial {
    fn begin(length: Nanos) -> Result<Self, Error> {
        Ok(Self { length, end: Nanos(dataplane::monotonic()?.0.saturating_add(length.0)) })
    }
}

impl Running {
    /// Puts a policy in force.
    ///
    /// # Errors
    /// It can't be.
    pub fn start(
        claim: Claim,
        source: Source,
        checked: Checked,
        revert_after: Option<Nanos>,
        control: &Path,
        reloads: Reloads,
    ) -> Result<Self> {
        let Checked { policy, warnings } = checked;
        warnings.iter().for_each(|warning| warn!("{}", Shown(warning)));
        let network = policy.network.clone().context("nothing to do: no `network`")?;
        let trial = revert_after.map(OnTrial::begin).transpose()?;
        let trial_end = trial.map(|trial| trial.end);
        let wanted = Wanted { network: &network, config: &source.config, observes: None, trial_end };
        let dataplane = claim.start(&wanted, control)?;
        reloads.started();
        Ok(Self { source, policy, network, dataplane, trial, reloads })
    }

    /// Says what is in force, and where.
    pub fn announce(&self) {
        for attachment in self.dataplane.attachments() {
            info!(
                interface = attachment.interface,
                mode = attachment.mode.name(),
                rules = self.network.rules.len(),
                instance = %self.policy.instance,
                "limiting"
            );
        }
        if self.dataplane.is_adopted() {
            info!("going on with the buckets and counters of the daemon before");
        }
        if self.dataplane.observes() {
            warn!("all rules only observe, until `ratelimit observe off`");
        }
        if let Some(trial) = self.trial {
            let seconds = trial.length.0.div_ceil(Nanos::SECOND.0);
            warn!(
                seconds,
                "on trial: unless `ratelimit confirm` comes in time, everything passes from then on"
            );
        }
    }

    /// Its instance.
    pub const fn instance(&self) -> &InstanceName {
        &self.policy.instance
    }

    /// The files that it comes from.
    pub fn files(&self) -> Vec<PathBuf> {
        if self.source.is_stream() {
            return Vec::new();
        }
        let mut files = vec![self.source.config.clone()];
        files.extend(self.network.list_files.iter().cloned());
        files
    }

    /// What the XDP program logs; `None` if it does not.
    pub fn log(&mut self) -> Option<Log> {
        self.dataplane.log()
    }

    /// Reads the configuration again and puts it in force. If anything is wrong with it, all stays as it was.
    ///
    /// # Errors
    /// Why it stays.
    pub fn reload(&mut self, reason: &str) -> Result<Value, String> {
        let done = self.try_reload();
        match &done {
            Ok(()) => {
                self.reloads.succeeded();
                info!(reason, rules = self.network.rules.len(), "reloaded");
            }
            Err(why) => {
                self.reloads.failed();
                error!(reason, "not reloaded, what was in force stays: {}", ShownLines(why));
            }
        }
        done.map(|()| json!({"reloaded": true, "rules": self.network.rules.len()}))
    }

    fn try_reload(&mut self) -> Result<(), String> {
        if self.source.is_stream() {
            return Err("the configuration came through a stream, which can't be read again".to_owned());
        }
        let Checked { policy, warnings } = self.source.read().map_err(|error| error.to_string())?;
        let fixed =
            |what: &str| format!("`{what}` can't change while the daemon runs: stop it and start it again");
        if policy.instance != self.policy.instance {
            return Err(fixed("instance"));
        }
        if policy.control != self.policy.control {
            return Err(fixed("control"));
        }
        if policy.metrics != self.policy.metrics {
            return Err(fixed("metrics.listen"));
        }
        let Some(network) = policy.network.clone() else { return Err(fixed("network")) };
        warnings.iter().for_each(|warning| warn!("{}", Shown(warning)));
        self.replace(&network, None)?;
        (self.policy, self.network) = (policy, network);
        Ok(())
    }

    fn replace(&mut self, network: &Network, observes: Option<bool>) -> Result<(), String> {
        let trial = self.trial_now().map_err(|error| error.to_string())?;
        let trial_end = trial.map(|trial| trial.end);
        let wanted = Wanted { network, config: &self.source.config, observes, trial_end };
        self.dataplane.replace(&wanted).map_err(|error| in_one_line(&error))?;
        self.trial = trial;
        Ok(())
    }

    /// The trial that a new generation is on: the same, as long as it lasts; a new one after one that failed.
    fn trial_now(&self) -> Result<Option<OnTrial>, Error> {
        let Some(trial) = self.trial else { return Ok(None) };
        Ok(match self.dataplane.trial()? {
            Trial::None => None,
            Trial::Left(_) => Some(trial),
            Trial::Failed => Some(OnTrial::begin(trial.length)?),
        })
    }

    /// Returns when the trial is over, whichever way it went.
    pub async fn trial_over(&self) {
        let left =
            self.trial.and_then(|trial| Some(trial.end.0.saturating_sub(dataplane::monotonic().ok()?.0)));
        match left {
            Some(left) => tokio::time::sleep(Duration::from_nanos(left)).await,
            None => std::future::pending().await,
        }
    }

    /// Says how the trial ended.
    pub fn note_trial(&mut self) {
        match self.dataplane.trial() {
            Ok(Trial::None) => {
                info!("confirmed: the rules stay");
                self.trial = None;
            }
            Ok(Trial::Failed) => {
                error!(
                    "nobody has confirmed the rules in time: everything passes, until a reload puts them on trial again"
                );
                // The next one is measured anew.
                self.trial = self.trial.map(|trial| OnTrial { end: Nanos(u64::MAX), ..trial });
            }
            // The clocks disagree by a moment.
            Ok(Trial::Left(left)) => {
                self.trial = self
                    .trial
                    .and_then(|trial| OnTrial::begin(left).ok().map(|new| OnTrial { end: new.end, ..trial }));
            }
            Err(error) => {
                warn!(%error, "looking at how the trial ended");
                self.trial = None;
            }
        }
    }

    /// Switches all rules to observing, or back.
    ///
    /// # Errors
    /// Why it stays as it was.
    pub fn observe(&mut self, observes: bool) -> Result<Value, String> {
        let network = self.network.clone();
        self.replace(&network, Some(observes))?;
        if observes {
            warn!("all rules only observe, until `ratelimit observe off`");
        } else {
            info!("the rules drop again");
        }
        Ok(json!({"observes": observes}))
    }

    /// A source's buckets.
    ///
    /// # Errors
    /// There is no such rule, or none that has a bucket for the source.
    pub fn buckets(&self, asked: &AskedBuckets) -> Result<Value, String> {
        let AskedBuckets { address, rule, reset } = asked;
        let names: Vec<&str> = self.network.rules.iter().map(|rule| rule.name.as_str()).collect();
        if let Some(rule) = rule.as_deref().filter(|rule| !names.contains(rule)) {
            return Err(format!("no rule `{rule}`; there are: {}", names.join(", ")));
        }
        let found = self.dataplane.buckets_of(*address, rule.as_deref(), *reset);
        found
            .map(|buckets| json!({"address": address, "reset": reset, "buckets": buckets}))
            .map_err(|error| error.to_string())
    }

    /// Attaches where the program is missing.
    pub fn reconcile(&mut self) {
        match self.dataplane.reconcile() {
            Ok(new) => {
                for attachment in new {
                    info!(interface = attachment.interface, mode = attachment.mode.name(), "limiting again");
                }
            }
            Err(error) => warn!(%error, "looking at the interfaces"),
        }
    }

    /// Ends the daemon's work, which gives up the instance too.
    ///
    /// # Errors
    /// A pin can't be removed.
    pub fn stop(self, wanted: Option<OnExit>, reason: &str) -> Result<()> {
        let names: Vec<&str> =
            self.dataplane.attachments().iter().map(|attachment| attachment.interface.as_str()).collect();
        let interfaces = names.join(", ");
        match wanted.unwrap_or(self.network.on_exit) {
            OnExit::Keep => info!(reason, interfaces, "stopping; the limits stay in force"),
            OnExit::Detach => {
                self.dataplane.detach().context("detaching")?;
                info!(reason, interfaces, "detached");
            }
        }
        Ok(())
    }
}
