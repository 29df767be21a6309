//! `ratelimit detach`: takes an instance off all interfaces, whether a daemon serves it or not.

use std::{path::PathBuf, process::ExitCode};

use clap::Args;
use serde_json::json;

use super::{FAILED, InstanceArgs, answer_with, fail, output::Output};
use crate::{
    control::{self, ControlError},
    dataplane::{self, Error},
};

/// Takes an instance off all interfaces and forgets its buckets and counters; its daemon, if there is one, stops.
#[derive(Debug, Args)]
pub struct Detach {
    #[command(flatten)]
    instance: InstanceArgs,
    /// The daemon's control socket, if the configuration names another than the default one.
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
}

impl Detach {
    /// Detaches.
    #[must_use]
    pub fn run(self, output: Output) -> ExitCode {
        let instance = &self.instance.instance;
        let done = match dataplane::detach(instance) {
            Err(Error::Running { .. }) => {
                let path = self.control.unwrap_or_else(|| control::default_path(instance));
                ask(&path).map_err(|error| error.to_string())
            }
            done => done.map_err(|error| error.to_string()),
        };
        match done {
            Ok(()) => {
                let text = format!("detached instance `{instance}`\n");
                answer_with(output, &text, &json!({"detached": instance.as_str()}))
            }
            Err(error) => fail(FAILED, &error),
        }
    }
}

fn ask(path: &std::path::Path) -> Result<(), ControlError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| ControlError::Broken(error.to_string()))?;
    runtime.block_on(control::ask(path, "/v1/detach"))
}
