//! How a command answers: for people, or for programs.

use std::io::Write as _;

/// The form of a command's answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Output {
    /// For people.
    #[default]
    Text,
    /// For programs: one JSON value on the standard output.
    Json,
}

/// Writes an answer to the standard output. Whoever closes it early, as `head` does, has seen enough.
///
/// # Errors
/// It can't be written for another reason.
pub fn write(answer: &dyn std::fmt::Display) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    match write!(out, "{answer}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        done => done,
    }
}
