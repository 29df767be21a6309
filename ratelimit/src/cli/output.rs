//! How a command answers: for people, or for programs.

use std::{fmt::Display, io::Write as _};

use crate::text::Thousands;

/// The form of a command's answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Output {
    /// For people.
    #[default]
    Text,
    /// For programs: one JSON value on the standard output, or an error as one on the standard error.
    Json,
}

/// Writes an answer to the standard output. Whoever closes it early, as `head` does, has seen enough.
///
/// # Errors
/// It can't be written for another reason.
pub fn write(answer: &dyn Display) -> std::io::Result<()> {
    write_on(answer).map(drop)
}

/// The same for a part of an answer without end; returns whether anybody reads on.
///
/// # Errors
/// See [`write()`].
pub fn write_on(part: &dyn Display) -> std::io::Result<bool> {
    let mut out = std::io::stdout().lock();
    match write!(out, "{part}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        done => done.map(|()| true),
    }
}

/// Writes a message to the standard error. If it can't be written, there is nobody to tell that.
pub fn complain(message: &dyn Display) {
    let _ = writeln!(std::io::stderr().lock(), "{message}");
}

/// A number of things, as people write it.
#[must_use]
pub fn counted(count: u64, what: &str) -> String {
    format!("{} {what}{}", Thousands(count), if count == 1 { "" } else { "s" })
}
