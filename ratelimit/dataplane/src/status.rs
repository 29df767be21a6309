//! What is in force and what it has done, read from the pins: it needs no daemon.

use std::{collections::BTreeMap, fs};

use aya::maps::Map;
use ratelimit_common::{table::SLOTS, time::Nanos, wire::Reason};
use serde::{Deserialize, Serialize};

use super::{
    Attachment, Bans, Error, ListSize, LoadedPolicy, PacketCount, RuleInForce, TrialState, attach, check,
    counters,
    generation::{RULE_BANS, RULE_OBSERVED},
    netlink,
    notes::read_state,
    offloads,
    pins::Pins,
    state::InstanceState,
    system, trial,
};
use crate::policy::InstanceName;

/// An instance's state.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct InstanceStatus {
    /// The instance.
    pub instance: String,
    /// The configuration file that is in force.
    pub config: String,
    /// Since when, in seconds since the Unix epoch.
    pub since: u64,
    /// What a clean stop does: `detach` or `keep`.
    pub on_exit: String,
    /// Where the program is attached.
    pub interfaces: Vec<Attachment>,
    /// Names of interfaces that it is for and that lack it: they are gone, or refuse it.
    #[serde(default)]
    pub missing: Vec<String>,
    /// Names of interfaces of the configuration file that `--interface` has left out.
    #[serde(default)]
    pub left_out: Vec<String>,
    /// Names of interfaces of another network namespace than this process is in: it can't see whether they have it.
    #[serde(default)]
    pub out_of_sight: Vec<String>,
    /// Why those of them that are there lack it, as far as that can be told.
    #[serde(default)]
    pub obstacles: BTreeMap<String, String>,
    /// What the rules can't do on these interfaces, and what to do about it.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// Prefixes on the allow list.
    pub allow: usize,
    /// Prefixes on the deny list.
    pub deny: usize,
    /// Where the prefixes of lists come from, and how many they are.
    #[serde(default)]
    pub lists: Vec<ListSize>,
    /// Bans in force.
    pub bans: usize,
    /// Whether every rule only observes, by `ratelimit observe on`.
    pub observes: bool,
    /// Whether the rules are on trial.
    pub trial: TrialStatus,
    /// All packets, by the reason for their verdict.
    pub reasons: Vec<ReasonStatus>,
    /// The rules, in the configuration's order.
    pub rules: Vec<RuleStatus>,
    /// The bucket table.
    pub table: TableStatus,
    /// Events of packets that were dropped, or would have been.
    pub events: EventStatus,
}

impl InstanceStatus {
    /// Whether packets are limited anywhere.
    #[must_use]
    pub fn is_limiting(&self) -> bool {
        !self.interfaces.is_empty() && self.trial != TrialStatus::Failed
    }
}

/// Events of packets.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct EventStatus {
    /// Handed over to the daemon.
    pub written: u64,
    /// Lost, because the daemon was not there or too slow.
    pub lost: u64,
}

/// How a trial stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrialStatus {
    /// There is none.
    None,
    /// Everything will pass after so many seconds, unless the rules are confirmed.
    SecondsLeft(u64),
    /// Nobody has confirmed the rules in time: everything passes.
    Failed,
}

impl From<TrialState> for TrialStatus {
    fn from(trial: TrialState) -> Self {
        match trial {
            TrialState::None => Self::None,
            TrialState::Left(left) => Self::SecondsLeft(left.0.div_ceil(Nanos::SECOND.0)),
            TrialState::Failed => Self::Failed,
        }
    }
}

/// Packets that passed or were dropped for one reason.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReasonStatus {
    /// The reason's name.
    pub reason: String,
    /// `pass` or `drop`.
    pub verdict: String,
    /// How many.
    #[serde(flatten)]
    pub count: PacketCount,
}

/// A rule and what it has done.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RuleStatus {
    /// The rule.
    #[serde(flatten)]
    pub rule: RuleInForce,
    /// Packets that it allowed and that passed.
    pub passed: PacketCount,
    /// Packets that it dropped.
    pub dropped: PacketCount,
    /// Packets that passed, and that it would have dropped if it had not only observed.
    #[serde(default)]
    pub observed: PacketCount,
    /// Bans that it has made.
    #[serde(default)]
    pub bans: u64,
}

/// The bucket table.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TableStatus {
    /// How many buckets it has room for.
    pub buckets: u64,
    /// Its memory in bytes.
    pub bytes: u64,
    /// Buckets in use that had to give way to others.
    pub live_evictions: u64,
    /// Packets denied because processors met at the same bucket too often.
    pub exhausted_tries: u64,
    /// Bans that rules have made.
    pub bans_made: u64,
    /// Bans in force that had to give way to others.
    pub bans_replaced: u64,
}

/// Reads an instance's state.
///
/// # Errors
/// It is not attached, or its pins can't be read.
pub fn status(instance: &InstanceName) -> Result<InstanceStatus, Error> {
    check("look at limits in the kernel")?;
    let pins = Pins::new(instance)?;
    let (in_force, state) = complete(&pins, read_state(&pins)?)?;
    let attachments = attach::attachments(&pins)?;
    let namespaces = in_force.namespace.zip(system::network_namespace());
    let (out_of_sight, missing) = match namespaces.is_some_and(|(theirs, own)| theirs != own) {
        true => (in_force.interfaces, Vec::new()),
        false => (Vec::new(), missing(&in_force.interfaces, &attachments)),
    };
    let rule_counters = RuleMaps::open(&pins)?;
    Ok(InstanceStatus {
        instance: instance.to_string(),
        config: in_force.config.display().to_string(),
        since: in_force.since,
        on_exit: if in_force.keeps_on_exit { "keep" } else { "detach" }.to_owned(),
        obstacles: obstacles(&pins, &missing)?,
        missing,
        left_out: in_force.left_out,
        out_of_sight,
        warnings: offloads::warnings(in_force.asks, &attachments),
        interfaces: attachments,
        allow: in_force.allow,
        deny: in_force.deny,
        lists: in_force.lists,
        bans: Bans::open(instance)?.count()?,
        observes: state.observes,
        trial: trial::trial(&pins, in_force.is_on_trial)?.into(),
        reasons: reasons(&pins)?,
        rules: in_force.rules.into_iter().map(|rule| rule_counters.status(rule)).collect::<Result<_, _>>()?,
        table: table(&pins, state.sets)?,
        events: events(&pins)?,
    })
}

/// The names without an interface that has the program; one that has been renamed is none of them.
fn missing(wanted: &[String], attachments: &[Attachment]) -> Vec<String> {
    let is_attached = |name: &&String| attachments.iter().any(|attachment| attachment.interface == **name);
    let lacking = wanted.len().saturating_sub(attachments.len());
    wanted.iter().filter(|name| !is_attached(name)).take(lacking).cloned().collect()
}

/// What is in the way of the program at interfaces that are there and lack it.
fn obstacles(pins: &Pins, missing: &[String]) -> Result<BTreeMap<String, String>, Error> {
    if missing.is_empty() {
        return Ok(BTreeMap::new());
    }
    let all = netlink::interfaces()?;
    let is_missing = |interface: &&netlink::HostInterface| missing.contains(&interface.name);
    let why = |interface: &netlink::HostInterface| match attach::obstacle(pins, &all, interface) {
        Some(error) => error.to_string(),
        None => format!("{} lacks the program; the daemon's log says why", interface.name),
    };
    Ok(all.iter().filter(is_missing).map(|interface| (interface.name.clone(), why(interface))).collect())
}

/// What is in force, if all of it is, or if a daemon is about to replace it; and the notes.
fn complete(pins: &Pins, state: Option<InstanceState>) -> Result<(LoadedPolicy, InstanceState), Error> {
    let Some(state) = state else { return Err(incomplete(pins, None)?) };
    match state.in_force.clone() {
        Some(in_force) if !state.is_starting || pins.is_locked()? => Ok((in_force, state)),
        _ => Err(incomplete(pins, Some(&state))?),
    }
}

/// Why there is no status.
fn incomplete(pins: &Pins, state: Option<&InstanceState>) -> Result<Error, Error> {
    let instance = pins.instance().to_string();
    if pins.is_locked()? {
        return Ok(Error::Starting { instance });
    }
    if state.is_none() {
        return Ok(Error::NotAttached { instance });
    }
    let attachments = attach::attachments(pins)?;
    let names: Vec<&str> = attachments.iter().map(|attachment| attachment.interface.as_str()).collect();
    let interfaces = if names.is_empty() { "no interface".to_owned() } else { names.join(", ") };
    Ok(Error::Incomplete { instance, interfaces })
}

fn open(pins: &Pins, name: &str) -> Result<Map, Error> {
    pins.map(name).map(Map::PerCpuArray)
}

fn reasons(pins: &Pins) -> Result<Vec<ReasonStatus>, Error> {
    let map = open(pins, "REASONS")?;
    let read = |reason: &Reason| {
        Ok(ReasonStatus {
            reason: reason.name().to_owned(),
            verdict: if reason.is_drop() { "drop" } else { "pass" }.to_owned(),
            count: counters::reason(&map, *reason)?,
        })
    };
    Reason::ALL.iter().map(read).collect()
}

/// Where rules are counted.
struct RuleMaps {
    counters: Map,
    /// `None` while a version is in force that did not count them by rule; likewise what was observed.
    bans: Option<Map>,
    observed: Option<Map>,
}

impl RuleMaps {
    fn open(pins: &Pins) -> Result<Self, Error> {
        let [bans, observed] = [RULE_BANS, RULE_OBSERVED].map(|name| made_later(pins, name));
        Ok(Self { counters: open(pins, "RULE_COUNTERS")?, bans: bans?, observed: observed? })
    }

    fn status(&self, rule: RuleInForce) -> Result<RuleStatus, Error> {
        let Self { counters, bans, observed } = self;
        let (passed, dropped) = counters::rule(counters, rule.number)?;
        let bans = bans.as_ref().map(|bans| counters::rule_bans(bans, rule.number)).transpose()?;
        let observed = observed.as_ref().map(|observed| counters::rule_observed(observed, rule.number));
        let (observed, bans) = (observed.transpose()?.unwrap_or_default(), bans.unwrap_or_default());
        Ok(RuleStatus { rule, passed, dropped, observed, bans })
    }
}

fn made_later(pins: &Pins, name: &str) -> Result<Option<Map>, Error> {
    let path = pins.maps().join(name);
    let is_there = fs::exists(&path).map_err(|error| Error::file(&path, error))?;
    if is_there { open(pins, name).map(Some) } else { Ok(None) }
}

fn events(pins: &Pins) -> Result<EventStatus, Error> {
    counters::events(&open(pins, "EVENT_COUNTERS")?)
}

fn table(pins: &Pins, sets: u32) -> Result<TableStatus, Error> {
    let counters = counters::table(&open(pins, "TABLE_COUNTERS")?)?;
    let buckets = u64::from(sets) * SLOTS as u64;
    Ok(TableStatus {
        buckets,
        bytes: buckets * 16,
        live_evictions: counters.live_evictions,
        exhausted_tries: counters.exhausted_tries,
        bans_made: counters.bans_made,
        bans_replaced: counters.bans_replaced,
    })
}
