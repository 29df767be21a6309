//! `ratelimit simulate`: recorded arrivals through limits, without touching anything.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, BufWriter, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use ratelimit_common::limit::{LimitSpec, Place};

use super::{FAILED, WRONG_USAGE, fail, output::Output, table::Table};
use crate::{
    config::limit::{format_limit, parse_limit},
    limiter::LimiterError,
    simulate::{ArrivalError, Arrivals, Seconds, Trial, write_json, write_json_summary, write_text},
};

/// Runs recorded arrivals through limits and says what each would have got. Touches nothing; time comes from the
/// recording alone.
///
/// The summary has, for each limit: requests allowed and denied, the longest that one had to wait (to come again, or in a
/// queue), and the largest burst: the most that one key got through in any time as long as the rate is for.
#[derive(Debug, Args)]
pub struct Simulate {
    /// A limit, such as `token_bucket,rate=10/s,burst=20`. Options: algorithm, rate, burst, refill, count_denied, on_limit.
    /// If given more than once, only the summaries are printed, to compare limits on the same arrivals.
    #[arg(long = "limit", required = true, value_name = "LIMIT", value_parser = limit)]
    limits: Vec<LimitSpec>,
    /// The arrivals, a line each: SECONDS [KEY [COST]], SECONDS decimal and ascending (Unix times are fine), COST 1 if not
    /// given. The standard input if not given, or `-`.
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
}

/// Why a simulation ended early.
#[derive(Debug, thiserror::Error)]
enum SimulateError {
    #[error(transparent)]
    Arrivals(#[from] ArrivalError),
    #[error(transparent)]
    Limiter(#[from] LimiterError),
    #[error("writing the answer: {0}")]
    Write(#[from] io::Error),
}

impl Simulate {
    /// Runs the arrivals through the limits.
    #[must_use]
    pub fn run(self, output: Output) -> ExitCode {
        let mut trials: Vec<Trial> = self.limits.into_iter().map(Trial::new).collect();
        let mut out = BufWriter::new(io::stdout().lock());
        let done = match self.file.as_deref().filter(|file| *file != Path::new("-")) {
            None => play(Arrivals::new(io::stdin().lock(), "-"), &mut trials, output, &mut out),
            Some(path) => match File::open(path) {
                Ok(file) => {
                    play(Arrivals::new(BufReader::new(file), path.display()), &mut trials, output, &mut out)
                }
                Err(error) => return fail(FAILED, &format_args!("{}: {error}", path.display())),
            },
        };
        // What was decided before a wrong line is printed before the message.
        let flushed = out.flush().map_err(SimulateError::Write);
        done.and(flushed).map_or_else(|error| report(&error), |()| note_forgotten(&trials))
    }
}

fn limit(text: &str) -> Result<LimitSpec, String> {
    let spec = parse_limit(text).map_err(|error| error.to_string())?;
    spec.build(Place::UserSpace).map_err(|error| error.to_string())?;
    Ok(spec)
}

fn play(
    mut arrivals: Arrivals<impl BufRead>,
    trials: &mut [Trial],
    output: Output,
    out: &mut impl Write,
) -> Result<(), SimulateError> {
    let is_alone = trials.len() == 1;
    while let Some(arrival) = arrivals.next_arrival()? {
        for trial in &mut *trials {
            let decision = trial.decide(&arrival)?;
            match output {
                _ if !is_alone => {}
                Output::Text => write_text(out, &arrival, &decision)?,
                Output::Json => write_json(out, &arrival, &decision)?,
            }
        }
    }
    match output {
        Output::Text => write_summaries(out, trials, is_alone)?,
        Output::Json => {
            for trial in trials {
                write_json_summary(out, &format_limit(trial.spec()), &trial.summary())?;
            }
        }
    }
    Ok(())
}

fn write_summaries(out: &mut impl Write, trials: &[Trial], is_after_lines: bool) -> io::Result<()> {
    let mut table = Table::new(["LIMIT", "ALLOWED", "DENIED", "LONGEST_WAIT", "LARGEST_BURST"]);
    for trial in trials {
        let summary = trial.summary();
        let wait = Seconds(summary.longest_wait).to_string();
        let counts = [summary.allowed, summary.denied, summary.largest_burst].map(|count| count.to_string());
        let [allowed, denied, burst] = counts;
        table.row([format_limit(trial.spec()), allowed, denied, wait, burst]);
    }
    if is_after_lines {
        writeln!(out)?;
    }
    write!(out, "{table}")
}

/// A limiter that had to forget keys decided otherwise than one with more room.
fn note_forgotten(trials: &[Trial]) -> ExitCode {
    for trial in trials.iter().filter(|trial| trial.forgotten() > 0) {
        let (limit, count) = (format_limit(trial.spec()), trial.forgotten());
        eprintln!(
            "ratelimit: {limit}: more keys at once than there is room for; {count} were forgotten while in use"
        );
    }
    ExitCode::SUCCESS
}

fn report(error: &SimulateError) -> ExitCode {
    match error {
        // Whoever closed the output early, as `head` does, has seen enough.
        SimulateError::Write(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        SimulateError::Arrivals(error @ ArrivalError::Line { .. }) => {
            eprintln!("{error}");
            ExitCode::from(WRONG_USAGE)
        }
        error => fail(FAILED, error),
    }
}
