//! `cargo xtask`: sets the machine up, builds, runs, shows and tests. Each task is a module; this file only parses
//! arguments.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod bench;
mod build;
mod clients;
mod command;
mod demo;
mod embedding;
mod fuzz;
mod kernel;
mod markdown;
mod package;
mod packages;
mod run;
mod setup;
mod test;
mod tidy;
mod toolchain;
mod vm;

/// Build, run and test tasks of this repository.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Finds or installs what building and testing needs.
    Setup,
    /// Builds target/release/ratelimit, the BPF object embedded.
    Build {
        /// Builds target/debug/ratelimit instead.
        #[arg(long)]
        debug: bool,
        /// Builds target/dist/ratelimit instead, for packages: all crates are optimized as one, which takes long.
        #[arg(long, conflicts_with = "debug")]
        dist: bool,
    },
    /// Makes Debian packages and a static tarball, in target/package; each takes a `build --dist`.
    Package(package::Arguments),
    /// Builds, then starts `ratelimit run` as root with these arguments.
    Run {
        /// Arguments for `ratelimit run`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Shows the limiter against a flood for 15 seconds, in namespaces of its own: a good first thing to see.
    Demo(demo::Arguments),
    /// Runs every check and test, those that need root in namespaces of their own.
    Test {
        /// Runs only the tests whose names contain this, and no other check.
        filter: Option<String>,
        /// Runs only kernel tests, in a virtual machine with this kernel of Debian's; with a filter, any of them.
        #[arg(long, value_enum, value_name = "VERSION")]
        kernel: Option<vm::Kernel>,
        /// Runs only the tests that repeat one thing, reloads and killed daemons, hundreds of times.
        #[arg(long, conflicts_with = "kernel")]
        soak: bool,
        /// Runs only the tests of the Debian package, which is installed into a copy of this system that vanishes.
        #[arg(long, conflicts_with_all = ["kernel", "soak"])]
        packages: bool,
    },
    /// Measures, and says on which machine.
    Bench {
        /// What.
        what: bench::Bench,
        /// What the benchmark itself is told, as names of rows.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Sends random frames through the parser, and random requests to the servers; needs cargo-fuzz.
    Fuzz {
        /// For so long in all, each for an equal part.
        #[arg(long, default_value_t = 60)]
        seconds: u32,
    },
    /// Checks the invariants of ARCHITECTURE.md and the house rules that a program can check.
    Tidy,
}

fn main() -> ExitCode {
    let result = match Arguments::parse().task {
        Task::Setup => setup::all(),
        Task::Build { debug, dist } => build::run(match (debug, dist) {
            (true, _) => build::Profile::Dev,
            (_, true) => build::Profile::Dist,
            _ => build::Profile::Release,
        }),
        Task::Run { arguments } => run::run(&arguments),
        Task::Demo(arguments) => demo::run(&arguments),
        Task::Package(arguments) => package::run(&arguments),
        Task::Test { filter, kernel, soak, packages } => {
            let all = match (soak, packages) {
                (true, _) => test::What::Soak,
                (_, true) => test::What::Packages,
                _ => test::What::All,
            };
            test::run(filter.as_deref(), kernel.map_or(all, test::What::Kernel))
        }
        Task::Bench { what, arguments } => bench::run(what, &arguments),
        Task::Fuzz { seconds } => fuzz::run(seconds),
        Task::Tidy => tidy::run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
