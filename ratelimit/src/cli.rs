//! The command line: what it understands, and one file for each command.

mod bans;
mod bucket;
mod check;
mod client;
mod confirm;
mod detach;
mod documents;
mod events;
mod failure;
mod instance;
pub mod output;
mod rules;
mod run;
mod simulate;
mod status;
mod table;
mod top;
pub mod validate;

use std::{fmt::Display, process::ExitCode};

use clap::{Parser, Subcommand};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::{filter::Targets, layer::SubscriberExt as _, util::SubscriberInitExt as _};

use self::{
    failure::CommandFailure,
    instance::{InstanceArgs, Use},
    output::Output,
};
use crate::text::ShownLines;

/// What to do first, at the end of the help.
const FIRST_STEPS: &str = "If a flood is on now, `ratelimit top` shows who sends, `ratelimit ban ADDR --for 1h` drops \
    that source, and `ratelimit unban ADDR` ends the ban. `ratelimit detach` takes off all limits and bans. Most \
    commands need root.\n\nGuides by task are in /usr/share/doc/ratelimit/docs where a package has put them; `man \
    ratelimit.yaml` has every key of the configuration.";

/// Limits how fast each client may use this host.
#[derive(Debug, Parser)]
#[command(name = "ratelimit", version, max_term_width = 100, after_help = FIRST_STEPS)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
    /// The form of answers.
    #[arg(long, global = true, value_enum, default_value_t)]
    output: Output,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Run),
    Validate(validate::Validate),
    Simulate(simulate::Simulate),
    Status(status::Show),
    Ban(bans::Ban),
    Unban(bans::Unban),
    Bans(bans::List),
    Bucket(bucket::Bucket),
    Observe(client::Observe),
    Reload(client::Reload),
    Confirm(confirm::Confirm),
    Check(check::Check),
    Rules(rules::Rules),
    Top(top::Top),
    Events(events::Events),
    Detach(detach::Detach),
    Schema(documents::Schema),
    Completions(documents::Completions),
    Man(documents::Man),
}

impl Command {
    /// Which instance it is about, and what it does with it; `None` if it is about none.
    const fn instance(&mut self) -> Option<(&mut InstanceArgs, Use)> {
        Some(match self {
            Self::Status(status) => (&mut status.instance, Use::Show),
            Self::Ban(ban) => (&mut ban.instance, Use::Other),
            Self::Unban(unban) => (&mut unban.instance, Use::Other),
            Self::Bans(bans) => (&mut bans.instance, Use::Other),
            Self::Bucket(bucket) => (&mut bucket.daemon.instance, Use::Other),
            Self::Observe(observe) => (&mut observe.daemon.instance, Use::Other),
            Self::Reload(reload) => (&mut reload.daemon.instance, Use::Other),
            Self::Confirm(confirm) => (&mut confirm.instance, Use::Other),
            Self::Rules(rules) => (&mut rules.daemon.instance, Use::Other),
            Self::Top(top) => (&mut top.instance, Use::Other),
            Self::Events(events) => (&mut events.instance, Use::Other),
            Self::Detach(detach) => (&mut detach.instance, Use::Remove),
            Self::Run(_) | Self::Validate(_) | Self::Simulate(_) | Self::Check(_) => return None,
            Self::Schema(_) | Self::Completions(_) | Self::Man(_) => return None,
        })
    }
}

impl Cli {
    /// Does what the arguments say.
    #[must_use]
    pub fn run(mut self) -> ExitCode {
        start_logging();
        let found =
            self.command.instance().map(|(instance, what)| instance.find(what).map(|()| instance.clone()));
        let output = self.output;
        match found.transpose() {
            Ok(instance) => self.run_for(instance),
            Err(failure) => failure.report(output),
        }
    }

    fn run_for(self, instance: Option<InstanceArgs>) -> ExitCode {
        let advise = |failure| match &instance {
            Some(instance) => instance.advise(failure),
            None => failure,
        };
        let done = match self.command {
            Command::Run(run) => run.run(),
            Command::Validate(validate) => return validate::validate(&validate, self.output),
            Command::Simulate(simulate) => simulate.run(self.output),
            Command::Status(status) => status.run(self.output),
            Command::Ban(ban) => ban.run(self.output),
            Command::Unban(unban) => unban.run(self.output),
            Command::Bans(bans) => bans.run(self.output),
            Command::Bucket(bucket) => bucket.run(self.output),
            Command::Observe(observe) => observe.run(self.output),
            Command::Reload(reload) => reload.run(self.output),
            Command::Confirm(confirm) => confirm.run(self.output),
            Command::Check(check) => {
                return check.run(self.output).unwrap_or_else(|failure| failure.report(self.output));
            }
            Command::Rules(rules) => rules.run(self.output),
            Command::Top(top) => top.run(self.output),
            Command::Events(events) => events.run(self.output),
            Command::Detach(detach) => detach.run(self.output),
            Command::Schema(schema) => schema.run(),
            Command::Completions(completions) => completions.run(),
            Command::Man(man) => man.run(self.output),
        };
        done.map_or_else(|failure| advise(failure).report(self.output), |()| ExitCode::SUCCESS)
    }
}

/// The library that watches files says at info that the kernel has forgotten a directory which is gone, as after each
/// swap of a ConfigMap.
const QUIET: (&str, LevelFilter) = ("notify", LevelFilter::ERROR);

/// To the standard error, as `RUST_LOG` says, else from level info on. What can't be written is lost: the limits matter
/// more than the log.
fn start_logging() {
    let terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(terminal)
        .with_target(false)
        // It would say that it can't write to the standard error to the standard error, and panic.
        .log_internal_errors(false);
    let levels = levels(&std::env::var("RUST_LOG").unwrap_or_default());
    // It fails only if something in this process logs already.
    let _ = tracing_subscriber::registry().with(levels).with(lines).try_init();
}

/// What is logged: as asked for by `LEVEL` and `TARGET=LEVEL`, separated by commas; level info if nothing is, or if it
/// can't be read.
fn levels(asked: &str) -> Targets {
    let parts: Vec<&str> = asked.split(',').map(str::trim).filter(|part| !part.is_empty()).collect();
    let given = Some(parts.join(",")).filter(|given| !given.is_empty());
    let levels = given.and_then(|given| given.parse().ok());
    let levels = levels.unwrap_or_else(|| Targets::new().with_default(LevelFilter::INFO));
    if asked.contains(QUIET.0) { levels } else { levels.with_target(QUIET.0, QUIET.1) }
}

/// Writes an answer in the form that was asked for.
fn answer_with(output: Output, text: &dyn Display, json: &serde_json::Value) -> Result<(), CommandFailure> {
    let written = match output {
        Output::Text => output::write(&ShownLines(text)),
        Output::Json => output::write(&format_args!("{json}\n")),
    };
    written.map_err(|error| CommandFailure::failed(format_args!("writing the answer: {error}")))
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn levels_are_those_that_are_asked_for() {
        let is_logged =
            |asked: &str, target: &str, level| levels(asked).would_enable(target, &level) as usize;
        for (asked, expected) in [
            // The daemon's lines at debug, info and error, the verifier's at trace, the watcher's at info.
            ("", [0, 1, 1, 0, 0]),
            (" ,", [0, 1, 1, 0, 0]),
            ("nonsense=level", [0, 1, 1, 0, 0]),
            ("error", [0, 0, 1, 0, 0]),
            ("off", [0, 0, 0, 0, 0]),
            ("debug", [1, 1, 1, 0, 0]),
            ("info, verifier=trace,", [0, 1, 1, 1, 0]),
            ("ratelimit=debug", [1, 1, 1, 0, 0]),
            ("notify=info", [0, 0, 0, 0, 1]),
        ] {
            let found = [
                is_logged(asked, "ratelimit::daemon", Level::DEBUG),
                is_logged(asked, "ratelimit::daemon", Level::INFO),
                is_logged(asked, "ratelimit::daemon", Level::ERROR),
                is_logged(asked, "verifier", Level::TRACE),
                is_logged(asked, "notify::inotify", Level::INFO),
            ];
            assert_eq!(found, expected, "{asked}");
        }
    }

    #[test]
    fn what_the_help_says_to_do_first_can_be_done() {
        let commands = FIRST_STEPS.split('`').filter(|part| part.starts_with("ratelimit "));
        let read = commands.map(|command| {
            let command = command.replace("ADDR", "192.0.2.7");
            Cli::try_parse_from(command.split(' ')).map(|_| ()).map_err(|error| format!("{command}: {error}"))
        });
        assert_eq!(read.collect::<Vec<_>>(), vec![Ok(()); 4]);
    }

    #[test]
    fn times_are_read_or_refused_with_a_reason() {
        let commands: [&[&str]; 4] = [
            &["ban", "192.0.2.1", "--for"],
            &["run", "--config", "c.yaml", "--revert-after"],
            &["reload", "--revert-after"],
            &["top", "--interval"],
        ];
        let ask = |command: &[&str], time: &str| {
            let arguments = [&["ratelimit"], command, &[time]].concat();
            Cli::try_parse_from(arguments).err().map(|error| error.to_string())
        };
        let (no_time, too_long) =
            ("is not a time; write numbers with units (s, m, h, d, w)", "too long a time");
        for command in commands {
            for time in ["1s", "s", "90s", "007m", "1h", "59m60s", "0h30m", "0w0d5s"] {
                assert_eq!(ask(command, time), None, "{command:?} {time}");
            }
            for (time, expected) in [
                ("", no_time),
                (" ", no_time),
                (" 5s", no_time),
                ("5s ", no_time),
                ("5 s", no_time),
                ("5\n", no_time),
                ("-5s", no_time),
                ("-1", no_time),
                ("+5s", no_time),
                ("1.5h", no_time),
                ("1,5h", no_time),
                ("1e400", no_time),
                ("1e3s", no_time),
                ("0x10s", no_time),
                ("5S", no_time),
                ("5ms", no_time),
                ("5min", no_time),
                ("\u{665}s", no_time),
                ("\u{ff15}", no_time),
                ("inf", no_time),
                ("NaN", no_time),
                ("--", no_time),
                ("-", no_time),
                ("00:05", no_time),
                ("0s", "a time of 0"),
                ("0w0s", "a time of 0"),
                ("31000w", too_long),
                ("18446744073709551616s", too_long),
                ("30500w5000000000s", too_long),
            ] {
                let error = ask(command, time).unwrap_or_else(|| panic!("{command:?} {time:?} is read"));
                assert!(error.contains(expected), "{command:?} {time:?}: {error}");
            }
        }
        // Seconds alone are for intervals.
        let [ban, run, reload, top] = commands;
        for command in [ban, run, reload] {
            for time in ["0", "5", "99999999999999999999"] {
                assert!(
                    ask(command, time).is_some_and(|error| error.contains(no_time)),
                    "{command:?} {time}"
                );
            }
        }
        assert_eq!(ask(top, "5"), None);
        for (time, expected) in [
            ("0", "a time of 0"),
            ("3601", "an hour at most"),
            ("61m", "an hour at most"),
            ("99999999999999999999", too_long),
        ] {
            assert!(ask(top, time).is_some_and(|error| error.contains(expected)), "{time}");
        }
    }
}
