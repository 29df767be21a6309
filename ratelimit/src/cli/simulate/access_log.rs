//! An access log through the rules on requests of a configuration.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, BufWriter, Write},
    path::Path,
};

use serde_json::json;

use crate::{
    cli::{
        failure::CommandFailure,
        output::{Output, complain},
        table::TextTable,
    },
    config,
    simulate::{AccessLog, Disorder, LogLine, NotedLines, RequestTrial, TimedLog},
    text::Shown,
};

/// Descriptors that the summary shows.
const TOP: usize = 10;

/// How a log was read.
#[derive(Default)]
struct LogReading {
    unread: NotedLines,
    disorder: Disorder,
}

/// Runs it.
///
/// # Errors
/// The configuration is wrong or does not say what requests are asked about, or something can't be read or written.
pub fn run(configuration: &Path, log: &Path, output: Output) -> Result<(), CommandFailure> {
    let policy = config::load(configuration)?;
    let trial =
        policy.application.as_ref().map(RequestTrial::new).transpose().map_err(CommandFailure::failed)?;
    let Some(mut trial) = trial.flatten() else {
        let file = configuration.display();
        let message = "no `application.auth`: add it, to say what a request is asked about";
        return Err(CommandFailure::wrong_usage(format_args!("{file}: {message}")));
    };
    let name = log.display();
    let reader: Box<dyn BufRead> = match log {
        path if path == Path::new("-") => Box::new(io::stdin().lock()),
        path => match File::open(path) {
            Ok(file) => Box::new(BufReader::new(file)),
            Err(error) => return Err(CommandFailure::failed(format_args!("{name}: {error}"))),
        },
    };
    let mut out = BufWriter::new(io::stdout().lock());
    let done = play(AccessLog::new(reader), &mut trial, output, &mut out);
    let flushed = out.flush();
    let reading = match done.and_then(|reading| flushed.map(|()| reading)) {
        Ok(reading) => reading,
        // Whoever closed the output early, as `head` does, has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
        Err(error) => return Err(CommandFailure::failed(format_args!("{name}: {error}"))),
    };
    match reading.unread.first {
        Some(line) if trial.summary().is_empty() => Err(CommandFailure::wrong_file(format_args!(
            "{name}:{line}: no line has the combined format of nginx or Apache"
        ))),
        _ => {
            warn(log, &reading);
            Ok(())
        }
    }
}

/// Says what the summary can't be trusted in.
fn warn(log: &Path, reading: &LogReading) {
    let LogReading { unread, disorder: Disorder { very_late, ahead, .. } } = reading;
    for (noted, what) in [
        (unread, "not a line of the combined format; such lines were passed over"),
        (
            ahead,
            "more than a minute ahead of most lines after it; such requests were judged at the time of the lines \
             around them",
        ),
        (
            very_late,
            "more than a minute before a line above it; such requests were judged at the time of that \
             line: sort the log by \
             time, or give older files first",
        ),
    ] {
        if let Some(line) = noted.first {
            complain(&Shown(format_args!("{}:{line}: {what} ({} in all)", log.display(), noted.count)));
        }
    }
}

fn play(
    log: AccessLog<Box<dyn BufRead>>,
    trial: &mut RequestTrial,
    output: Output,
    out: &mut impl Write,
) -> io::Result<LogReading> {
    let (mut log, mut reading) = (TimedLog::new(log), LogReading::default());
    while let Some((number, line)) = log.next_line()? {
        let LogLine::Request(request) = line else {
            reading.unread.note(number);
            continue;
        };
        let report = trial.judge(number, &request, log.now());
        if output == Output::Json {
            serde_json::to_writer(&mut *out, &report)?;
            writeln!(out)?;
        }
    }
    reading.disorder = *log.disorder();
    match output {
        Output::Text => write_summary(trial, &reading, out)?,
        Output::Json => write_json_summary(trial, &reading, out)?,
    }
    Ok(reading)
}

fn write_summary(trial: &RequestTrial, reading: &LogReading, out: &mut impl Write) -> io::Result<()> {
    let summary = trial.summary();
    let mut table = TextTable::new(["REQUESTS", "COUNT"]);
    let rows = [
        ("allowed", summary.allowed),
        ("  above a soft limit", summary.soft),
        ("  without a limit", summary.unlimited),
        ("denied", summary.denied),
        ("refused", summary.refused),
        ("late", reading.disorder.late.count),
        ("ahead", reading.disorder.ahead.count),
        ("unread", reading.unread.count),
    ];
    let shown = |(name, count): &(&str, u64)| *count > 0 || ["allowed", "denied"].contains(name);
    for (name, count) in rows.into_iter().filter(shown) {
        table.row([name.to_owned(), count.to_string()]);
    }
    writeln!(out, "{table}")?;
    let mut table = TextTable::new(["RULE", "HITS", "WITHIN", "NEAR", "OVER", "OBSERVED"]);
    for (label, counts) in trial.rules().into_iter().filter(|(_, counts)| counts.total_hits > 0) {
        let numbers = [
            counts.total_hits,
            counts.within_limit,
            counts.near_limit,
            counts.over_limit,
            counts.shadow_mode,
        ];
        let [hits, within, near, over, observed] = numbers.map(|count| count.to_string());
        table.row([Shown(&label.key).to_string(), hits, within, near, over, observed]);
    }
    write!(out, "{table}")?;
    let denied = summary.denied_most(TOP);
    if !denied.is_empty() {
        let mut table = TextTable::new(["DENIED MOST", "COUNT"]);
        for (name, count) in denied {
            table.row([Shown(name).to_string(), count.to_string()]);
        }
        write!(out, "\n{table}")?;
    }
    Ok(())
}

fn write_json_summary(trial: &RequestTrial, reading: &LogReading, out: &mut impl Write) -> io::Result<()> {
    let summary = trial.summary();
    let rules: Vec<_> = trial
        .rules()
        .into_iter()
        .map(|(label, counts)| {
            json!({
                "domain": label.domain,
                "rule": label.key,
                "total_hits": counts.total_hits,
                "within_limit": counts.within_limit,
                "near_limit": counts.near_limit,
                "over_limit": counts.over_limit,
                "shadow_mode": counts.shadow_mode,
                "soft_limit": counts.soft_limit,
                "cut": counts.cut,
            })
        })
        .collect();
    let denied: Vec<_> = summary
        .denied_most(TOP)
        .into_iter()
        .map(|(descriptor, count)| json!({"descriptor": descriptor, "count": count}))
        .collect();
    let summary = json!({"summary": {
        "allowed": summary.allowed,
        "soft": summary.soft,
        "unlimited": summary.unlimited,
        "denied": summary.denied,
        "refused": summary.refused,
        "late": reading.disorder.late.count,
        "very_late": reading.disorder.very_late.count,
        "ahead": reading.disorder.ahead.count,
        "unread": reading.unread.count,
        "rules": rules,
        "denied_most": denied,
    }});
    writeln!(out, "{summary}")
}
