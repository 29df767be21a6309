//! A capture through the rules of a configuration.

use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::Path,
};

use clap::ValueEnum;

use crate::{
    cli::{failure::CommandFailure, output::Output, table::TextTable},
    config, dataplane,
    policy::Network,
    simulate::{
        Capture, CaptureError, CaptureSummary, CapturedFrame, FrameCount, FrameEngine, FrameTally,
        HostEngine, KernelEngine, compile_for, report,
    },
    text::Shown,
};
use ratelimit_common::time::Nanos;

/// What judges the frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum EngineName {
    /// The same code, built for this process; needs no rights.
    #[default]
    User,
    /// The XDP program, loaded but attached to nothing; needs the rights to load it.
    Kernel,
}

/// Sources of a rule that the summary shows.
const TOP: usize = 10;

/// Why it ended early.
#[derive(Debug, thiserror::Error)]
enum CaptureRunError {
    #[error(transparent)]
    Capture(#[from] CaptureError),
    #[error(transparent)]
    Engine(#[from] dataplane::Error),
    #[error("writing the answer: {0}")]
    Write(#[from] io::Error),
}

/// Runs it.
///
/// # Errors
/// The configuration or the capture is wrong, or something can't be read, loaded or written.
pub fn run(
    configuration: &Path,
    file: Option<&Path>,
    engine: EngineName,
    output: Output,
) -> Result<(), CommandFailure> {
    let policy = config::load(configuration)?;
    let Some(network) = policy.network else {
        let file = configuration.display();
        return Err(CommandFailure::failed(format_args!("{file}: no `network`: nothing to judge frames by")));
    };
    let name = file.map_or("-".to_owned(), |file| file.display().to_string());
    let opened = match file {
        None => Capture::new(io::stdin()),
        Some(path) => match File::open(path) {
            Ok(file) => Capture::new(file),
            Err(error) => return Err(CommandFailure::failed(format_args!("{name}: {error}"))),
        },
    };
    let mut out = BufWriter::new(io::stdout().lock());
    let done = opened
        .map_err(CaptureRunError::from)
        .and_then(|capture| play(capture, &network, engine, output, &mut out));
    let flushed = out.flush().map_err(CaptureRunError::Write);
    match done.and(flushed) {
        // Whoever closed the output early, as `head` does, has seen enough.
        Err(CaptureRunError::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error @ CaptureRunError::Capture(_)) => {
            Err(CommandFailure::failed(format_args!("{name}: {error}")))
        }
        Err(error) => Err(CommandFailure::failed(error)),
        Ok(()) => Ok(()),
    }
}

fn play(
    mut capture: Capture,
    network: &Network,
    engine: EngineName,
    output: Output,
    out: &mut impl Write,
) -> Result<(), CaptureRunError> {
    let mut summary = CaptureSummary::default();
    let first = capture.next_frame()?;
    let start = first.as_ref().map_or(Nanos(0), |frame| frame.time);
    let compiled = compile_for(network, start);
    let mut engine: Box<dyn FrameEngine> = match engine {
        EngineName::User => Box::new(HostEngine::new(compiled)),
        EngineName::Kernel => Box::new(KernelEngine::load(&compiled)?),
    };
    let mut next = first;
    let mut done = Ok(());
    while let Some(frame) = next {
        judge(&frame, start, &mut *engine, network, &mut summary, output, out)?;
        // What was judged before a broken frame is shown before the message.
        next = capture.next_frame().unwrap_or_else(|error| {
            done = Err(error.into());
            None
        });
    }
    if output == Output::Text {
        write_summary(&summary, network, out)?;
    }
    done
}

fn judge(
    frame: &CapturedFrame,
    start: Nanos,
    engine: &mut dyn FrameEngine,
    network: &Network,
    summary: &mut CaptureSummary,
    output: Output,
    out: &mut impl Write,
) -> Result<(), CaptureRunError> {
    let time = Nanos(frame.time.0.saturating_sub(start.0));
    let verdict = engine.judge(&frame.bytes, frame.wire_length, time)?;
    match output {
        Output::Json => {
            serde_json::to_writer(&mut *out, &report(frame, &verdict, &network.rules))
                .map_err(io::Error::from)?;
            writeln!(out)?;
        }
        Output::Text => summary.add(frame, &verdict, &network.rules),
    }
    Ok(())
}

fn write_summary(summary: &CaptureSummary, network: &Network, out: &mut impl Write) -> io::Result<()> {
    let mut table = TextTable::new(["REASON", "FRAMES", "BYTES", "VERDICT"]);
    for (reason, FrameTally { passed, dropped }) in summary.reasons() {
        let (frames, verdict) = if dropped.count > 0 { (dropped, "drop") } else { (passed, "pass") };
        table.row([
            reason.to_owned(),
            frames.count.to_string(),
            frames.bytes.to_string(),
            verdict.to_owned(),
        ]);
    }
    write!(out, "{table}")?;
    for rule in summary.rules(&network.rules, TOP) {
        writeln!(out)?;
        let mut table =
            TextTable::new(["RULE, SOURCE", "PASSED", "DROPPED", "PASSED_BYTES", "DROPPED_BYTES"]);
        table.row(cells(Shown(rule.name).to_string(), &rule.all));
        for (source, tally) in &rule.top {
            table.row(cells(format!("  {source}"), tally));
        }
        write!(out, "{table}")?;
        if rule.sources > rule.top.len() {
            writeln!(out, "  and {} more", rule.sources - rule.top.len())?;
        }
        if rule.excepted.count > 0 {
            let FrameCount { count, bytes } = rule.excepted;
            writeln!(out, "  not judged, since it excepts them: {count} frames, {bytes} bytes")?;
        }
    }
    Ok(())
}

fn cells(name: String, FrameTally { passed, dropped }: &FrameTally) -> [String; 5] {
    let [a, b, c, d] =
        [passed.count, dropped.count, passed.bytes, dropped.bytes].map(|count| count.to_string());
    [name, a, b, c, d]
}
