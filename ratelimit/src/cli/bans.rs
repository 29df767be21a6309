//! `ratelimit ban`, `unban` and `bans`: they change what the kernel looks at, and need no daemon.

mod masked;
mod named;

use std::{
    collections::{BTreeSet, HashSet},
    fmt,
    path::PathBuf,
    time::{Duration, SystemTime},
};

use clap::Args;
use ratelimit_common::time::Nanos;
use serde_json::json;

pub use self::masked::Masked;
use self::{
    masked::{to_ban, to_list, to_unban},
    named::{Named, failure},
};
use super::{
    InstanceArgs, answer_with,
    failure::CommandFailure,
    output::{Output, complain},
    table::TextTable,
};
use crate::{
    config::parse_ban_length,
    control::{ToldBans, tell_bans},
    dataplane::{self, BanInForce, BanReason, BanStatus, Banned, Bans, NewBan, around, everything_passes},
    policy::{BanLength, Prefix},
    text::{Shown, Thousands},
};

/// Drops all packets from sources until a deadline, in the kernel, with a daemon or without. Sources on the allow list
/// are never dropped.
#[derive(Debug, Args)]
pub struct Ban {
    /// Addresses or prefixes.
    #[arg(required_unless_present = "file", value_name = "ADDR[/LEN]", value_parser = to_ban)]
    prefixes: Vec<Masked>,
    /// Also ban what this file lists: an address, a prefix or a range (192.0.2.1-192.0.2.9) on each line; # and ;
    /// begin comments, and `-` is the standard input. If a line is wrong, nobody is banned.
    #[arg(long, short, value_name = "FILE")]
    file: Option<PathBuf>,
    /// For how long, such as 90s, 1h30m or 7d, at most 365 days; or `forever`: until `unban`, a reboot, or a stop that
    /// detaches.
    #[arg(long = "for", alias = "duration", value_name = "TIME", default_value = "10m", value_parser = parse_ban_length, allow_hyphen_values = true)]
    length: BanLength,
    /// Why, as `bans` shows it: at most 64 bytes.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    reason: Option<BanReason>,
    /// Also shorten bans that last longer, which otherwise stay.
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    pub instance: InstanceArgs,
}

impl Ban {
    /// Bans.
    ///
    /// # Errors
    /// The instance is not attached, or a prefix can't be banned.
    pub fn run(self, output: Output) -> Result<(), CommandFailure> {
        let Self { prefixes, file, length, reason, replace, instance } = self;
        let prefixes = prefixes.into_iter().map(|prefix| prefix.prefix(output)).collect();
        let named = Named::new(prefixes, file.as_deref())?;
        let bans = Bans::open(&instance.instance).map_err(CommandFailure::failed)?;
        // All or none of what is wrong in itself.
        named.check(|prefix| bans.check(*prefix, length))?;
        let prefixes = named.prefixes();
        let new = NewBan { reason, replaces: replace, ..NewBan::asked(length) };
        let made = prefixes.into_iter().map(|prefix| bans.ban(prefix, &new));
        let made = made.collect::<Result<Vec<_>, _>>().map_err(failure)?;
        let mut text = said_of_made(&made, length);
        if bans.replaced() > 0 {
            text += &format!("the table of bans is full: {} that end sooner gave way\n", bans.replaced());
        }
        let made = bans.statuses_of_made(&made).map_err(CommandFailure::failed)?;
        if output == Output::Text {
            let warnings = warnings(&made).chain(out_of_force(&bans)?);
            warnings.for_each(|warning| complain(&format_args!("ratelimit: {warning}")));
        }
        tell(&instance, &ToldBans::new(&made, &[]));
        answer_with(output, &text, &json!(made))
    }
}

/// Has the daemon, if there is one, write into its log what a command has done without it.
pub fn tell(instance: &InstanceArgs, told: &ToldBans) {
    if let Ok((Some(daemon), true)) = dataplane::daemon(&instance.instance) {
        let path = instance.control.as_ref().unwrap_or(&daemon.control);
        tell_bans(path, &instance.instance, told);
    }
}

/// What became of each that was to be banned for so long.
fn said_of_made(made: &[Banned], length: BanLength) -> String {
    let (longer, new): (Vec<&Banned>, Vec<&Banned>) = made.iter().partition(|made| made.is_longer);
    let new: Vec<Prefix> = new.iter().map(|made| made.ban.prefix).collect();
    let mut text = String::new();
    if !new.is_empty() || longer.is_empty() {
        text += &said("banned", &new, &format!(" {}", Lasting(length)));
    }
    match &longer[..] {
        [] => {}
        few if few.len() <= MOST_LINES => few.iter().for_each(|Banned { ban, .. }| {
            let (prefix, left) = (ban.prefix, Lasting(ban.left));
            text += &format!(
                "{prefix} is already banned {left}, and that ban stays: `--replace` \
                shortens it\n"
            );
        }),
        many => {
            let count = Thousands(many.len() as u64);
            text += &format!(
                "{count} are already banned for longer, and those bans stay: `--replace` \
                shortens them\n"
            );
        }
    }
    text
}

/// What is said while no ban drops anything.
fn out_of_force(bans: &Bans) -> Result<Option<String>, CommandFailure> {
    let are_in_force = bans.are_in_force().map_err(CommandFailure::failed)?;
    Ok((!are_in_force).then(|| format!("{}. Bans stay, and drop nothing until then", everything_passes())))
}

/// Lines about single bans at most: nobody reads more.
const MOST_LINES: usize = 20;

/// What was done, a line for each prefix if they are few.
fn said(done: &str, prefixes: &[Prefix], how: &str) -> String {
    match prefixes.len() {
        0 => format!("{done} nobody\n"),
        1..=MOST_LINES => prefixes.iter().map(|prefix| format!("{done} {prefix}{how}\n")).collect(),
        many => format!("{done} {} addresses or prefixes{how}\n", Thousands(many as u64)),
    }
}

/// What bans don't do, by reason of the allow list.
fn warnings(bans: &[BanStatus]) -> impl Iterator<Item = String> {
    let count = bans.iter().filter(|ban| ban.allowed.is_some()).count();
    let more = count.checked_sub(MOST_LINES).filter(|more| *more > 0);
    let more = more.map(|more| format!("and {} more such bans", Thousands(more as u64)));
    bans.iter().filter_map(BanStatus::warning).take(MOST_LINES).chain(more)
}

/// Ends bans.
#[derive(Debug, Args)]
pub struct Unban {
    /// Addresses or prefixes, as they were banned.
    #[arg(value_name = "ADDR[/LEN]", required_unless_present_any = ["all", "file", "by"], value_parser = to_unban)]
    prefixes: Vec<Masked>,
    /// Also unban what this file lists, in the form that `ban` takes; `-` is the standard input.
    #[arg(long, short, value_name = "FILE")]
    file: Option<PathBuf>,
    /// End all bans.
    #[arg(long, conflicts_with_all = ["prefixes", "file"])]
    all: bool,
    /// End all bans that this rule has made, on packets or on requests.
    #[arg(long, value_name = "RULE", conflicts_with_all = ["prefixes", "file", "all"])]
    by: Option<String>,
    /// Fail if one of the prefixes is not banned, or if the rule has banned nobody; otherwise `unban` only says so.
    #[arg(long, conflicts_with = "all")]
    strict: bool,
    #[command(flatten)]
    pub instance: InstanceArgs,
}

impl Unban {
    /// Ends them.
    ///
    /// # Errors
    /// The instance is not attached; or one was not banned, if that is to be told apart.
    pub fn run(self, output: Output) -> Result<(), CommandFailure> {
        let prefixes = self.prefixes.into_iter().map(|prefix| prefix.prefix(output)).collect();
        let named = Named::new(prefixes, self.file.as_deref())?;
        let bans = Bans::open(&self.instance.instance).map_err(CommandFailure::failed)?;
        let all = bans.list().map_err(CommandFailure::failed)?;
        let is_wanted = |ban: &&BanInForce| self.by.as_ref().is_none_or(|rule| ban.maker.is_rule(rule));
        let prefixes: Vec<Prefix> = if self.all || self.by.is_some() {
            all.iter().filter(is_wanted).map(|ban| ban.prefix).collect()
        } else {
            named.prefixes()
        };
        let ended = bans.unban(&prefixes).map_err(failure)?;
        let done: HashSet<Prefix> = ended.iter().map(|ban| ban.prefix).collect();
        let mut missing = match &self.by {
            Some(rule) if prefixes.is_empty() => {
                vec![format!("nobody is banned by the rule `{}`; {}", Shown(rule), rules_that_ban(&all))]
            }
            // Others may have ended some meanwhile.
            _ if self.all || self.by.is_some() => Vec::new(),
            _ => missing_bans(prefixes.iter().filter(|prefix| !done.contains(prefix)), &all),
        };
        let done: Vec<Prefix> = ended.iter().map(|ban| ban.prefix).collect();
        let text =
            if done.is_empty() && !missing.is_empty() { String::new() } else { said("unbanned", &done, "") };
        if self.strict && !missing.is_empty() {
            missing.extend(text.lines().map(str::to_owned));
            return Err(CommandFailure::failed(missing.join("; ")));
        }
        let missing: String = missing.iter().map(|line| format!("{line}\n")).collect();
        if let (Output::Text, Some(warning)) = (output, out_of_force(&bans)?) {
            complain(&format_args!("ratelimit: {warning}"));
        }
        let ended = bans.statuses(ended).map_err(CommandFailure::failed)?;
        tell(&self.instance, &ToldBans::new(&[], &ended));
        answer_with(output, &(missing + &text), &json!(ended))
    }
}

/// Which rules have made bans that are in force.
fn rules_that_ban(all: &[BanInForce]) -> String {
    let rules: BTreeSet<&str> = all.iter().filter_map(|ban| ban.maker.rule()).collect();
    if rules.is_empty() {
        return "no ban in force is that of a rule".to_owned();
    }
    let more = rules.len().saturating_sub(MOST_LINES);
    let names = rules.iter().take(MOST_LINES).map(|rule| format!("`{}`", Shown(rule)));
    let more = (more > 0).then(|| format!("and {more} more"));
    format!("there are bans by {}", names.chain(more).collect::<Vec<_>>().join(", "))
}

/// Says of those who are not banned that they are not.
fn missing_bans<'p>(mut missing: impl Iterator<Item = &'p Prefix>, all: &[BanInForce]) -> Vec<String> {
    // Each looks at all bans: only those that are shown do.
    let line = |prefix: &Prefix| {
        let hint = around(all, prefix).map_or_else(String::new, |ban| format!(", but {} is", ban.prefix));
        format!("{prefix} is not banned{hint}")
    };
    let mut said: Vec<String> = missing.by_ref().take(MOST_LINES).map(line).collect();
    let more = missing.count();
    said.extend((more > 0).then(|| format!("nor are {} more", Thousands(more as u64))));
    said
}

/// Lists the bans in force: how long each still lasts, who made it, when and why.
#[derive(Debug, Args)]
pub struct List {
    /// Only bans that contain this address or prefix, or lie inside it.
    #[arg(value_name = "ADDR[/LEN]", value_parser = to_list)]
    prefix: Option<Masked>,
    #[command(flatten)]
    pub instance: InstanceArgs,
}

impl List {
    /// Lists.
    ///
    /// # Errors
    /// The instance is not attached.
    pub fn run(self, output: Output) -> Result<(), CommandFailure> {
        let bans = Bans::open(&self.instance.instance).map_err(CommandFailure::failed)?;
        let mut all = bans.list().map_err(CommandFailure::failed)?;
        let mut nobody = "nobody is banned\n".to_owned();
        if let Some(asked) = self.prefix.map(|prefix| prefix.prefix(output)) {
            all.retain(|ban| ban.prefix.contains(&asked) || asked.contains(&ban.prefix));
            nobody = format!("nobody in {asked} is banned\n");
        }
        let out_of_force = out_of_force(&bans)?;
        if all.is_empty() {
            nobody.extend(out_of_force.map(|warning| format!("\n{warning}\n")));
            return answer_with(output, &nobody, &json!([]));
        }
        let mut table = TextTable::new(["PREFIX", "LEFT", "UNTIL", "MADE", "BY", "REASON"]);
        for ban in &all {
            let left = match ban.left {
                BanLength::For(left) => Time(left).to_string(),
                BanLength::Forever => "forever".to_owned(),
            };
            table.row([
                ban.prefix.to_string(),
                left,
                date(ban.until),
                date(ban.made),
                Shown(&ban.maker).to_string(),
                ban.reason.as_ref().map_or("-", BanReason::as_str).to_owned(),
            ]);
        }
        let all = bans.statuses(all).map_err(CommandFailure::failed)?;
        let notes: String = warnings(&all).chain(out_of_force).map(|warning| warning + "\n").collect();
        let separator = if notes.is_empty() { "" } else { "\n" };
        answer_with(output, &format_args!("{table}{separator}{notes}"), &json!(all))
    }
}

/// A time since the Unix epoch, for people.
fn date(time: Option<Nanos>) -> String {
    let time = time.and_then(|time| SystemTime::UNIX_EPOCH.checked_add(Duration::from(time)));
    time.map_or_else(|| "-".to_owned(), |time| humantime::format_rfc3339_seconds(time).to_string())
}

/// For how long somebody is banned, for people.
pub struct Lasting(pub BanLength);

impl fmt::Display for Lasting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            BanLength::For(length) => write!(f, "for {}", Time(length)),
            BanLength::Forever => f.write_str("forever"),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataplane::Maker;

    fn ban(prefix: Prefix) -> BanInForce {
        let left = BanLength::For(Nanos(1));
        BanInForce { prefix, left, maker: Maker::Command, reason: None, made: None, until: None }
    }

    /// If each of those that are not banned looked at all bans, this would take many minutes.
    #[test]
    fn many_that_are_not_banned_are_counted() {
        let prefix = |bits: u32| Prefix::from(std::net::IpAddr::from(std::net::Ipv4Addr::from(bits)));
        let all: Vec<BanInForce> = (0..131_072).map(|index| ban(prefix(index))).collect();
        let missing: Vec<Prefix> = (1 << 24..(1 << 24) + 131_072).map(prefix).collect();
        let said = missing_bans(missing.iter(), &all);
        assert_eq!(said.len(), 21);
        assert_eq!(said[19..], ["1.0.0.19/32 is not banned", "nor are 131,052 more"]);
    }

    #[test]
    fn a_duration_is_what_for_says() {
        let ban = Ban::augment_args(clap::Command::new("ban"));
        let matches = ban.try_get_matches_from(["ban", "192.0.2.7", "--duration", "1h"]).unwrap();
        assert_eq!(matches.get_one("length"), Some(&BanLength::For(Nanos::from_secs(3_600))));
    }

    #[test]
    fn rules_that_ban_are_named_once_and_not_without_end() {
        let by = |maker: Maker| BanInForce { maker, ..ban("192.0.2.7/32".parse().unwrap()) };
        let rule = |name: &str| by(Maker::Rule(Some(name.to_owned())));
        let nobody = [by(Maker::Command), by(Maker::Unknown), by(Maker::Rule(None))];
        assert_eq!(rules_that_ban(&nobody), "no ban in force is that of a rule");
        let two =
            [rule("syn"), by(Maker::RequestRule("d.client".to_owned())), rule("syn"), by(Maker::Command)];
        assert_eq!(rules_that_ban(&two), "there are bans by `d.client`, `syn`");
        let many: Vec<BanInForce> = (0..23).map(|index| rule(&format!("r{index:02}"))).collect();
        assert!(rules_that_ban(&many).ends_with("`r18`, `r19`, and 3 more"), "{}", rules_that_ban(&many));
    }
}
