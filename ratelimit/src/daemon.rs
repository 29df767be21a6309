//! The daemon: puts a policy in force and keeps it there until it is told to stop.

use std::path::Path;

use anyhow::{Context as _, Result};
use tokio::{
    io::unix::AsyncFd,
    signal::unix::{SignalKind, signal},
    sync::mpsc,
};
use tracing::{debug, error, info};

use crate::{
    control::{self, Command, ControlSocket},
    dataplane::Dataplane,
    policy::{Network, OnExit, Policy},
};

/// Runs until a signal or a command ends it.
///
/// # Errors
/// The policy can't be put in force, or not be taken out of it.
pub fn run(policy: &Policy, network: &Network, config: &Path) -> Result<()> {
    let path = policy.control.clone().unwrap_or_else(|| control::default_path(&policy.instance));
    let socket = ControlSocket::bind(&path)?;
    let dataplane = Dataplane::start(&policy.instance, network, config)?;
    announce(policy, network, &dataplane);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("starting the runtime")?;
    runtime.block_on(serve(dataplane, network.on_exit, &socket))
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

async fn serve(mut dataplane: Dataplane, on_exit: OnExit, socket: &ControlSocket) -> Result<()> {
    let (sender, mut commands) = mpsc::channel(16);
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut leave = signal(SignalKind::user_defined2())?;
    let log = tokio::spawn(forward_log(dataplane.log()));
    let control = socket.serve(sender);
    tokio::pin!(control);
    tokio::select! {
        _ = terminate.recv() => stop(dataplane, on_exit),
        _ = interrupt.recv() => stop(dataplane, on_exit),
        _ = leave.recv() => stop(dataplane, OnExit::Keep),
        Some(Command::Detach(answer)) = commands.recv() => {
            let done = stop(dataplane, OnExit::Detach);
            let _ = answer.send(done.as_ref().map(|()| ()).map_err(|error| format!("{error:#}")));
            // The answer leaves through the socket's own task.
            let _ = tokio::time::timeout(GOODBYE, &mut control).await;
            done
        }
        failed = &mut control => {
            error!(?failed, "the control socket");
            std::future::pending().await
        }
    }?;
    log.abort();
    Ok(())
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

/// Passes on what the XDP program logs, which it does at debug level only.
async fn forward_log(log: Option<crate::dataplane::Log>) {
    let Some(mut log) = log.and_then(|log| AsyncFd::register(log).ok()) else {
        debug!("the XDP program does not log");
        return;
    };
    while let Ok(mut ready) = log.readable_mut().await {
        ready.get_inner_mut().flush();
        ready.clear_ready();
    }
}
