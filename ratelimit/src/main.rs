//! The `ratelimit` command: arguments in, exit status out; everything else is in the library.

use std::process::ExitCode;

use clap::Parser as _;
use ratelimit::cli::Cli;

fn main() -> ExitCode {
    Cli::parse().run()
}
