//! What a running daemon has in force, and what can be done with it.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::SystemTime,
};

use anyhow::{Context as _, Result};
use ratelimit_common::time::Nanos;
use serde_json::{Value, json};
use tracing::{error, info, warn};

use super::{fixed, packets::NetworkLayer, store};
use crate::{
    config::Checked,
    control::{AskedBuckets, LastReload, NO_PACKETS, ReloadLog, when_in_effect},
    dataplane::{self, Bans, Claim, ProgramLog, TrialStatus},
    metrics::Reloads,
    policy::{Application, InstanceName, OnExit, Policy, PrefixList},
    server::{Layer, LayerError, Overview, Prepared},
    text::{Shown, ShownLines},
};

/// A policy in force.
pub struct Running {
    config: PathBuf,
    policy: Policy,
    packets: Option<NetworkLayer>,
    requests: Option<Layer>,
    reloads: Reloads,
    last_reload: ReloadLog,
}

/// A policy whose rules on packets are in force, and whose servers do not answer yet.
pub struct Started {
    config: PathBuf,
    policy: Policy,
    packets: Option<NetworkLayer>,
    requests: Option<Prepared>,
    reloads: Reloads,
}

impl Started {
    /// Puts a policy in force, as far as that needs rights. There is a claim if there is a network layer.
    ///
    /// # Errors
    /// It can't be.
    pub fn new(
        claim: Option<Claim>,
        config: &Path,
        checked: Checked,
        revert_after: Option<Nanos>,
        control: &Path,
        reloads: Reloads,
    ) -> Result<Self> {
        let Checked { policy, warnings } = checked;
        warnings.iter().for_each(|warning| warn!("{}", Shown(warning)));
        // Before anything is attached: an address that somebody else has is the likelier mistake.
        let requests = policy.application.as_ref().map(Prepared::new).transpose()?;
        let start = |(claim, network)| NetworkLayer::start(claim, config, network, revert_after, control);
        let packets = claim.zip(policy.network.clone()).map(start).transpose()?;
        reloads.started();
        Ok(Self { config: dataplane::config_path(config), policy, packets, requests, reloads })
    }

    /// Lets the servers answer, on threads of their own.
    ///
    /// # Errors
    /// There can be no threads.
    pub fn serve(self) -> Result<Running> {
        let Self { config, policy, packets, requests, reloads } = self;
        let share = |(prepared, application): (Prepared, &Application)| {
            prepared.start(|service, runtime| store::share(service, application, runtime))
        };
        let requests = requests.zip(policy.application.as_ref()).map(share).transpose()?;
        let last_reload = ReloadLog::default();
        let running = Running { config, policy, packets, requests, reloads, last_reload };
        running.spare();
        Ok(running)
    }
}

/// Whether `/v1/auth` has something to ask.
fn asks_auth(policy: &Policy) -> bool {
    policy.application.as_ref().is_some_and(|application| application.auth.is_some())
}

impl Running {
    /// Says what is in force, and where.
    pub fn announce(&self) {
        if let Some(packets) = &self.packets {
            packets.announce(&self.policy.instance);
        }
    }

    /// Who decides about requests and who asks, if anybody.
    pub const fn requests(&self) -> Option<&Layer> {
        self.requests.as_ref()
    }

    /// For who asks what is in force about requests.
    pub fn overview(&self) -> Option<Overview> {
        self.requests.as_ref().map(|layer| layer.overview(self.config.clone()))
    }

    /// For who asks what came of the last reload.
    pub fn reload_log(&self) -> ReloadLog {
        self.last_reload.clone()
    }

    /// Its instance.
    pub const fn instance(&self) -> &InstanceName {
        &self.policy.instance
    }

    /// What the XDP program logs; `None` if it does not.
    pub fn log(&mut self) -> Option<ProgramLog> {
        self.packets.as_mut()?.log()
    }

    /// Puts what was read again in force, on trial for a time if one is given. If anything is wrong with it, all stays
    /// as it was.
    ///
    /// # Errors
    /// Why it stays.
    pub fn reload(
        &mut self,
        reason: &str,
        trial: Option<Nanos>,
        read: Result<Checked, String>,
    ) -> Result<Value, String> {
        let done = if trial.is_some() && self.packets.is_none() {
            Err(format!("{NO_PACKETS}, and only rules on packets can be on trial"))
        } else {
            let done = self.try_reload(trial, read);
            self.note_reload(reason, &done);
            done
        };
        let on_packets = self.packets.as_ref().map_or(0, |packets| packets.network().rules.len());
        let on_requests =
            self.policy.application.as_ref().map_or(0, |application| application.rules.limits());
        match &done {
            Ok(fixed) => {
                self.reloads.succeeded();
                info!(reason, rules = on_packets, request_limits = on_requests, "reloaded");
                if !fixed.is_empty() {
                    let (keys, when) = (fixed.join("`, `"), when_in_effect(fixed));
                    warn!("`{keys}` changed: that takes effect {when}");
                }
            }
            Err(why) => {
                self.reloads.failed();
                error!(reason, "not reloaded, what was in force stays: {}", ShownLines(why));
            }
        }
        let trial = self.packets.as_ref().map_or(TrialStatus::None, NetworkLayer::trial);
        done.map(|fixed| {
            let network = self.policy.network.as_ref();
            let kept = network.iter().flat_map(|network| &network.lists).filter(|part| part.is_kept);
            let application = self.policy.application.as_ref();
            let networks = application.iter().flat_map(|application| &application.sources.networks);
            let kept = kept
                .flat_map(|part| &part.file)
                .chain(networks.filter(|file| file.is_kept).map(|file| &file.file));
            let kept: BTreeSet<String> = kept.map(|file| file.display().to_string()).collect();
            json!({
                "reloaded": true,
                "rules": on_packets,
                "request_limits": on_requests,
                "trial": trial,
                "needs_restart": fixed,
                "kept_lists": kept,
            })
        })
    }

    fn note_reload(&self, reason: &str, done: &Result<Vec<&'static str>, String>) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let keys = done.iter().flatten().map(|key| (*key).to_owned());
        self.last_reload.note(LastReload {
            reason: reason.to_owned(),
            at: now.as_secs(),
            error: done.as_ref().err().cloned(),
            needs_restart: keys.collect(),
        });
    }

    /// Returns the keys whose change does not count yet.
    fn try_reload(
        &mut self,
        trial: Option<Nanos>,
        read: Result<Checked, String>,
    ) -> Result<Vec<&'static str>, String> {
        let Checked { mut policy, warnings } = read?;
        let fixed = fixed::keep(&mut policy, &self.policy);
        warnings.iter().for_each(|warning| warn!("{}", Shown(warning)));
        self.put_in_force(&policy, trial)?;
        if asks_auth(&self.policy) && !asks_auth(&policy) {
            warn!(
                "`application.auth` is gone: `/v1/auth` answers 404 now, for which proxies refuse requests"
            );
        }
        fixed::keep_listen(&mut policy, &self.policy);
        self.policy = policy;
        self.spare();
        Ok(fixed)
    }

    /// Neither what the allow list names nor proxies that are trusted are banned by rules on requests.
    fn spare(&self) {
        if let Some((layer, network)) = self.requests.as_ref().zip(self.policy.network.as_ref()) {
            let proxies = self.policy.application.iter().flat_map(|application| &application.proxy);
            let trusted = proxies.flat_map(|listener| listener.proxy_protocol.trusted());
            let never = network.allow.iter().chain(trusted).copied().collect();
            layer.servers().offenders().spare(PrefixList::new(never));
        }
    }

    /// Both layers or neither.
    fn put_in_force(&mut self, policy: &Policy, trial: Option<Nanos>) -> Result<(), String> {
        type Put = fn(&Layer, &Application) -> Result<(), LayerError>;
        let layer = self.requests.as_ref();
        let requests = |put: Put, policy: &Policy| {
            let both = layer.zip(policy.application.as_ref());
            both.map_or(Ok(()), |(layer, application)| put(layer, application))
        };
        requests(Layer::reload, policy).map_err(|error| error.to_string())?;
        let packets = self.packets.as_mut().zip(policy.network.as_ref());
        packets.map_or(Ok(()), |(packets, network)| packets.reload(network, trial)).inspect_err(|_| {
            if let Err(error) = requests(Layer::go_back, &self.policy) {
                error!("the old rules on requests can't be put back in force: {error}");
            }
        })
    }

    /// Moves windows to where they lie by the wall clock, if that was set.
    pub fn follow_clock(&mut self) {
        let requests = self.requests.as_ref().zip(self.policy.application.as_ref());
        let requests = requests.map_or(Ok(false), |(layer, application)| layer.follow_clock(application));
        let packets = self.packets.as_mut().map_or(Ok(false), NetworkLayer::follow_clock);
        let all = [requests.map_err(|error| error.to_string()), packets];
        if all.contains(&Ok(true)) {
            info!("the clock was set: windows are aligned to it now");
        }
        for error in all.into_iter().filter_map(Result::err) {
            error!(
                "the clock was set, but windows can't be aligned to it yet; the next try is in a minute \
                 or at a reload: {}",
                ShownLines(&error)
            );
        }
    }

    /// Returns when the trial is over, whichever way it went.
    pub async fn trial_over(&self) {
        match &self.packets {
            Some(packets) => packets.trial_over().await,
            None => std::future::pending().await,
        }
    }

    /// Returns when the interfaces are to be looked at again.
    pub async fn retry(&self) {
        match &self.packets {
            Some(packets) => packets.retry().await,
            None => std::future::pending().await,
        }
    }

    /// Says how the trial ended.
    pub fn note_trial(&mut self) {
        if let Some(packets) = &mut self.packets {
            packets.note_trial();
        }
    }

    /// Switches all rules on packets to observing, or back.
    ///
    /// # Errors
    /// Why it stays as it was.
    pub fn observe(&mut self, observes: bool) -> Result<Value, String> {
        let Some(packets) = &mut self.packets else {
            return Err(format!(
                "{NO_PACKETS}; `application.shadow_mode` lets every request pass, by a reload"
            ));
        };
        packets.observe(observes)
    }

    /// A source's buckets.
    ///
    /// # Errors
    /// There is no such rule, or none that has a bucket for the source.
    pub fn buckets(&self, asked: &AskedBuckets, bans: Option<&Bans>) -> Result<Value, String> {
        let (packets, bans) = self.packets.as_ref().zip(bans).ok_or(NO_PACKETS)?;
        packets.buckets(asked, bans)
    }

    /// Attaches where the program is missing.
    pub fn reconcile(&mut self) {
        if let Some(packets) = &mut self.packets {
            packets.reconcile();
        }
    }

    /// Ends the daemon's work, which gives up the instance too. What has been asked about requests is answered first.
    ///
    /// # Errors
    /// A pin can't be removed, or counts can't be saved.
    pub async fn stop(self, wanted: Option<OnExit>, reason: &str) -> Result<()> {
        let mut saved = Ok(());
        if let Some(layer) = self.requests {
            info!(reason, "answering what has been asked, then stopping");
            saved = layer.stop().await.context("counts are lost");
        }
        if let Err(error) = &saved {
            error!("{}", Shown(format!("{error:#}")));
        }
        self.packets.map_or(Ok(()), |packets| packets.stop(wanted, reason)).and(saved)
    }
}
