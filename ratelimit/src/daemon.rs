//! The daemon: puts a policy in force and keeps it there until it is told to stop.

use std::path::Path;

use anyhow::{Context as _, Result};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc,
};
use tracing::{error, info};

use crate::{
    control::{self, Command, ControlSocket},
    dataplane::{self, Dataplane, in_one_line},
    policy::{Network, OnExit, Policy},
};

/// Runs until a signal or a command ends it.
///
/// # Errors
/// The policy can't be put in force, or not be taken out of it.
pub fn run(policy: &Policy, network: &Network, config: &Path) -> Result<()> {
    // First, because without permission the socket can't be made either, which would say less.
    dataplane::check()?;
    let path = policy.control.clone().unwrap_or_else(|| control::default_path(&policy.instance));
    let socket = ControlSocket::bind(&path)?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("starting the runtime")?;
    runtime.block_on(async {
        // Before anything is attached: a signal that comes meanwhile waits, and then takes it off again.
        let signals = Signals::catch().context("catching signals")?;
        let dataplane = Dataplane::start(&policy.instance, network, config)?;
        announce(policy, network, &dataplane);
        serve(dataplane, network.on_exit, &socket, signals).await
    })
}

/// The signals that end the daemon.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    leave: Signal,
}

impl Signals {
    fn catch() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            leave: signal(SignalKind::user_defined2())?,
        })
    }
}

fn announce(policy: &Policy, network: &Network, dataplane: &Dataplane) {
    for attachment in dataplane.attachments() {
        info!(
            interface = attachment.interface,
            mode = attachment.mode.name(),
            rules = network.rules.len(),
            instance = %policy.instance,
            "limiting"
        );
    }
    if dataplane.is_adopted() {
        info!("going on with the buckets and counters of the daemon before");
    }
}

async fn serve(
    mut dataplane: Dataplane,
    on_exit: OnExit,
    socket: &ControlSocket,
    mut signals: Signals,
) -> Result<()> {
    let (sender, mut commands) = mpsc::channel(16);
    if let Some(log) = dataplane.log() {
        tokio::spawn(log.forward());
    }
    let control = socket.serve(sender);
    tokio::pin!(control);
    tokio::select! {
        _ = signals.terminate.recv() => stop(dataplane, on_exit),
        _ = signals.interrupt.recv() => stop(dataplane, on_exit),
        _ = signals.leave.recv() => stop(dataplane, OnExit::Keep),
        Some(Command::Detach(answer)) = commands.recv() => {
            let done = stop(dataplane, OnExit::Detach);
            let _ = answer.send(done.as_ref().copied().map_err(|error| in_one_line(error.as_ref())));
            // The answer leaves through the socket's own task.
            let _ = tokio::time::timeout(GOODBYE, &mut control).await;
            done
        }
        failed = &mut control => {
            error!(?failed, "the control socket");
            std::future::pending().await
        }
    }
}

/// How long a last answer may take to leave.
const GOODBYE: std::time::Duration = std::time::Duration::from_millis(200);

fn stop(dataplane: Dataplane, on_exit: OnExit) -> Result<()> {
    match on_exit {
        OnExit::Keep => info!("stopping; the limits stay in force"),
        OnExit::Detach => {
            dataplane.detach().context("detaching")?;
            info!("detached");
        }
    }
    Ok(())
}
