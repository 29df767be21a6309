//! The `ratelimit` command: arguments in, exit status out; everything else is in the library.
#![warn(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;

use clap::Parser as _;
use ratelimit::cli::Cli;

fn main() -> ExitCode {
    Cli::parse().run()
}
