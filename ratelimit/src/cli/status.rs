//! `ratelimit status`: what is in force and what it has done.

mod file;
mod requests;

use std::{
    fmt,
    path::PathBuf,
    time::{Duration, SystemTime},
};

use clap::Args;
use serde::Serialize;
use serde_json::json;

use super::{
    InstanceArgs, answer_with,
    failure::CommandFailure,
    instance::out_of_sight,
    output::Output,
    rules::{NO_RULES, Observed, share},
    table::TextTable,
};
use crate::{
    control::{self, ControlError},
    dataplane::{self, Error, InstanceStatus, ReasonStatus, RuleStatus, TrialStatus, everything_passes},
    policy::InstanceName,
    server::LayerStatus,
    text::Thousands,
};
use file::FileState;
pub use requests::Rules as RequestRules;
use requests::{Counts, Head};

/// Rules on requests that are shown at most, and domains.
const MOST_RULES: usize = 100;

/// Shows what is in force, where, and how many packets and requests have passed and how many have not.
#[derive(Debug, Args)]
pub struct Show {
    #[command(flatten)]
    pub instance: InstanceArgs,
}

/// A warning if the file of an instance is not in force as it is now, else nothing; and whether it is, as far as
/// anybody knows.
pub fn file_in_force(instance: InstanceArgs) -> (String, bool) {
    let answer = Show { instance }.answer();
    answer
        .map_or_else(|_| (String::new(), true), |answer| (answer.file.to_string(), answer.file.file_in_force))
}

/// Whether an instance may still have a daemon for which the kernel has nothing.
pub const fn has_no_network(error: &Error) -> bool {
    matches!(error, Error::NotAttached { .. } | Error::NoPermission { .. } | Error::NoBpffs { .. })
}

/// The answer.
#[derive(Serialize)]
struct StatusAnswer {
    /// The process id, or null: limits are in force without a daemon, too.
    daemon: Option<i32>,
    /// Where a daemon that is running does not answer.
    #[serde(skip)]
    mute: Option<PathBuf>,
    /// Whether anything is dropped: not after a trial that nobody confirmed.
    in_force: bool,
    #[serde(flatten)]
    status: InstanceStatus,
    #[serde(flatten)]
    file: FileState,
    /// What is in force about requests, if anything.
    application: Option<LayerStatus>,
    /// Why that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    application_error: Option<String>,
}

/// The same of a daemon that has nothing in the kernel, as far as can be seen from here.
#[derive(Serialize)]
struct Requests {
    daemon: i32,
    instance: String,
    network: bool,
    #[serde(flatten)]
    file: FileState,
    application: Option<LayerStatus>,
}

impl Show {
    /// Shows.
    ///
    /// # Errors
    /// The instance is not attached, or can't be looked at.
    pub fn run(self, output: Output) -> Result<(), CommandFailure> {
        let error = match self.answer() {
            Ok(answer) => return answer_with(output, &answer, &json!(answer)),
            Err(error) => error,
        };
        if !has_no_network(&error) {
            return Err(CommandFailure::failed(error));
        }
        // A daemon that does not answer is another matter than none.
        let found = self.daemon_without_network().map_err(CommandFailure::failed)?;
        let Some((daemon, path)) = found else { return Err(CommandFailure::failed(error)) };
        let instance = self.instance.instance.to_string();
        let application = control::requests(&path, &self.instance.instance, MOST_RULES);
        let application = application.map_err(CommandFailure::failed)?;
        let network = control::limits_packets(&path, &self.instance.instance);
        let reload = control::last_reload(&path, &self.instance.instance).ok();
        let config = application.as_ref().map_or(("FILE", 0), |layer| (&layer.config, layer.since));
        let file = FileState::of(reload, config.0, config.1);
        let answer = Requests { daemon, instance, network, file, application };
        answer_with(output, &answer, &json!(answer))
    }

    /// The process that answers for an instance that has nothing in the kernel, and where.
    fn daemon_without_network(&self) -> Result<Option<(i32, PathBuf)>, ControlError> {
        let default = || control::default_path(&self.instance.instance).ok();
        let Some(path) = self.instance.control.clone().or_else(default) else { return Ok(None) };
        Ok(control::daemon(&path)?.map(|process| (process, path)))
    }

    fn answer(&self) -> Result<StatusAnswer, Error> {
        let instance = &self.instance.instance;
        let status = dataplane::status(instance)?;
        let (noted, is_running) = dataplane::daemon(instance)?;
        let noted = noted.filter(|_| is_running);
        let process = noted.as_ref().map(|daemon| daemon.process.cast_signed());
        let path = self.instance.control.clone().or(noted.map(|daemon| daemon.control));
        let path = path.or_else(|| control::default_path(instance).ok()).filter(|_| is_running);
        let answering = path.as_deref().and_then(|path| control::daemon(path).ok().flatten());
        // What it has in the kernel is told even if it does not answer.
        let asked = path.as_deref().filter(|_| answering.is_some());
        let application = asked.map(|path| control::requests(path, instance, MOST_RULES)).transpose();
        let (application, application_error) = match application {
            Ok(application) => (application.flatten(), None),
            Err(error) => (None, Some(error.to_string())),
        };
        let reload = asked.and_then(|path| control::last_reload(path, instance).ok());
        let file = FileState::of(reload, &status.config, status.since);
        let mute = path.filter(|_| answering.is_none());
        let daemon = answering.or(process);
        let in_force = status.trial != TrialStatus::Failed;
        Ok(StatusAnswer { daemon, mute, in_force, status, file, application, application_error })
    }
}

impl fmt::Display for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "instance    {}", self.instance)?;
        writeln!(f, "daemon      running, process {}", self.daemon)?;
        if self.network {
            writeln!(f, "network     {}", out_of_sight("the", self.daemon))?;
        } else {
            writeln!(f, "network     {NO_RULES}")?;
        }
        let Some(layer) = &self.application else { return write!(f, "{}", self.file) };
        write!(f, "{}{}", Head { layer, has_config: false }, self.file)?;
        write!(f, "\n{}", Counts(&layer.service))
    }
}

impl fmt::Display for StatusAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let status = &self.status;
        writeln!(f, "instance    {}", status.instance)?;
        match (self.daemon, &self.mute) {
            (Some(process), None) => writeln!(f, "daemon      running, process {process}")?,
            (Some(process), Some(path)) => {
                writeln!(
                    f,
                    "daemon      running, process {process}, but nobody answers at {}",
                    path.display()
                )?;
            }
            (None, Some(path)) => {
                writeln!(f, "daemon      running, but nobody answers at {}", path.display())?;
            }
            (None, None) if self.in_force => {
                writeln!(f, "daemon      not running; the limits are in force all the same")?;
            }
            (None, None) => writeln!(f, "daemon      not running")?,
        }
        let (config, age) = (&status.config, age(status.since));
        if self.in_force {
            writeln!(f, "config      {config}, in force for {age}")?;
        } else {
            writeln!(f, "config      {config}, loaded {age} ago, not in force")?;
        }
        if let Some(warning) = warning(status) {
            let first = if self.in_force || self.daemon.is_some() { "" } else { "; start the daemon first" };
            writeln!(f, "warning     {warning}{first}")?;
        }
        write!(f, "{}", self.file)?;
        for attachment in &status.interfaces {
            writeln!(f, "interface   {} ({})", attachment.interface, attachment.mode.name())?;
        }
        for name in &status.missing {
            match status.obstacles.get(name) {
                Some(why) => writeln!(f, "interface   {name}: not limited: {why}")?,
                None => writeln!(f, "interface   {name}: missing; it will be limited when it comes back")?,
            }
        }
        for name in &status.left_out {
            writeln!(f, "interface   {name}: not limited: the file has it, but `--interface` names others")?;
        }
        if !status.out_of_sight.is_empty() {
            let is_default = status.instance == InstanceName::default().as_str();
            let named = if is_default { String::new() } else { format!(" --instance {}", status.instance) };
            let how = self.daemon.map_or_else(
                || "look from there".to_owned(),
                |process| format!("look with `nsenter --target {process} --net ratelimit status{named}`"),
            );
            let names = status.out_of_sight.join(", ");
            writeln!(
                f,
                "interface   {names}: in another network namespace, not to be seen from here: {how}"
            )?;
        } else if status.interfaces.is_empty() && status.missing.is_empty() {
            writeln!(f, "interface   none: the one it was on is gone")?;
        }
        for warning in &status.warnings {
            writeln!(f, "warning     {warning}")?;
        }
        writeln!(f, "lists       {} allowed, {} denied, {} banned", status.allow, status.deny, status.bans)?;
        for list in status.lists.iter().filter(|list| list.file.is_some()) {
            writeln!(f, "            {list}")?;
        }
        let table = &status.table;
        writeln!(f, "table       {} buckets, {} MiB", Thousands(table.buckets), table.bytes >> 20)?;
        if table.live_evictions + table.exhausted_tries > 0 {
            writeln!(f, "            {} buckets in use gave way to others", table.live_evictions)?;
            writeln!(
                f,
                "            {} packets denied because processors met at a bucket",
                table.exhausted_tries
            )?;
        }
        if status.events.lost > 0 {
            writeln!(f, "events      {} lost: the daemon was not there or too slow", status.events.lost)?;
        }
        if let Some(layer) = &self.application {
            write!(f, "{}", Head { layer, has_config: true })?;
        }
        if let Some(error) = &self.application_error {
            writeln!(f, "requests    not known: {error}")?;
        }
        writeln!(f, "\n{}", packets(status))?;
        if status.rules.is_empty() {
            writeln!(f, "{NO_RULES}")?;
        } else {
            write!(f, "{}", rules(status))?;
            write!(f, "{}", Observed(&status.rules))?;
        }
        match &self.application {
            Some(layer) => write!(f, "\n{}", Counts(&layer.service)),
            None => Ok(()),
        }
    }
}

/// What of the rules is not in force as they are written.
fn warning(status: &InstanceStatus) -> Option<String> {
    match status.trial {
        TrialStatus::Failed => Some(everything_passes()),
        TrialStatus::SecondsLeft(seconds) => Some(format!(
            "on trial: everything passes in {seconds} s, unless `ratelimit confirm` comes before"
        )),
        TrialStatus::None if status.observes => {
            Some("all rules only observe, until `ratelimit observe off`".to_owned())
        }
        TrialStatus::None => None,
    }
}

/// How long ago this was, in seconds since the Unix epoch.
fn age(since: u64) -> humantime::FormattedDuration {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    humantime::format_duration(Duration::from_secs(now.as_secs().saturating_sub(since)))
}

fn packets(status: &InstanceStatus) -> TextTable {
    let mut table = TextTable::new(["PACKETS", "VERDICT", "COUNT", "SHARE", "BYTES"]);
    let all: u64 = status.reasons.iter().map(|reason| reason.count.packets).sum();
    // There are many reasons, of which few ever happen; these two are what one looks for.
    let is_shown = |reason: &&ReasonStatus| {
        reason.count.packets > 0 || matches!(reason.reason.as_str(), "passed" | "limited")
    };
    for ReasonStatus { reason, verdict, count } in status.reasons.iter().filter(is_shown) {
        table.row([
            reason.clone(),
            verdict.clone(),
            Thousands(count.packets).to_string(),
            share(count.packets, all),
            Thousands(count.bytes).to_string(),
        ]);
    }
    table
}

fn rules(status: &InstanceStatus) -> TextTable {
    let mut table =
        TextTable::new(["RULE", "LIMIT", "KEY", "ACTION", "PASSED", "DROPPED", "OBSERVED", "BANS"]);
    for RuleStatus { rule, passed, dropped, observed, bans } in &status.rules {
        let action = if status.observes { "observe" } else { &rule.action };
        table.row([
            rule.name.clone(),
            rule.limit.clone(),
            rule.key.clone(),
            action.to_owned(),
            Thousands(passed.packets).to_string(),
            Thousands(dropped.packets).to_string(),
            Thousands(observed.packets).to_string(),
            Thousands(*bans).to_string(),
        ]);
    }
    table
}
