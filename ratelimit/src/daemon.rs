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
    dataplane::{Claim, Dataplane, in_one_line},
    policy::{Network, OnExit, Policy},
};

/// Runs until a signal or a command ends it.
///
/// # Errors
/// The policy can't be put in force, or not be taken out of it.
pub fn run(policy: &Policy, network: &Network, config: &Path) -> Result<()> {
    let instance = &policy.instance;
    // First, because who has no permission, or is the second one, must not be told about sockets.
    let claim = Claim::take(instance)?;
    let path = policy.control.clone().map_or_else(|| control::default_path(instance), Ok)?;
    let socket = ControlSocket::bind(&path)?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("starting the runtime")?;
    runtime.block_on(async {
        // Before anything is attached: a signal that comes meanwhile waits, and then takes it off again.
        let signals = Signals::catch().context("catching signals")?;
        let dataplane = claim.start(network, config, &path)?;
        announce(policy, network, &dataplane);
        serve(dataplane, policy, network.on_exit, &socket, signals).await
    })
}

/// The signals that the daemon acts on.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    leave: Signal,
    hang_up: Signal,
}

impl Signals {
    fn catch() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            leave: signal(SignalKind::user_defined2())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for a signal to stop; returns its name, and what is to become of the limits if that is not up to the policy.
    async fn stop(&mut self) -> (&'static str, Option<OnExit>) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return ("SIGTERM", None),
                _ = self.interrupt.recv() => return ("SIGINT", None),
                _ = self.leave.recv() => return ("SIGUSR2", Some(OnExit::Keep)),
                // As when the terminal is closed, or somebody means to reload.
                _ = self.hang_up.recv() => info!("SIGHUP is ignored: to change limits, stop and start the daemon"),
            }
        }
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
    policy: &Policy,
    on_exit: OnExit,
    socket: &ControlSocket,
    mut signals: Signals,
) -> Result<()> {
    let (sender, mut commands) = mpsc::channel(16);
    if let Some(log) = dataplane.log() {
        tokio::spawn(log.forward());
    }
    let control = async {
        let ended = socket.serve(&policy.instance, sender).await;
        error!(?ended, "the control socket: only signals end this daemon now");
        std::future::pending::<()>().await
    };
    tokio::pin!(control);
    let (what, reason, asked_by) = tokio::select! {
        (signal, wanted) = signals.stop() => (wanted.unwrap_or(on_exit), signal, None),
        Some(Command::Detach(answer)) = commands.recv() => {
            (OnExit::Detach, "ratelimit detach", Some(answer))
        }
        () = &mut control => return Ok(()),
    };
    // Before the instance is given up: whoever gets it then must find no daemon here, nor must who gets the answer.
    socket.remove();
    let done = stop(dataplane, what, reason);
    if let Some(answer) = asked_by {
        let _ = answer.send(done.as_ref().copied().map_err(|error| in_one_line(error.as_ref())));
        // The answer leaves through the socket's own task.
        let _ = tokio::time::timeout(GOODBYE, &mut control).await;
    }
    done
}

/// How long a last answer may take to leave.
const GOODBYE: std::time::Duration = std::time::Duration::from_millis(200);

/// Ends the daemon's work, which gives up the instance too.
fn stop(dataplane: Dataplane, on_exit: OnExit, reason: &str) -> Result<()> {
    let names: Vec<&str> =
        dataplane.attachments().iter().map(|attachment| attachment.interface.as_str()).collect();
    let interfaces = names.join(", ");
    match on_exit {
        OnExit::Keep => info!(reason, interfaces, "stopping; the limits stay in force"),
        OnExit::Detach => {
            dataplane.detach().context("detaching")?;
            info!(reason, interfaces, "detached");
        }
    }
    Ok(())
}
