//! `ratelimit ban`, `unban`, `bans` and `confirm`: they change what the kernel looks at, and need no daemon.

use std::fmt;

use clap::Args;
use ratelimit_common::time::Nanos;
use serde_json::json;

use super::{
    InstanceArgs, answer_with,
    failure::Failure,
    output::{Output, complain},
    table::Table,
};
use crate::{
    config::parse_time,
    dataplane::{self, BanError, BanInForce, BanStatus, Bans, Trial, around},
    policy::Prefix,
};

/// Drops everything of sources until a deadline, in the kernel, with a daemon or without. Sources on the allow list are
/// never dropped.
#[derive(Debug, Args)]
pub struct Ban {
    /// Addresses or prefixes.
    #[arg(required = true, value_name = "ADDR[/LEN]")]
    prefixes: Vec<Prefix>,
    /// For how long, such as 90s, 1h30m or 7d; at most 365 days.
    #[arg(long = "for", value_name = "TIME", default_value = "10m", value_parser = parse_time)]
    length: Nanos,
    #[command(flatten)]
    instance: InstanceArgs,
}

impl Ban {
    /// Bans.
    ///
    /// # Errors
    /// The instance is not attached, or a prefix can't be banned.
    pub fn run(self, output: Output) -> Result<(), Failure> {
        let bans = Bans::open(&self.instance.instance).map_err(Failure::failed)?;
        // All or none of what is wrong in itself.
        self.prefixes.iter().try_for_each(|prefix| bans.check(*prefix, self.length)).map_err(failure)?;
        let mut text = String::new();
        for prefix in &self.prefixes {
            bans.ban(*prefix, self.length).map_err(failure)?;
            text += &format!("banned {prefix} for {}\n", Time(self.length));
        }
        if bans.replaced() > 0 {
            text += &format!("the table of bans is full: {} that end sooner gave way\n", bans.replaced());
        }
        let made = self.prefixes.iter().map(|prefix| BanInForce { prefix: *prefix, left: self.length });
        let made = statuses(&bans, made)?;
        if output == Output::Text {
            made.iter()
                .filter_map(BanStatus::warning)
                .for_each(|warning| complain(&format_args!("ratelimit: {warning}")));
        }
        answer_with(output, &text, &json!(made))
    }
}

/// Bans as outputs have them.
fn statuses(bans: &Bans, shown: impl IntoIterator<Item = BanInForce>) -> Result<Vec<BanStatus>, Failure> {
    Ok(BanStatus::all(shown, &bans.allow_list().map_err(Failure::failed)?))
}

/// What can't be banned is wrong usage.
fn failure(error: BanError) -> Failure {
    match error {
        BanError::Everybody(_) | BanError::Length => Failure::wrong_usage(error),
        BanError::Busy | BanError::Dataplane(_) => Failure::failed(error),
    }
}

/// Ends bans.
#[derive(Debug, Args)]
pub struct Unban {
    /// Addresses or prefixes, as they were banned.
    #[arg(value_name = "ADDR[/LEN]", required_unless_present = "all")]
    prefixes: Vec<Prefix>,
    /// All bans there are.
    #[arg(long, conflicts_with = "prefixes")]
    all: bool,
    #[command(flatten)]
    instance: InstanceArgs,
}

impl Unban {
    /// Ends them.
    ///
    /// # Errors
    /// The instance is not attached, or one was not banned.
    pub fn run(self, output: Output) -> Result<(), Failure> {
        let bans = Bans::open(&self.instance.instance).map_err(Failure::failed)?;
        let all = bans.list().map_err(Failure::failed)?;
        let prefixes = if self.all { all.iter().map(|ban| ban.prefix).collect() } else { self.prefixes };
        let ended = bans.unban(&prefixes).map_err(failure)?;
        let is_ended = |prefix: &Prefix| ended.iter().any(|ban| ban.prefix == *prefix);
        let missing = prefixes.iter().filter(|prefix| !self.all && !is_ended(prefix)).map(|prefix| {
            let hint =
                around(&all, prefix).map_or_else(String::new, |ban| format!(", but {} is", ban.prefix));
            format!("{prefix} is not banned{hint}")
        });
        let missing: Vec<String> = missing.collect();
        let done = ended.iter().map(|ban| format!("unbanned {}", ban.prefix));
        if !missing.is_empty() {
            return Err(Failure::failed(missing.into_iter().chain(done).collect::<Vec<_>>().join("; ")));
        }
        let text: String = done.map(|line| line + "\n").collect();
        answer_with(output, &text, &json!(statuses(&bans, ended)?))
    }
}

/// Lists the bans in force, with the time that they have left.
#[derive(Debug, Args)]
pub struct List {
    #[command(flatten)]
    instance: InstanceArgs,
}

impl List {
    /// Lists.
    ///
    /// # Errors
    /// The instance is not attached.
    pub fn run(self, output: Output) -> Result<(), Failure> {
        let bans = Bans::open(&self.instance.instance).map_err(Failure::failed)?;
        let all = bans.list().map_err(Failure::failed)?;
        if all.is_empty() {
            return answer_with(output, &"nobody is banned\n", &json!([]));
        }
        let mut table = Table::new(["PREFIX", "LEFT"]);
        for ban in &all {
            table.row([ban.prefix.to_string(), Time(ban.left).to_string()]);
        }
        let all = statuses(&bans, all)?;
        let warnings: String =
            all.iter().filter_map(BanStatus::warning).map(|warning| format!("\n{warning}")).collect();
        let end = if warnings.is_empty() { "" } else { "\n" };
        answer_with(output, &format_args!("{table}{warnings}{end}"), &json!(all))
    }
}

/// Says that the rules on trial are good: they stay in force. With a daemon or without.
#[derive(Debug, Args)]
pub struct Confirm {
    #[command(flatten)]
    instance: InstanceArgs,
}

impl Confirm {
    /// Confirms.
    ///
    /// # Errors
    /// The instance is not attached, or it is too late.
    pub fn run(self, output: Output) -> Result<(), Failure> {
        match dataplane::confirm(&self.instance.instance).map_err(Failure::failed)? {
            Trial::Failed => Err(Failure::failed(
                "too late: everything passes already; `ratelimit reload` puts the rules on trial again",
            )),
            Trial::None => {
                answer_with(output, &"nothing is on trial; the rules stay\n", &json!({"confirmed": false}))
            }
            Trial::Left(_) => {
                answer_with(output, &"confirmed: the rules stay\n", &json!({"confirmed": true}))
            }
        }
    }
}

/// A time for people: the two largest units, rounded up to a second.
pub struct Time(pub Nanos);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.0.div_ceil(Nanos::SECOND.0);
        match seconds {
            0..60 => write!(f, "{seconds}s"),
            60..3_600 => write!(f, "{}m{}s", seconds / 60, seconds % 60),
            3_600..86_400 => write!(f, "{}h{}m", seconds / 3_600, seconds / 60 % 60),
            _ => write!(f, "{}d{}h", seconds / 86_400, seconds / 3_600 % 24),
        }
    }
}
