//! `ratelimit simulate`: recorded arrivals, a capture or an access log through limits or rules, without touching
//! anything.

mod access_log;
mod arrivals;
mod capture;

use std::path::{Path, PathBuf};

use clap::{ArgGroup, Args};
use ratelimit_common::limit::{LimitSpec, StateStorage};

use self::capture::EngineName;
use super::{failure::CommandFailure, output::Output};
use crate::config::limit::parse_limit;

/// What goes together.
const USAGE: &str = "ratelimit simulate --limit <LIMIT>... [RECORDING]
       ratelimit simulate --config <FILE> [--engine <ENGINE>] [RECORDING]
       ratelimit simulate --config <FILE> --access-log <FILE>";

/// Runs recorded arrivals through limits, or a capture or an access log through a configuration's rules, and says what
/// would have passed. Touches nothing; time comes from the recording alone.
///
/// With --limit, the summary says for each limit how many requests were allowed and denied, what the longest wait was
/// (until a retry, or in a queue), and how large the largest burst was: the most that one key got through in any
/// stretch of the rate's time.
///
/// With --config, the summary says what would have passed and what would have been dropped: by reason, by rule, and for
/// the sources that each rule would have dropped most. With --output json there is an object for each frame instead.
///
/// With --config and --access-log, the rules on requests judge what `application.auth` makes of each line.
#[derive(Debug, Args)]
#[command(override_usage = USAGE)]
#[command(group = ArgGroup::new("by").required(true).args(["limits", "config"]))]
pub struct Simulate {
    /// A limit, such as `token_bucket,rate=10/s,burst=20`. Options: algorithm, rate, burst, refill, count_denied,
    /// on_limit, overrun. If given more than once, only the summaries are printed, to compare limits on the same
    /// arrivals.
    #[arg(long = "limit", value_name = "LIMIT", value_parser = limit)]
    limits: Vec<LimitSpec>,
    /// A configuration, whose rules judge the frames of a capture.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// What judges the frames.
    #[arg(long, value_enum, default_value_t, requires = "config", conflicts_with = "limits")]
    engine: EngineName,
    /// An access log of nginx or Apache, in the combined format, whose requests the rules of `application` judge; `-`
    /// is the standard input.
    #[arg(long, value_name = "FILE", requires = "config", conflicts_with_all = ["limits", "file", "engine"])]
    access_log: Option<PathBuf>,
    /// With --limit, arrivals, one on each line: SECONDS [KEY [COST]]. SECONDS are decimal and ascending (Unix times
    /// are fine), and COST is 1 if left out. With --config, a capture (pcap or pcapng) of Ethernet, raw IP or Linux
    /// cooked frames. `-`, or no recording, is the standard input.
    #[arg(value_name = "RECORDING")]
    file: Option<PathBuf>,
}

impl Simulate {
    /// Runs what was recorded.
    ///
    /// # Errors
    /// Something is wrong with it, or can't be read or written.
    pub fn run(self, output: Output) -> Result<(), CommandFailure> {
        let file = self.file.as_deref().filter(|file| *file != Path::new("-"));
        match (&self.config, &self.access_log) {
            (Some(configuration), Some(log)) => access_log::run(configuration, log, output),
            (Some(configuration), None) => capture::run(configuration, file, self.engine, output),
            (None, _) => arrivals::run(self.limits, file, output),
        }
    }
}

fn limit(text: &str) -> Result<LimitSpec, String> {
    let spec = parse_limit(text).map_err(|error| error.to_string())?;
    spec.build(StateStorage::UserSpace).map_err(|error| error.to_string())?;
    Ok(spec)
}
