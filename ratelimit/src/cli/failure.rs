//! How a command says that it failed: on the standard error, for people or for programs.

use std::{fmt::Display, process::ExitCode};

use serde_json::json;

use super::output::{Output, complain};
use crate::{config::ConfigErrors, text::Shown};

/// Exit status: it could not be done.
const FAILED: u8 = 1;
/// Exit status: wrong usage or configuration.
const WRONG_USAGE: u8 = 2;

/// Why a command did not do what it should.
#[derive(Debug)]
pub struct CommandFailure {
    status: u8,
    message: String,
    /// Whether each line begins with the place in a file that it is about, as compilers have it.
    has_places: bool,
}

impl CommandFailure {
    /// It could not be done.
    pub fn failed(error: impl Display) -> Self {
        Self { status: FAILED, message: Shown(error).to_string(), has_places: false }
    }

    /// Wrong usage.
    pub fn wrong_usage(error: impl Display) -> Self {
        Self { status: WRONG_USAGE, message: Shown(error).to_string(), has_places: false }
    }

    /// A file is wrong, at the place that the error begins with.
    pub fn wrong_file(error: impl Display) -> Self {
        Self { status: WRONG_USAGE, message: Shown(error).to_string(), has_places: true }
    }

    /// Files are wrong, at the places that the lines begin with.
    pub fn wrong_lines(lines: impl IntoIterator<Item: Display>) -> Self {
        let lines: Vec<String> = lines.into_iter().map(|line| Shown(line).to_string()).collect();
        Self { status: WRONG_USAGE, message: lines.join("\n"), has_places: true }
    }

    /// With more to say, if it could not be done.
    pub fn and(mut self, more: &str) -> Self {
        if self.status == FAILED {
            self.message += more;
        }
        self
    }

    /// With other advice, if it gives this.
    pub fn with_advice(mut self, usual: &str, other: &str) -> Self {
        self.message = self.message.replace(usual, other);
        self
    }

    /// Says so.
    pub fn report(self, output: Output) -> ExitCode {
        match output {
            Output::Json => complain(&json!({"error": self.message})),
            Output::Text if self.has_places => complain(&self.message),
            Output::Text => complain(&format_args!("ratelimit: {}", self.message)),
        }
        ExitCode::from(self.status)
    }
}

impl From<ConfigErrors> for CommandFailure {
    fn from(errors: ConfigErrors) -> Self {
        Self::wrong_lines(errors)
    }
}
