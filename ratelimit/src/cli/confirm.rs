//! `ratelimit confirm`: rules on trial stay.

use clap::Args;
use serde_json::json;

use super::{InstanceArgs, answer_with, failure::CommandFailure, output::Output, status};
use crate::dataplane::{self, TRIED_AGAIN, TrialState};

/// Confirms the rules on trial, so that they stay in force; it needs no daemon.
#[derive(Debug, Args)]
pub struct Confirm {
    #[command(flatten)]
    pub instance: InstanceArgs,
}

impl Confirm {
    /// Confirms.
    ///
    /// # Errors
    /// The instance is not attached, or it is too late.
    pub fn run(self, output: Output) -> Result<(), CommandFailure> {
        match dataplane::confirm(&self.instance.instance).map_err(CommandFailure::failed)? {
            TrialState::Failed => Err(CommandFailure::failed(format_args!(
                "too late: everything passes already; {TRIED_AGAIN}"
            ))),
            TrialState::None => {
                answer_with(output, &"nothing is on trial; the rules stay\n", &json!({"confirmed": false}))
            }
            TrialState::Left(_) => {
                let (warning, is_in_force) = status::file_in_force(self.instance);
                let answer = json!({"confirmed": true, "file_in_force": is_in_force});
                answer_with(output, &format_args!("confirmed: the rules stay\n{warning}"), &answer)
            }
        }
    }
}
