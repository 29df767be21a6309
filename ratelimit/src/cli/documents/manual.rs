//! The pages of the manual: those of the commands are made of what the command line understands, that of the
//! configuration of the table of its keys.

use std::io;

use clap::CommandFactory as _;
use clap_mangen::{
    Man,
    roff::{Inline, Roff, bold, roman},
};

use super::super::Cli;
use crate::config::keys::{self, ConfigKey, LeftOut};

/// A page: its section, its name and its text.
pub type Page = (u8, String, Vec<u8>);

/// All pages.
///
/// # Errors
/// A page can't be written to memory, which does not happen.
pub fn pages() -> io::Result<Vec<Page>> {
    // What to do first is in the guides that the end of the first page names.
    let mut command = Cli::command().disable_help_subcommand(true).after_help(None::<&str>);
    command.build();
    let (section, name, mut text) = page("ratelimit".to_owned(), command.clone())?;
    text.extend(guides().into_bytes());
    let mut pages = vec![(section, name, text)];
    for subcommand in command.get_subcommands() {
        pages.push(page(format!("ratelimit-{}", subcommand.get_name()), subcommand.clone())?);
    }
    pages.push((5, "ratelimit.yaml".to_owned(), configuration().into_bytes()));
    Ok(pages)
}

fn page(name: String, command: clap::Command) -> io::Result<Page> {
    let mut text = Vec::new();
    Man::new(command).title(name.clone()).manual("ratelimit").render(&mut text)?;
    Ok((1, name, text))
}

/// Where the first page sends its readers.
fn guides() -> String {
    let mut page = Roff::new();
    page.control("SH", ["SEE ALSO"]);
    page.text([bold("ratelimit.yaml"), roman("(5)")]);
    page.control("PP", []).text(marked(
        "Guides by task are in `/usr/share/doc/ratelimit/docs`, where the Debian package puts them. If a flood is on now, \
         begin with `flood.md.gz` there, and if something does not work, with `troubleshooting.md.gz`.",
    ));
    page.to_roff()
}

/// How values are written, in short; CONFIGURATION.md has more examples.
const VALUES: [(&str, &str); 6] = [
    ("number", "Digits, with `k` (thousand) or `M` (million): `100`, `20k`, `1.5M`."),
    (
        "size",
        "A number of `B`, `kB`, `MB`, `GB`, `KiB`, `MiB`, `GiB`, `bit`, `kbit`, `Mbit` or `Gbit`: `10MB`, `50Mbit`.",
    ),
    ("time", "`s`, `m` (minute), `h`, `d`, `w`, or a number of these: `15m`. Outside a rate also `1h30m`."),
    ("rate", "A number or a size, a slash and a time: `10k/s`, `256/15m`, `50Mbit/s`."),
    ("range", "Two numbers and a dash, the smaller first: `8000-8999`."),
    ("list", "`[a, b]`, or one value without brackets."),
];

const DESCRIPTION: &str = "One file in YAML. It is read strictly: unknown keys and values that are out of range are mistakes, \
    all reported at once, and then nothing is changed. `ratelimit validate FILE` checks it without touching anything. A dot \
    leads to a key within a mapping, and `[]` stands for each item of a list.";

fn configuration() -> String {
    let mut page = Roff::new();
    page.control("TH", ["ratelimit.yaml", "5", "", "ratelimit", "ratelimit"]);
    page.control("SH", ["NAME"]).text([roman("ratelimit.yaml - configuration of ratelimit")]);
    page.control("SH", ["DESCRIPTION"]).text(marked(DESCRIPTION));
    page.control("SH", ["VALUES"]);
    for (name, text) in VALUES {
        page.control("TP", []).text([bold(name)]).text(marked(text));
    }
    page.control("SH", ["KEYS"]);
    keys::all().for_each(|key| describe(&mut page, key));
    page.control("SH", ["FILES OF RULES ON REQUESTS"]);
    page.text(marked("Files that `application.rules` names, in the form of Envoy's rate limit service. They have these keys:"));
    keys::of_rule_files().for_each(|key| describe(&mut page, key));
    page.control("SH", ["SEE ALSO"]);
    page.text([
        bold("ratelimit"),
        roman("(1), "),
        bold("ratelimit-run"),
        roman("(1), "),
        bold("ratelimit-validate"),
        roman("(1)"),
    ]);
    page.to_roff()
}

fn describe(page: &mut Roff, key: &ConfigKey) {
    let default = match key.default {
        LeftOut::Required => "none, it must be given".to_owned(),
        LeftOut::Is(value) => format!("`{value}`"),
        LeftOut::IsNumber(value) => format!("`{value}`"),
        LeftOut::Said(text) => text.to_owned(),
    };
    page.control("TP", []).text([bold(key.path)]).text(marked(key.meaning));
    page.control("RS", []);
    page.control("PP", []).text(marked(&format!("Value: {}", key.kind)));
    page.control("br", []).text(marked(&format!("Default: {default}")));
    page.control("PP", []).control("nf", []);
    page.text([roman(key.example)]).control("fi", []);
    page.control("RE", []);
}

/// A text in which what stands in backquotes is bold.
fn marked(text: &str) -> Vec<Inline> {
    let parts = text.split('`').enumerate().filter(|(_, part)| !part.is_empty());
    parts.map(|(index, part)| if index % 2 == 1 { bold(part) } else { roman(part) }).collect()
}
