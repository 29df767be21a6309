//! What the demo prints, line by line with its times, as a terminal would show it.
//!
//! It knows the few colours that the demo uses. All other escape sequences are left out, and a control character
//! becomes U+FFFD.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::command;

/// A line that was printed.
#[derive(Debug, PartialEq, Eq)]
pub struct Line {
    /// How long after the first one.
    pub at: Duration,
    /// Its text, by looks.
    pub spans: Vec<Span>,
}

/// Text of one look.
#[derive(Debug, PartialEq, Eq)]
pub struct Span {
    /// What it says.
    pub text: String,
    /// How it looks.
    pub look: Look,
}

/// How text looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Look {
    /// As the terminal writes by itself.
    #[default]
    Plain,
    Bold,
    Dim,
    Red,
    Green,
    Cyan,
}

/// Runs the command to its end, shows what it prints, and returns that.
pub fn of(command: &mut Command) -> Result<Vec<Line>> {
    let started = command.stdout(Stdio::piped()).spawn();
    let mut child = started.with_context(|| format!("starting {}", command::render(command)))?;
    let printed = child.stdout.take().context("a process without output")?;
    let (mut terminal, mut lines) = (Terminal::default(), Vec::new());
    let mut began = None;
    for line in BufReader::new(printed).lines() {
        let line = line.context("reading what the demo prints")?;
        let at = began.get_or_insert_with(Instant::now).elapsed();
        let spans = terminal.read(&line);
        println!("{}", spans.iter().map(|span| span.text.as_str()).collect::<String>());
        lines.push(Line { at, spans });
    }
    let status = child.wait().context("waiting for the demo's end")?;
    if !status.success() {
        bail!("the demo did not come to its end: {status}");
    }
    Ok(lines)
}

/// Reads lines; a look goes on into the next line.
#[derive(Default)]
struct Terminal {
    look: Look,
}

impl Terminal {
    fn read(&mut self, line: &str) -> Vec<Span> {
        let mut spans: Vec<Span> = Vec::new();
        let mut rest = line;
        while let Some(first) = rest.chars().next() {
            if let Some((sequence, behind)) = split_sequence(rest) {
                self.obey(sequence);
                rest = behind;
                continue;
            }
            rest = &rest[first.len_utf8()..];
            let shown = if is_shown(first) { first } else { char::REPLACEMENT_CHARACTER };
            match spans.last_mut() {
                Some(span) if span.look == self.look => span.text.push(shown),
                _ => spans.push(Span { text: shown.into(), look: self.look }),
            }
        }
        spans
    }

    /// The last known code of several counts.
    fn obey(&mut self, sequence: &str) {
        let Some(codes) = sequence.strip_suffix('m') else { return };
        for code in codes.split(';') {
            self.look = match code {
                "" | "0" => Look::Plain,
                "1" => Look::Bold,
                "2" => Look::Dim,
                "31" => Look::Red,
                "32" => Look::Green,
                "36" => Look::Cyan,
                _ => continue,
            };
        }
    }
}

/// The control sequence at the beginning of a text, without its introducer, and what is behind it.
fn split_sequence(text: &str) -> Option<(&str, &str)> {
    let sequence = text.strip_prefix("\x1b[")?;
    let end = sequence.find(|c: char| ('\x40'..='\x7e').contains(&c))?;
    Some(sequence.split_at(end + 1))
}

/// Whether a character can be seen, and written in XML.
fn is_shown(character: char) -> bool {
    !character.is_control() && !matches!(character, '\u{fffe}' | '\u{ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(text: &str, look: Look) -> Span {
        Span { text: text.to_owned(), look }
    }

    #[test]
    fn colours_become_looks_and_go_on_into_the_next_line() {
        let mut terminal = Terminal::default();
        let first = terminal.read("a \x1b[32mb\x1b[0m\x1b[1;31mc\x1b[m d\x1b[1me");
        let looks = [Look::Plain, Look::Green, Look::Red, Look::Plain, Look::Bold];
        let expected: Vec<Span> =
            ["a ", "b", "c", " d", "e"].into_iter().zip(looks).map(|(text, look)| span(text, look)).collect();
        assert_eq!(first, expected);
        assert_eq!(terminal.read("f\x1b[0m"), [span("f", Look::Bold)]);
        assert_eq!(terminal.read(""), []);
    }

    #[test]
    fn what_is_no_text_is_left_out_or_replaced() {
        let cases = [
            ("a\x1b[2Kb\x1b[?25lc", "abc"),
            ("a\x07b\tc\u{85}d\u{ffff}e", "a\u{fffd}b\u{fffd}c\u{fffd}d\u{fffd}e"),
            ("unfinished\x1b[31", "unfinished\u{fffd}[31"),
            ("\x1b", "\u{fffd}"),
        ];
        for (printed, expected) in cases {
            assert_eq!(Terminal::default().read(printed), [span(expected, Look::Plain)], "{printed:?}");
        }
    }

    #[test]
    fn a_program_that_fails_leaves_no_recording() {
        let recording = of(Command::new("sh").args(["-c", "echo one; echo two"])).unwrap();
        let texts: Vec<&str> = recording.iter().map(|line| line.spans[0].text.as_str()).collect();
        assert_eq!(texts, ["one", "two"]);
        assert_eq!(recording[0].at.as_secs(), 0);
        let error = of(Command::new("sh").args(["-c", "echo one; exit 3"])).unwrap_err().to_string();
        assert_eq!(error, "the demo did not come to its end: exit status: 3");
    }
}
