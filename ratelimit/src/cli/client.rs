//! What is asked of a running daemon: `reload`, `observe`.

use std::{path::PathBuf, time::Duration};

use clap::{Args, ValueEnum};
use ratelimit_common::time::Nanos;
use serde_json::{Value, json};

use super::{
    InstanceArgs, answer_with,
    bans::Time,
    failure::CommandFailure,
    output::{Output, counted},
};
use crate::{
    config::parse_time,
    control::{self, ControlError, when_in_effect},
    dataplane,
    policy::InstanceName,
    server::LayerStatus,
};

/// Which daemon.
#[derive(Debug, Args)]
pub struct ClientArgs {
    #[command(flatten)]
    pub instance: InstanceArgs,
}

/// How long loading rules may take.
const LOADING: Duration = Duration::from_secs(60);

impl ClientArgs {
    /// Asks it to do something.
    pub(super) fn ask(&self, what: &str, asked: &Value, patience: Duration) -> Result<Value, CommandFailure> {
        let instance = &self.instance.instance;
        let path = self.path(instance).map_err(|error| no_place(&error))?;
        control::ask(&path, instance, what, asked, patience).map_err(|error| match error {
            ControlError::Refused(why) => CommandFailure::failed(why),
            ControlError::Nobody { .. } if is_without_daemon(instance) => {
                CommandFailure::failed(format_args!(
                    "no daemon serves instance `{instance}`, whose limits are in force without one: {}",
                    instead_of(what)
                ))
            }
            other => CommandFailure::failed(other),
        })
    }

    /// The instance.
    pub const fn instance(&self) -> &InstanceName {
        &self.instance.instance
    }

    /// What is in force about requests, with at most so many rules; `None` if nothing is, or no daemon is there.
    pub fn requests(&self, most: usize) -> Result<Option<LayerStatus>, ControlError> {
        let path = self.path(self.instance())?;
        match control::requests(&path, self.instance(), most) {
            Err(ControlError::Nobody { .. }) => Ok(None),
            answer => answer,
        }
    }

    /// Where the daemon is asked.
    fn path(&self, instance: &InstanceName) -> Result<PathBuf, ControlError> {
        // Without the rights to look at its notes it may still answer.
        let noted = || dataplane::daemon(instance).ok().and_then(|(noted, _)| noted);
        let known = self.instance.control.clone().or_else(|| noted().map(|daemon| daemon.control));
        known.map_or_else(|| control::default_path(instance), Ok)
    }
}

/// What is said to a user from whom the daemon, as a rule root's, is hidden.
pub const NO_PERMISSION: &str =
    "no permission to ask the daemon: be the user who has started it, as a rule root (`sudo`)";

/// That there is nowhere to ask: a user who has no place for sockets has started no daemon.
pub fn no_place(error: &ControlError) -> CommandFailure {
    match error {
        ControlError::NoPlace => CommandFailure::failed(NO_PERMISSION),
        error => CommandFailure::failed(error),
    }
}

/// Whether limits are in force that a daemon has left.
fn is_without_daemon(instance: &InstanceName) -> bool {
    dataplane::daemon(instance).is_ok_and(|(noted, is_running)| noted.is_some() && !is_running)
}

/// What does as well what only a daemon can be asked for.
fn instead_of(what: &str) -> &'static str {
    match what {
        "observe" => {
            "`ratelimit run --config FILE` takes them over and can then switch; a rule with `action: \
             observe` observes from the start; `ratelimit detach` lets everything pass at once"
        }
        "reload" => "`ratelimit run --config FILE` puts the file in force, and goes on with the buckets",
        _ => "`ratelimit run --config FILE` goes on with them, and can then be asked",
    }
}

/// Has the daemon read its configuration again and put it in force in one step; if anything is wrong with it, all stays
/// as it was.
#[derive(Debug, Args)]
pub struct Reload {
    /// Put the rules on packets on trial: unless `ratelimit confirm` comes within this time (such as 60s), everything
    /// passes from then on, even if the daemon is dead. Files that change meanwhile belong to the trial.
    #[arg(long, value_name = "TIME", value_parser = parse_time, allow_hyphen_values = true)]
    revert_after: Option<Nanos>,
    #[command(flatten)]
    pub daemon: ClientArgs,
}

impl Reload {
    /// Reloads.
    ///
    /// # Errors
    /// The configuration is wrong, or nobody answers.
    pub fn run(self, output: Output) -> Result<(), CommandFailure> {
        let asked = match self.revert_after {
            Some(time) => json!({"revert_after_seconds": time.0 / Nanos::SECOND.0}),
            None => json!({}),
        };
        let answer = self.daemon.ask("reload", &asked, LOADING)?;
        answer_with(output, &reloaded(&answer), &answer)
    }
}

/// An answer for people.
fn reloaded(answer: &Value) -> String {
    let count = |name: &str| answer[name].as_u64().unwrap_or_default();
    let (rules, limits) = (counted(count("rules"), "rule"), counted(count("request_limits"), "limit"));
    let mut text = format!("reloaded: {rules} on packets, {limits} on requests\n");
    if let Some(seconds) = answer["trial"]["seconds_left"].as_u64() {
        let left = Time(Nanos::from_secs(seconds));
        text += &format!("on trial: everything passes in {left}, unless `ratelimit confirm` comes before\n");
    }
    let texts = |name: &str| answer[name].as_array().into_iter().flatten().filter_map(Value::as_str);
    for file in texts("kept_lists") {
        let file = crate::text::Shown(file);
        text += &format!(
            "{file} is empty: what it had before stays in force; a comment in it says that this is meant\n"
        );
    }
    let keys: Vec<&str> = texts("needs_restart").collect();
    if !keys.is_empty() {
        text += &format!("in effect only {}: `{}`\n", when_in_effect(&keys), keys.join("`, `"));
    }
    text
}

/// Has the daemon make every rule on packets count without dropping, or drop again as its `action` says. Lists and bans
/// go on dropping.
#[derive(Debug, Args)]
pub struct Observe {
    /// `on`: no rule drops anything; `off`: rules drop again.
    #[arg(value_enum)]
    switch: Switch,
    #[command(flatten)]
    pub daemon: ClientArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Switch {
    On,
    Off,
}

impl Observe {
    /// Switches.
    ///
    /// # Errors
    /// The kernel refuses, or nobody answers.
    pub fn run(self, output: Output) -> Result<(), CommandFailure> {
        let on = self.switch == Switch::On;
        let answer = self.daemon.ask("observe", &json!({"on": on}), LOADING)?;
        let text = if on { "all rules only observe now\n" } else { "the rules drop again\n" };
        answer_with(output, &text, &answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_reloaded_is_counted_for_packets_and_requests() {
        let trial = json!({"state": "running", "seconds_left": 90});
        assert_eq!(
            reloaded(&json!({"reloaded": true, "rules": 0, "request_limits": 19, "trial": null})),
            "reloaded: 0 rules on packets, 19 limits on requests\n"
        );
        assert_eq!(
            reloaded(&json!({"reloaded": true, "rules": 1, "request_limits": 1, "trial": trial})),
            "reloaded: 1 rule on packets, 1 limit on requests\n\
             on trial: everything passes in 1m30s, unless `ratelimit confirm` comes before\n"
        );
        let fixed = ["instance", "application.store"];
        assert_eq!(
            reloaded(&json!({"reloaded": true, "rules": 0, "request_limits": 1, "needs_restart": fixed})),
            "reloaded: 0 rules on packets, 1 limit on requests\n\
             in effect only when the daemon starts again, for instance by `systemctl restart ratelimit`: \
             `instance`, `application.store`\n"
        );
    }
}
