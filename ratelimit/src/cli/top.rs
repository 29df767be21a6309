//! `ratelimit top`: the heaviest sources, as tables or on a live screen.

mod screen;
mod windows;

use std::{
    fmt,
    io::{IsTerminal as _, stdin, stdout},
};

use clap::Args;
use ratelimit_common::time::Nanos;
use serde_json::json;

use self::windows::SketchWindows;
use super::{
    InstanceArgs,
    failure::CommandFailure,
    output::{self, Output},
    table::TextTable,
};
use crate::{
    config::parse_time,
    dataplane::{SourceLists, everything_passes, is_in_force},
    text::Thousands,
    top::{By, Estimate, Ipv6By, TopSource, TopSources as Heaviest, of},
};

/// A table is about so many seconds at most.
const MOST_SECONDS: u64 = 3_600;

/// Shows the heaviest sources, estimated from samples, each second: on a terminal as a live screen, else as a table.
#[derive(Debug, Args)]
pub struct Top {
    #[command(flatten)]
    pub instance: InstanceArgs,
    /// What to sort sources by.
    #[arg(long, value_enum, default_value_t)]
    by: By,
    /// Print one table and end.
    #[arg(long, conflicts_with = "count")]
    once: bool,
    /// Print N tables, one after the other, and end.
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// The time that each table covers, from the next whole second on: seconds, or a time such as 1m30s; at most an
    /// hour.
    #[arg(long, value_name = "TIME", default_value = "1", value_parser = interval, allow_hyphen_values = true)]
    interval: u64,
    /// How many sources to show.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rows: u16,
    /// Show each IPv6 /64 as one source.
    #[arg(long)]
    networks: bool,
}

impl Top {
    /// Shows them.
    ///
    /// # Errors
    /// The instance is not attached, or can't be looked at.
    pub fn run(self, output: Output) -> Result<(), CommandFailure> {
        let mut windows =
            SketchWindows::open(&self.instance.instance, self.interval).map_err(CommandFailure::failed)?;
        let count = match self.count {
            _ if self.once => 1,
            Some(count) => count,
            None if output == Output::Text && stdout().is_terminal() && stdin().is_terminal() => {
                return screen::run(&self, windows);
            }
            None => 1,
        };
        let mut lists = SourceLists::default();
        for turn in 0..count {
            let sums = windows.next().map_err(CommandFailure::failed)?;
            let mut top = sums.top(self.by, self.ipv6(), self.rows.into());
            lists.update(&self.instance.instance).map_err(CommandFailure::failed)?;
            top.mark(&lists);
            let separator = if turn == 0 { "" } else { "\n" };
            let in_force = is_in_force(&self.instance.instance).map_err(CommandFailure::failed)?;
            let written = match output {
                Output::Text => {
                    let text = TopText { top: &top, by: self.by, in_force };
                    output::write_on(&format_args!("{separator}{text}"))
                }
                Output::Json => {
                    let mut answer = json!(top);
                    answer["in_force"] = in_force.into();
                    output::write_on(&format_args!("{answer}\n"))
                }
            };
            if !written
                .map_err(|error| CommandFailure::failed(format_args!("writing the answer: {error}")))?
            {
                break;
            }
        }
        Ok(())
    }

    const fn ipv6(&self) -> Ipv6By {
        if self.networks { Ipv6By::Network } else { Ipv6By::Address }
    }
}

/// Seconds, from a number of them or a time.
fn interval(text: &str) -> Result<u64, String> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let text = if is_number { format!("{text}s") } else { text.to_owned() };
    let seconds = parse_time(&text).map_err(|error| error.to_string())?.0 / Nanos::SECOND.0;
    if seconds > MOST_SECONDS { Err("tables are about an hour at most".to_owned()) } else { Ok(seconds) }
}

/// The heaviest sources as text.
struct TopText<'t> {
    top: &'t Heaviest,
    by: By,
    /// Whether anything is dropped: not after a trial that nobody confirmed.
    in_force: bool,
}

/// The headings of [`cells`].
const HEADINGS: [&str; 6] = ["SOURCE", "PACKETS/S", "BYTES/S", "DROPS/S", "SHARE", "95 % SURE"];

/// A source's cells.
fn cells(source: &TopSource, by: By) -> [String; 6] {
    [
        name(source),
        about(source.packets),
        about(source.bytes),
        about(source.drops),
        format!("{:.1} %", source.share * 100.0),
        bounds(of(source, by)),
    ]
}

/// Its address, and whether it is on a list.
fn name(TopSource { source, list, .. }: &TopSource) -> String {
    list.map_or_else(|| source.clone(), |list| format!("{source} ({})", list.name()))
}

fn about(estimate: Estimate) -> String {
    Thousands(estimate.about.round() as u64).to_string()
}

/// Between what the truth lies in all likelihood.
fn bounds(estimate: Estimate) -> String {
    let [low, high] = [estimate.low.floor(), estimate.high.ceil()].map(|bound| Thousands(bound as u64));
    if estimate.low == estimate.high { "exact".to_owned() } else { format!("{low} to {high}") }
}

/// The sums over all sources.
fn total(top: &Heaviest) -> String {
    let [packets, bytes, drops] =
        [top.packets, top.bytes, top.drops].map(|sum| Thousands(sum.round() as u64));
    let seconds = if top.seconds == 1 { "1 second".to_owned() } else { format!("{} seconds", top.seconds) };
    format!("all sources, {seconds}: about {packets} packets/s, {bytes} bytes/s, {drops} drops/s")
}

impl fmt::Display for TopText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.in_force {
            writeln!(f, "{}", everything_passes())?;
        }
        writeln!(f, "{}\n", total(self.top))?;
        let mut table = TextTable::new(HEADINGS);
        self.top.sources.iter().for_each(|source| table.row(cells(source, self.by)));
        write!(f, "{table}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataplane::SourceList;

    #[test]
    fn an_interval_is_a_number_of_seconds_or_a_time() {
        for (text, expected) in [
            ("1", Some(1)),
            ("90", Some(90)),
            ("1m30s", Some(90)),
            ("1h", Some(3_600)),
            ("0", None),
            ("", None),
        ] {
            assert_eq!(interval(text).ok(), expected, "{text}");
        }
        assert!(interval("3601").is_err_and(|error| error.contains("an hour at most")));
    }

    #[test]
    fn tables_say_how_sure_they_are() {
        let exact = |about| Estimate { low: about, about, high: about };
        let source = |name: &str, packets, share| TopSource {
            source: name.to_owned(),
            packets,
            bytes: exact(6_400.0),
            drops: exact(0.0),
            share,
            list: (name == "2001:db8::1").then_some(SourceList::Banned),
        };
        let top = Heaviest {
            seconds: 1,
            packets: 2_000.0,
            bytes: 12_800.0,
            drops: 0.0,
            sources: vec![
                source("192.0.2.1", Estimate { low: 1_100.2, about: 1_234.0, high: 1_400.5 }, 0.617),
                source("2001:db8::1", exact(100.0), 0.05),
            ],
        };
        let shown = |in_force| TopText { top: &top, by: By::Packets, in_force }.to_string();
        assert_eq!(shown(false), format!("{}\n{}", everything_passes(), shown(true)));
        assert_eq!(
            shown(true),
            "all sources, 1 second: about 2,000 packets/s, 12,800 bytes/s, 0 drops/s\n\n\
             SOURCE                PACKETS/S  BYTES/S  DROPS/S   SHARE  95 % SURE\n\
             192.0.2.1                 1,234    6,400        0  61.7 %  1,100 to 1,401\n\
             2001:db8::1 (banned)        100    6,400        0   5.0 %  exact\n"
        );
    }
}
