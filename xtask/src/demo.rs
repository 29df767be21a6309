//! `demo`: the limiter at work between a server and two clients, second by second, on a machine inside the machine.
//!
//! It needs no configuration and touches nothing outside its own network and mount namespaces, which vanish with it.
//! The outer process builds and waits; the inner one, root in these namespaces, does the rest. It measures no
//! performance.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use signal_hook::consts::SIGINT;

use self::lab::Lab;
use self::show::{Show, Style};
use self::traffic::Traffic;
use crate::{build, command, kernel, setup};

mod lab;
mod picture;
mod recording;
mod show;
mod traffic;

/// The limit, for each source.
const RATE: u64 = 1_000;
const BURST: u64 = 100;

/// How long the demo sends, and what happens in which second, counted from 0.
const SECONDS: usize = 15;
const FLOOD_BEGINS: usize = 3;
const DAEMON_DIES: usize = 8;
const FLOOD_ENDS: usize = 13;

/// How long after a second's end all its packets have arrived.
const LAG: Duration = Duration::from_millis(150);

/// What people may ask for, and what the outer process tells the inner one.
#[derive(Args)]
pub struct Arguments {
    /// Also draws what the demo prints, each line at its time, as an SVG picture that moves.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// The daemon's binary.
    #[arg(long, hide = true, value_name = "BINARY", conflicts_with = "record")]
    inside: Option<PathBuf>,
    #[command(flatten)]
    style: Style,
}

/// Builds, then shows.
pub fn run(arguments: &Arguments) -> Result<()> {
    let interrupted = Arc::new(AtomicBool::new(false));
    // The outer process waits while the inner one, which gets the signal too, stops in good order.
    signal_hook::flag::register(SIGINT, Arc::clone(&interrupted)).context("catching Ctrl-C")?;
    match (&arguments.inside, &arguments.record) {
        (Some(binary), _) => show(binary, arguments.style, &interrupted),
        (None, None) => start_inside(&interrupted),
        (None, Some(file)) => record(file, &interrupted),
    }
}

fn start_inside(interrupted: &AtomicBool) -> Result<()> {
    let mut demo = inside(Style::here())?;
    let status = demo.status().with_context(|| format!("starting {}", command::render(&demo)))?;
    if !status.success() && !interrupted.load(Ordering::Relaxed) {
        bail!("the demo did not come to its end: {status}");
    }
    Ok(())
}

fn record(file: &Path, interrupted: &AtomicBool) -> Result<()> {
    let recording = recording::of(&mut inside(Style::ALL)?)?;
    if interrupted.load(Ordering::Relaxed) {
        bail!("the demo was stopped by Ctrl-C: nothing is drawn");
    }
    let title = "A terminal: the demo's table of packets sent, arrived and dropped, second by second";
    let picture = picture::draw(title, "cargo xtask demo", &recording);
    fs::write(file, picture).with_context(|| format!("writing {}", file.display()))?;
    println!("{} shows it", file.display());
    Ok(())
}

/// The inner process, in namespaces of its own.
fn inside(style: Style) -> Result<Command> {
    setup::for_tests()?;
    let binary = build::release()?;
    if let Some(reason) = kernel::no_namespaces_reason() {
        bail!("the demo {reason}: run `cargo xtask demo` as root, or where sudo is allowed");
    }
    let mut demo = kernel::in_namespaces();
    demo.arg(env::current_exe().context("finding this program's own path")?).arg("demo");
    demo.arg("--inside").arg(binary).args(style.arguments());
    Ok(demo)
}

fn show(binary: &Path, style: Style, interrupted: &AtomicBool) -> Result<()> {
    let show = Show::new(style);
    let mut lab = Lab::build(binary)?;
    show.introduction(lab.mode()?.as_str());
    let mut traffic = Traffic::start()?;
    let mut shown = 0;
    for second in 0..SECONDS {
        if second == DAEMON_DIES {
            lab.kill_daemon()?;
        }
        show.event(second);
        if !wait_until(traffic.started() + Duration::from_secs(second as u64 + 1) + LAG, interrupted) {
            break;
        }
        show.row(second, &traffic.second(second));
        shown = second + 1;
    }
    traffic.stop();
    if shown < SECONDS {
        show.stopped();
        // The sums count what was sent in seconds that were not over, too.
        let cut_short = (shown..SECONDS).filter(|&second| traffic.has_sent(second));
        cut_short.for_each(|second| show.row(second, &traffic.second(second)));
    }
    show.summary(shown, &traffic, &lab.counted()?);
    Ok(())
}

/// Waits; false if interrupted.
fn wait_until(moment: Instant, interrupted: &AtomicBool) -> bool {
    while !interrupted.load(Ordering::Relaxed) {
        let left = moment.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        thread::sleep(left.min(Duration::from_millis(20)));
    }
    false
}
