//! What the demo prints: an explanation, a row a second, a summary. Colours and bars only where they can be seen.

use std::env;
use std::io::{self, IsTerminal as _};

use clap::Args;

use super::lab::Counted;
use super::traffic::{CLIENTS, Count, Traffic};
use super::{BURST, DAEMON_DIES, FLOOD_BEGINS, FLOOD_ENDS, RATE, SECONDS};

/// What the terminal can show.
#[derive(Args, Clone, Copy)]
pub struct Style {
    /// Colours.
    #[arg(long, hide = true)]
    colour: bool,
    /// More than ASCII.
    #[arg(long, hide = true)]
    unicode: bool,
}

impl Style {
    /// Whatever there is.
    pub const ALL: Self = Self { colour: true, unicode: true };

    /// What this process's standard output can show. See <https://no-color.org> for the variable.
    pub fn here() -> Self {
        let is_set = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
            .into_iter()
            .find_map(|name| env::var(name).ok().filter(|value| !value.is_empty()));
        let locale = locale.unwrap_or_default().to_lowercase();
        Self {
            colour: io::stdout().is_terminal() && !is_set("NO_COLOR") && !is_dumb,
            unicode: locale.contains("utf-8") || locale.contains("utf8"),
        }
    }

    /// The arguments that hand it on.
    pub fn arguments(self) -> impl Iterator<Item = &'static str> {
        let colour = self.colour.then_some("--colour");
        colour.into_iter().chain(self.unicode.then_some("--unicode"))
    }
}

const BOLD: &str = "1";
const DIM: &str = "2";
const RED: &str = "31";
const GREEN: &str = "32";
const CYAN: &str = "36";

/// Cells of a bar.
const BAR: u64 = 16;

/// Prints.
pub struct Show {
    style: Style,
}

impl Show {
    /// In this style.
    pub const fn new(style: Style) -> Self {
        Self { style }
    }

    /// What is going to happen, and the headings.
    pub fn introduction(&self, mode: &str) {
        println!("\n{}\n", self.paint(BOLD, "A flood meets ratelimit"));
        println!("Two clients send UDP packets to a server, on a network of their own that vanishes with");
        println!(
            "this demo. On the server's interface an XDP program ({mode} mode) lets {} packets a",
            number(RATE)
        );
        println!(
            "second of each source through, {BURST} at once, and drops the rest before the kernel spends"
        );
        println!("anything on them. Ctrl-C ends the demo at any time.\n");
        let [polite, flood] = CLIENTS.each_ref().map(|client| client.address);
        let names = format!("{:>25}  {:>25}", format!("well-behaved {polite}"), format!("flooding {flood}"));
        println!("        {}", self.paint(BOLD, &names));
        let client = format!("{:>7}{:>9}{:>9}", "sent", "arrived", "dropped");
        println!("{}", self.paint(DIM, &format!("second  {client}  {client}  arrived of sent")));
    }

    /// What happens at the beginning of this second, if anything does.
    pub fn event(&self, second: usize) {
        let text = match second {
            FLOOD_BEGINS => format!("the flood begins: {} packets a second", number(CLIENTS[1].rate)),
            DAEMON_DIES => "the daemon is killed (kill -9): the kernel goes on limiting".to_owned(),
            FLOOD_ENDS => "the flood ends".to_owned(),
            _ => return,
        };
        let line = if self.style.unicode { "──" } else { "--" };
        println!("{}", self.paint(CYAN, &format!("     {line} {text}")));
    }

    /// What became of the packets of a second.
    pub fn row(&self, second: usize, [polite, flood]: &[Count; CLIENTS.len()]) {
        let row = format!("{:>6}  {}  {}  ", second + 1, self.count(*polite), self.count(*flood));
        println!("{}", format!("{row}{}", self.bar(*flood)).trim_end());
    }

    fn count(&self, count: Count) -> String {
        let sent = format!("{:>7}", number(count.sent));
        let arrived = format!("{:>9}", number(count.arrived));
        let dropped = format!("{:>9}", number(count.dropped()));
        if count.sent == 0 {
            return self.paint(DIM, &format!("{sent}{arrived}{dropped}"));
        }
        let colour = if count.dropped() > 0 { RED } else { DIM };
        format!("{sent}{}{}", self.paint(GREEN, &arrived), self.paint(colour, &dropped))
    }

    fn bar(&self, count: Count) -> String {
        if count.sent == 0 {
            return String::new();
        }
        let (full, empty) = if self.style.unicode { ("█", "░") } else { ("#", ".") };
        let arrived = (count.arrived * BAR).div_ceil(count.sent).min(BAR);
        let rest = (BAR - arrived) as usize;
        let arrived = full.repeat(arrived as usize);
        format!("{}{}", self.paint(GREEN, &arrived), self.paint(RED, &empty.repeat(rest)))
    }

    /// Said if the demo ends early.
    pub fn stopped(&self) {
        let line = if self.style.unicode { "──" } else { "--" };
        println!(
            "{}",
            self.paint(CYAN, &format!("     {line} stopped by Ctrl-C; until then, in an unfinished second:"))
        );
    }

    /// What all of it was good for; `finished` is how many seconds were. Rates are of these, sums of all packets.
    pub fn summary(&self, finished: usize, traffic: &Traffic, counted: &Counted) {
        let [_, flood] = traffic.total(0..finished);
        let total = traffic.total(0..SECONDS);
        let flooded = finished.min(FLOOD_ENDS).saturating_sub(FLOOD_BEGINS);
        let sentences = [cut(flooded as u64, flood), kept(total[0])].concat();
        println!("\n{}", self.paint(BOLD, &sentences));
        println!("\n{}\n", Self::agreement(total, counted));
        println!("Nothing of the demo stays on this machine. To limit an interface of your own:\n");
        println!("    cargo xtask run -- --config config/ratelimit.yaml --interface eth0\n");
    }

    /// Whether the kernel has counted what the clients and the server have.
    fn agreement([polite, flood]: [Count; CLIENTS.len()], counted: &Counted) -> String {
        let (arrived, dropped) = (polite.arrived + flood.arrived, polite.dropped() + flood.dropped());
        let kernel =
            format!("{} packets passed, {} dropped", number(counted.passed), number(counted.dropped));
        if (arrived, dropped) == (counted.passed, counted.dropped) {
            return format!("`ratelimit status` counted the same in the kernel: {kernel}.");
        }
        let sockets = format!("{} arrived, {} did not", number(arrived), number(dropped));
        format!(
            "`ratelimit status` says: {kernel}; the sockets say: {sockets}.\nThe rest was lost on the cable."
        )
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.style.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// What became of the flood in so many seconds.
fn cut(seconds: u64, flood: Count) -> String {
    match (flood.sent.checked_div(seconds), flood.arrived.checked_div(seconds)) {
        (Some(sent), Some(arrived)) => {
            let (sent, arrived) = (number(sent), number(arrived));
            format!("The flood was cut from {sent} to {arrived} packets a second.\n")
        }
        _ => String::new(),
    }
}

/// What became of the well-behaved client.
fn kept(polite: Count) -> String {
    let sent = number(polite.sent);
    match polite.dropped() {
        0 => format!("The well-behaved client lost none of its {sent} packets."),
        lost => format!("The well-behaved client lost {} of its {sent} packets.", number(lost)),
    }
}

/// With commas between thousands.
fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    //! Numbers and sentences.

    use super::*;

    #[test]
    fn thousands_are_set_apart() {
        for (value, expected) in
            [(0, "0"), (999, "999"), (1_000, "1,000"), (48_123, "48,123"), (1_234_567, "1,234,567")]
        {
            assert_eq!(number(value), expected);
        }
    }

    #[test]
    fn sentences_say_what_was_lost() {
        let flood = Count { sent: 100_000, arrived: 2_100 };
        assert_eq!(cut(2, flood), "The flood was cut from 50,000 to 1,050 packets a second.\n");
        assert_eq!(cut(0, flood), "");
        assert_eq!(
            kept(Count { sent: 3_000, arrived: 3_000 }),
            "The well-behaved client lost none of its 3,000 packets."
        );
        assert_eq!(
            kept(Count { sent: 3_000, arrived: 2_999 }),
            "The well-behaved client lost 1 of its 3,000 packets."
        );
    }

    #[test]
    fn without_colours_there_are_no_escapes() {
        let show = Show::new(Style { colour: false, unicode: false });
        assert_eq!(show.bar(Count { sent: 160, arrived: 40 }), "####............");
        assert_eq!(show.count(Count { sent: 1_600, arrived: 40 }), "  1,600       40    1,560");
    }
}
