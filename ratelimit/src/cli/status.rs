//! `ratelimit status`: what is in force and what it has done.

use std::{fmt, path::PathBuf, process::ExitCode};

use clap::Args;
use serde::Serialize;
use serde_json::json;

use super::{FAILED, InstanceArgs, answer_with, fail, output::Output, table::Table};
use crate::{
    control,
    dataplane::{self, Status},
};

/// Shows what is in force, where, and how many packets passed and were dropped.
#[derive(Debug, Args)]
pub struct Show {
    #[command(flatten)]
    instance: InstanceArgs,
    /// The daemon's control socket, if the configuration names another than the default one.
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
}

/// The answer.
#[derive(Serialize)]
struct Answer {
    /// The process id, or null: limits are in force without a daemon, too.
    daemon: Option<i32>,
    #[serde(flatten)]
    status: Status,
}

impl Show {
    /// Shows.
    #[must_use]
    pub fn run(self, output: Output) -> ExitCode {
        let instance = &self.instance.instance;
        let status = match dataplane::status(instance) {
            Ok(status) => status,
            Err(error) => return fail(FAILED, &error),
        };
        let path = self.control.unwrap_or_else(|| control::default_path(instance));
        let answer = Answer { daemon: control::daemon(&path), status };
        answer_with(output, &answer, &json!(answer))
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let status = &self.status;
        writeln!(f, "instance    {}", status.instance)?;
        match self.daemon {
            Some(pid) => writeln!(f, "daemon      running, process {pid}")?,
            None => writeln!(f, "daemon      not running; the limits are in force all the same")?,
        }
        writeln!(f, "config      {}", status.config)?;
        for attachment in &status.interfaces {
            writeln!(f, "interface   {} ({})", attachment.interface, attachment.mode.name())?;
        }
        if status.interfaces.is_empty() {
            writeln!(f, "interface   none: the one it was on is gone")?;
        }
        let table = &status.table;
        writeln!(f, "table       {} buckets, {} MiB", table.buckets, table.bytes >> 20)?;
        if table.live_evictions + table.exhausted_tries > 0 {
            writeln!(f, "            {} buckets in use gave way to others", table.live_evictions)?;
            writeln!(
                f,
                "            {} packets denied because processors met at a bucket",
                table.exhausted_tries
            )?;
        }
        writeln!(f, "\n{}", packets(status))?;
        write!(f, "{}", rules(status))
    }
}

fn packets(status: &Status) -> Table {
    let mut table = Table::new(["PACKETS", "VERDICT", "COUNT", "BYTES"]);
    for reason in &status.reasons {
        let (packets, bytes) = (reason.count.packets.to_string(), reason.count.bytes.to_string());
        table.row([reason.reason.clone(), reason.verdict.clone(), packets, bytes]);
    }
    table
}

fn rules(status: &Status) -> Table {
    let mut table = Table::new(["RULE", "LIMIT", "KEY", "ACTION", "PASSED", "DROPPED"]);
    for rule in &status.rules {
        let observes = if rule.rule.action == "observe" { " (observed)" } else { "" };
        table.row([
            rule.rule.name.clone(),
            rule.rule.limit.clone(),
            rule.rule.key.clone(),
            rule.rule.action.clone(),
            rule.passed.packets.to_string(),
            format!("{}{observes}", rule.dropped.packets),
        ]);
    }
    table
}
