//! The network layer that a running daemon has in force, and what can be done with it.

use std::{
    net::IpAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result};
use ratelimit_common::time::Nanos;
use serde_json::{Value, json};
use tokio::time::Instant;
use tracing::{error, info, warn};

use crate::{
    control::{AnsweredBuckets, AskedBuckets, SparingKey, SparingRule},
    dataplane::{
        self, Attachment, Bans, Changes, Claim, Dataplane, Error, ProgramLog, Requirements, TrialState,
        TrialStatus, Wanted, WantedTrial, around, everything_passes, in_one_line, list_sizes,
    },
    policy::{InstanceName, Network, OnExit, Prefix, PrefixList},
    text::Shown,
};

/// Rules on packets in force.
pub struct NetworkLayer {
    config: PathBuf,
    network: Network,
    dataplane: Dataplane,
    trial: Option<OnTrial>,
    /// When to look for interfaces again that lack the program.
    retry_at: Option<Instant>,
}

/// How long after one that could not be attached the next try is made.
const RETRY: Duration = Duration::from_secs(1);

/// Rules that nobody has confirmed yet.
#[derive(Clone, Copy, Debug)]
struct OnTrial {
    length: Nanos,
    /// Whether nobody has confirmed them in time, which has been said.
    has_failed: bool,
}

impl OnTrial {
    const fn of(length: Nanos) -> Self {
        Self { length, has_failed: false }
    }
}

impl NetworkLayer {
    /// Puts rules on packets in force, from the file `config`: on a trial if a time is given for it, or if those that
    /// they replace are on one. Whoever was locked out by rules is not to be again because a daemon starts again.
    ///
    /// # Errors
    /// They can't be.
    pub fn start(
        claim: Claim,
        config: &Path,
        network: Network,
        revert_after: Option<Nanos>,
        control: &Path,
    ) -> Result<Self> {
        let (wanted_trial, trial) = match revert_after {
            Some(length) => (Some(WantedTrial::Begins(length)), Some(OnTrial::of(length))),
            None => claim.earlier_trial()?.map_or((None, None), |(state, length)| {
                let trial = OnTrial { length, has_failed: state == TrialState::Failed };
                (Some(WantedTrial::GoesOn), Some(trial))
            }),
        };
        let wanted =
            Wanted { network: &network, config, is_same: false, observes: None, trial: wanted_trial };
        let dataplane = claim.start(&wanted, control)?;
        let mut packets = Self { config: config.to_owned(), network, dataplane, trial, retry_at: None };
        packets.plan_retry();
        Ok(packets)
    }

    /// Says what is in force, and where.
    pub fn announce(&self, instance: &InstanceName) {
        for attachment in self.dataplane.attachments() {
            info!(
                interface = attachment.interface,
                mode = attachment.mode.name(),
                rules = self.network.rules.len(),
                instance = %instance,
                "limiting"
            );
        }
        list_sizes(&self.network.lists).iter().for_each(|size| info!("list {}", Shown(size)));
        self.warn_of_offloads(self.dataplane.attachments());
        if self.dataplane.is_adopted() {
            info!("going on with the buckets and counters of the daemon before");
        }
        if self.dataplane.observes() {
            warn!("all rules only observe, until `ratelimit observe off`");
        }
        self.announce_trial();
    }

    fn announce_trial(&self) {
        match self.trial() {
            TrialStatus::None => {}
            TrialStatus::SecondsLeft(seconds) => warn!(
                seconds,
                "on trial: unless `ratelimit confirm` comes in time, everything passes from then on"
            ),
            TrialStatus::Failed => error!("{}", everything_passes()),
        }
    }

    /// Says what the rules can't do on these interfaces.
    fn warn_of_offloads(&self, attachments: &[Attachment]) {
        let warnings = dataplane::warnings(Requirements::of(&self.network.rules), attachments);
        warnings.iter().for_each(|warning| warn!("{warning}"));
    }

    /// The rules.
    pub const fn network(&self) -> &Network {
        &self.network
    }

    /// What the XDP program logs; `None` if it does not.
    pub fn log(&mut self) -> Option<ProgramLog> {
        self.dataplane.log()
    }

    /// Puts other rules in force, in one step: on a new trial if a time is given for it.
    ///
    /// # Errors
    /// Why the old ones stay.
    pub fn reload(&mut self, network: &Network, revert_after: Option<Nanos>) -> Result<(), String> {
        self.replace(Some(network), None, revert_after)?;
        let before = list_sizes(&self.network.lists);
        for size in list_sizes(&network.lists).iter().filter(|size| !before.contains(size)) {
            info!("list {}", Shown(size));
        }
        self.network = network.clone();
        self.warn_of_offloads(self.dataplane.attachments());
        if revert_after.is_some() {
            self.announce_trial();
        }
        Ok(())
    }

    /// Loads the rules of a policy, or those that there are anew.
    fn replace(
        &mut self,
        network: Option<&Network>,
        observes: Option<bool>,
        revert_after: Option<Nanos>,
    ) -> Result<(), String> {
        let trial = match revert_after {
            Some(length) => Some(WantedTrial::Begins(length)),
            None => self.trial_now().map_err(|error| error.to_string())?,
        };
        let wanted = Wanted {
            network: network.unwrap_or(&self.network),
            config: &self.config,
            is_same: network.is_none(),
            observes,
            trial,
        };
        self.dataplane.replace(&wanted).map_err(|error| in_one_line(&error))?;
        match trial {
            Some(WantedTrial::Begins(length)) => self.trial = Some(OnTrial::of(length)),
            // Whether it has been confirmed is still to be said.
            Some(WantedTrial::GoesOn) | None => {}
        }
        self.plan_retry();
        Ok(())
    }

    /// Moves windows to where they lie by the wall clock, if that was set; says whether it was. Rules whose trial has
    /// failed stay out of force.
    ///
    /// # Errors
    /// Why they stay where they are.
    pub fn follow_clock(&mut self) -> Result<bool, String> {
        let in_one_line = |error: Error| in_one_line(&error);
        let has_failed = self.dataplane.trial().map_err(in_one_line)? == TrialState::Failed;
        if has_failed || !self.dataplane.has_moved_windows().map_err(in_one_line)? {
            return Ok(false);
        }
        self.replace(None, None, None)?;
        Ok(true)
    }

    /// The trial that a new generation is on: the same, as long as it lasts; a new one after one that failed.
    fn trial_now(&self) -> Result<Option<WantedTrial>, Error> {
        let Some(trial) = self.trial else { return Ok(None) };
        Ok(match self.dataplane.trial()? {
            TrialState::None => None,
            TrialState::Left(_) => Some(WantedTrial::GoesOn),
            TrialState::Failed => Some(WantedTrial::Begins(trial.length)),
        })
    }

    /// How its trial stands.
    pub fn trial(&self) -> TrialStatus {
        self.dataplane.trial().map_or(TrialStatus::None, TrialStatus::from)
    }

    /// Returns when the trial is over. It is asked for anew about once a second, so that a confirmation is noticed.
    pub async fn trial_over(&self) {
        if self.trial.is_none_or(|trial| trial.has_failed) {
            return std::future::pending().await;
        }
        if let Ok(TrialState::Left(left)) = self.dataplane.trial() {
            tokio::time::sleep(Duration::from_nanos(left.0)).await;
        }
    }

    /// Says how the trial ended.
    pub fn note_trial(&mut self) {
        match self.dataplane.trial() {
            Ok(TrialState::None) => {
                info!("confirmed: the rules stay");
                self.trial = None;
            }
            Ok(TrialState::Failed) => {
                error!("{}", everything_passes());
                self.trial = self.trial.map(|trial| OnTrial { has_failed: true, ..trial });
            }
            // The clocks disagree by a moment.
            Ok(TrialState::Left(_)) => {}
            Err(error) => {
                warn!(%error, "can't tell how the trial ended");
                self.trial = None;
            }
        }
    }

    /// Switches all rules to observing, or back.
    ///
    /// # Errors
    /// Why it stays as it was.
    pub fn observe(&mut self, observes: bool) -> Result<Value, String> {
        if self.dataplane.trial().map_err(|error| error.to_string())? == TrialState::Failed {
            return Err(everything_passes());
        }
        self.replace(None, Some(observes), None)?;
        if observes {
            warn!("all rules only observe, until `ratelimit observe off`");
        } else {
            info!("the rules drop again");
        }
        Ok(json!({"observes": observes}))
    }

    /// A source's buckets, and what lists and `bans` say of it, which comes before all rules.
    ///
    /// # Errors
    /// There is no such rule, or none that has a bucket for the source.
    pub fn buckets(&self, asked: &AskedBuckets, bans: &Bans) -> Result<Value, String> {
        let AskedBuckets { address, rule, reset } = asked;
        let names: Vec<&str> = self.network.rules.iter().map(|rule| rule.name.as_str()).collect();
        if let Some(rule) = rule.as_deref().filter(|rule| !names.contains(rule)) {
            return Err(format!("no rule `{rule}`; there are: {}", names.join(", ")));
        }
        let Network { allow, deny, .. } = &self.network;
        let host = Prefix::from(*address);
        let listed = |list: &PrefixList| list.around(&host).map(|prefix| prefix.to_string());
        let all = bans.list().map_err(|error| error.to_string())?;
        let banned = bans.statuses(around(&all, &host)).map_err(|error| error.to_string())?.pop();
        let is_asked = |name: &str| rule.as_deref().is_none_or(|rule| rule == name);
        let spared_by: Vec<SparingRule> =
            sparing(&self.network, *address).filter(|sparing| is_asked(&sparing.rule)).collect();
        let is_meant = |name: &str| is_asked(name) && spared_by.iter().all(|sparing| sparing.rule != name);
        let found = self.dataplane.buckets_of(*address, is_meant, *reset);
        let buckets = found.map_err(|error| error.to_string())?;
        let trial = self.dataplane.trial().map_err(|error| error.to_string())?;
        Ok(json!(AnsweredBuckets {
            address: *address,
            reset: *reset,
            in_force: trial != TrialState::Failed,
            allowed: listed(allow),
            denied: listed(deny),
            banned,
            buckets,
            spared_by,
        }))
    }

    /// Attaches where the program is missing.
    pub fn reconcile(&mut self) {
        match self.dataplane.reconcile() {
            Ok(Changes { came, went }) => {
                for attachment in went {
                    warn!(interface = attachment.interface, "gone: it will be limited when it comes back");
                }
                for attachment in &came {
                    info!(interface = attachment.interface, mode = attachment.mode.name(), "limiting again");
                }
                self.warn_of_offloads(&came);
            }
            Err(error) => warn!(%error, "can't look at the interfaces"),
        }
        self.plan_retry();
    }

    /// An interface that is there may have refused the program for a reason that passes.
    fn plan_retry(&mut self) {
        self.retry_at = (self.dataplane.lacking() > 0).then(|| Instant::now() + RETRY);
    }

    /// Returns when the interfaces are to be looked at again, if some lack the program.
    pub async fn retry(&self) {
        match self.retry_at {
            Some(at) => tokio::time::sleep_until(at).await,
            None => std::future::pending().await,
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

/// The rules that never judge a source.
fn sparing(network: &Network, source: IpAddr) -> impl Iterator<Item = SparingRule> {
    network.rules.iter().filter_map(move |rule| {
        let key = match rule {
            rule if !rule.matches.can_match_source(source) => SparingKey::Match,
            rule if rule.except.iter().any(|except| except.matches_all_of_source(source)) => {
                SparingKey::Except
            }
            _ => return None,
        };
        Some(SparingRule { rule: rule.name.to_string(), key })
    })
}
