//! Recorded arrivals through limits.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, BufWriter, Write},
    path::Path,
};

use ratelimit_common::limit::LimitSpec;

use crate::cli::{
    failure::CommandFailure,
    output::{Output, complain},
    table::TextTable,
};
use crate::{
    config::limit::format_limit,
    limiter::LimiterError,
    simulate::{ArrivalError, Arrivals, LimitTrial, Seconds, write_json, write_json_summary, write_text},
};

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

/// Runs the arrivals through the limits.
///
/// # Errors
/// A line is wrong, or something can't be read or written.
pub fn run(limits: Vec<LimitSpec>, file: Option<&Path>, output: Output) -> Result<(), CommandFailure> {
    let mut trials: Vec<LimitTrial> = limits.into_iter().map(LimitTrial::new).collect();
    let mut out = BufWriter::new(io::stdout().lock());
    let done = match file {
        None => play(Arrivals::new(io::stdin().lock(), "-"), &mut trials, output, &mut out),
        Some(path) => match File::open(path) {
            Ok(file) => {
                play(Arrivals::new(BufReader::new(file), path.display()), &mut trials, output, &mut out)
            }
            Err(error) => return Err(CommandFailure::failed(format_args!("{}: {error}", path.display()))),
        },
    };
    // What was decided before a wrong line is printed before the message.
    let flushed = out.flush().map_err(SimulateError::Write);
    done.and(flushed).or_else(failure)?;
    note_forgotten(&trials);
    Ok(())
}

fn play(
    mut arrivals: Arrivals<impl BufRead>,
    trials: &mut [LimitTrial],
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

fn write_summaries(out: &mut impl Write, trials: &[LimitTrial], is_after_lines: bool) -> io::Result<()> {
    let mut table = TextTable::new(["LIMIT", "ALLOWED", "DENIED", "LONGEST_WAIT", "LARGEST_BURST"]);
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
fn note_forgotten(trials: &[LimitTrial]) {
    for trial in trials.iter().filter(|trial| trial.forgotten() > 0) {
        let (limit, count) = (format_limit(trial.spec()), trial.forgotten());
        complain(&format_args!(
            "ratelimit: {limit}: more keys at once than there is room for; {count} were forgotten while in use"
        ));
    }
}

fn failure(error: SimulateError) -> Result<(), CommandFailure> {
    match error {
        // Whoever closed the output early, as `head` does, has seen enough.
        SimulateError::Write(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        SimulateError::Arrivals(error @ ArrivalError::Line { .. }) => Err(CommandFailure::wrong_file(error)),
        error => Err(CommandFailure::failed(error)),
    }
}
