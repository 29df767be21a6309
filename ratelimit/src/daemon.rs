//! The daemon: puts a policy in force, keeps it there and replaces it, until it is told to stop.

mod ban_log;
mod files;
mod fixed;
mod links;
mod memory;
mod offenders;
mod packets;
mod reader;
mod rights;
mod running;
mod signals;
mod source;
mod store;
mod wall_clock;
mod watch;

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, Result};
use ratelimit_common::time::Nanos;
use tokio::{sync::mpsc, time};
use tracing::{error, warn};

pub use self::source::{ConfigSource, SourceError};
use self::{
    ban_log::NewBans,
    files::WatchedFiles,
    links::Links,
    reader::{ConfigReader, ReadResult, ReloadRequest},
    running::{Running, Started},
    signals::{SignalRequest, Signals},
    wall_clock::ClockWatch,
    watch::Stamps,
};
use crate::{
    config::{Checked, LastLists},
    control::{self, Command, ControlSocket, Layers, NetworkControl},
    dataplane::{Bans, Claim, in_one_line},
    events::Hub,
    metrics::{self, Metrics},
    policy::{InstanceName, OnExit},
};

/// Runs until a signal or a command ends it. `checked` is what `source` has said first; with `revert_after` its rules
/// are on trial for so long.
///
/// # Errors
/// The policy can't be put in force, or not be taken out of it.
pub fn run(source: ConfigSource, checked: Checked, revert_after: Option<Nanos>) -> Result<()> {
    memory::keep_little();
    let instance = checked.policy.instance.clone();
    let files = WatchedFiles::of(&source, &checked.policy);
    let stamps = Stamps::of(files.named());
    let lists = LastLists::of(&checked.policy);
    // First, because who has no permission, or is the second one, must not be told about sockets.
    let claim = checked.policy.network.as_ref().map(|_| Claim::take(&instance)).transpose()?;
    let path = checked.policy.control.clone().map_or_else(|| control::default_path(&instance), Ok)?;
    let socket = ControlSocket::bind(&path)?;
    let server = checked.policy.metrics.map(metrics::Server::bind).transpose()?;
    let limits_packets = claim.is_some();
    let mut metrics = Metrics::new(&instance, limits_packets);
    // Before anything is attached: a signal that comes meanwhile waits, and then takes it off again.
    let blocked = signals::block().context("blocking signals")?;
    let started = Started::new(claim, &source.config, checked, revert_after, &path, metrics.reloads())?;
    let bans = limits_packets.then(|| Bans::open(&instance)).transpose()?;
    // Before there are other threads, which would keep theirs.
    rights::keep_few();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting the runtime")?;
    let done = runtime.block_on(async {
        let signals = Signals::catch().context("catching signals")?;
        signals::unblock(&blocked).context("unblocking signals")?;
        let running = started.serve()?;
        if let Some(layer) = running.requests() {
            layer.register(metrics.registry());
        }
        if let Some(server) = server {
            tokio::spawn(serve_metrics(server, metrics, instance));
        }
        serve(running, ConfigReader::start(source, files, stamps, lists), bans, &socket, signals).await
    });
    // A file system may hang, and keep a thread that reads.
    runtime.shutdown_background();
    done
}

/// Serves metrics for as long as the runtime lives.
async fn serve_metrics(server: metrics::Server, metrics: Metrics, instance: InstanceName) {
    let ended = server.serve(metrics, instance).await;
    error!(?ended, "metrics are no longer served");
}

/// How often prefix lengths that have no ban any more are taken out of the kernel's look-ups, and the clocks are
/// compared.
const SWEEP: Duration = Duration::from_secs(60);

/// What a turn of the daemon's loop is about.
enum DaemonEvent {
    Signal(SignalRequest),
    Command(Command),
    Read(Box<ReadResult>),
    LinksChanged,
    TrialOver,
    ClockSet,
    Sweep,
    LookForBans,
    ControlEnded,
}

async fn serve(
    mut running: Running,
    mut reader: ConfigReader,
    bans: Option<Bans>,
    socket: &ControlSocket,
    mut signals: Signals,
) -> Result<()> {
    let (sender, mut commands) = mpsc::channel(64);
    if let Some(log) = running.log() {
        tokio::spawn(log.forward());
    }
    let bans = bans.map(Arc::new);
    let mut new_bans = bans.as_deref().map(NewBans::watch).transpose()?;
    if let Some((layer, bans)) = running.requests().zip(bans.as_ref()) {
        let servers = layer.servers();
        let (queue, proxy) = (Arc::clone(servers.offenders().queue()), Arc::clone(servers.proxy()));
        offenders::ban(queue, Arc::clone(bans), proxy)?;
    }
    let instance = running.instance().clone();
    let kernel = bans.clone().map(|bans| NetworkControl { bans, events: Hub::start(&instance) });
    let layers = Layers { kernel, requests: running.overview(), reloads: running.reload_log() };
    let control = control::serve(socket, &instance, sender, layers);
    tokio::pin!(control);
    let mut has_control = true;
    let mut links = Links::watch();
    let mut wall_clock = ClockWatch::watch();
    running.announce();
    memory::give_back();
    let mut sweep = time::interval(SWEEP);
    let mut look_for_bans = time::interval(NewBans::PERIOD);
    look_for_bans.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
    tell(&[sd_notify::NotifyState::Ready]);
    let (reason, wanted, asked_by) = loop {
        let event = tokio::select! {
            asked = signals.next() => DaemonEvent::Signal(asked),
            Some(command) = commands.recv() => DaemonEvent::Command(command),
            Some(found) = reader.found() => DaemonEvent::Read(Box::new(found)),
            () = links.changed() => DaemonEvent::LinksChanged,
            () = running.retry() => DaemonEvent::LinksChanged,
            () = running.trial_over() => DaemonEvent::TrialOver,
            () = wall_clock.was_set() => DaemonEvent::ClockSet,
            _ = sweep.tick() => DaemonEvent::Sweep,
            _ = look_for_bans.tick(), if new_bans.is_some() => DaemonEvent::LookForBans,
            ended = &mut control, if has_control => {
                error!(?ended, "the control socket is no longer served: only signals end this daemon now");
                DaemonEvent::ControlEnded
            }
        };
        match event {
            DaemonEvent::Signal(SignalRequest::Stop(name, wanted)) => break (name, wanted, None),
            DaemonEvent::Signal(SignalRequest::Reload) => ask(&reader, ReloadRequest::because("SIGHUP")),
            DaemonEvent::Read(found) => reload(&mut running, *found),
            DaemonEvent::Command(Command::Detach(answer)) => {
                break ("ratelimit detach", Some(OnExit::Detach), Some(answer));
            }
            DaemonEvent::Command(Command::Reload(trial, answer)) => {
                ask(
                    &reader,
                    ReloadRequest {
                        trial,
                        answer: Some(answer),
                        ..ReloadRequest::because("ratelimit reload")
                    },
                );
            }
            DaemonEvent::Command(Command::Observe(observes, answer)) => {
                let done = time_out_of_the_runtime(|| {
                    let done = running.observe(observes);
                    memory::give_back();
                    done
                });
                let _ = answer.send(done);
            }
            DaemonEvent::Command(Command::Buckets(asked, answer)) => {
                let _ = answer.send(running.buckets(&asked, bans.as_deref()));
            }
            DaemonEvent::LinksChanged => time_out_of_the_runtime(|| running.reconcile()),
            DaemonEvent::TrialOver => running.note_trial(),
            DaemonEvent::ClockSet => time_out_of_the_runtime(|| running.follow_clock()),
            DaemonEvent::Sweep => {
                time_out_of_the_runtime(|| running.follow_clock());
                if let Some(Err(error)) = bans.as_ref().map(|bans| bans.forget_lengths()) {
                    warn!(%error, "can't look for bans that have ended");
                }
            }
            DaemonEvent::LookForBans => {
                if let Some((new, bans)) = new_bans.as_mut().zip(bans.as_deref()) {
                    time_out_of_the_runtime(|| new.tell(bans));
                }
            }
            DaemonEvent::ControlEnded => has_control = false,
        }
    };
    tell(&[sd_notify::NotifyState::Stopping]);
    // Before the instance is given up: whoever gets it then must find no daemon here, nor must who gets the answer.
    socket.remove();
    let done = running.stop(wanted, reason).await;
    if let Some(answer) = asked_by {
        let done = done.as_ref().map(|()| serde_json::json!({"detached": true}));
        let _ = answer.send(done.map_err(|error| in_one_line(error.as_ref())));
        // The answer leaves through the socket's own task.
        let _ = time::timeout(GOODBYE, &mut control).await;
    }
    done
}

/// Asks for what a reload needs.
fn ask(reader: &ConfigReader, reload: ReloadRequest) {
    if let Err(ReloadRequest { answer: Some(answer), .. }) = reader.ask(reload) {
        let _ = answer.send(Err("other reloads wait already, for files that can't be read yet".to_owned()));
    }
}

fn reload(running: &mut Running, ReadResult { reload, read, is_taken }: ReadResult) {
    let ReloadRequest { reason, trial, answer } = reload;
    let done = time_out_of_the_runtime(|| {
        let done = running.reload(reason, trial, read);
        memory::give_back();
        done
    });
    // What is refused leaves the files from before to be watched.
    let _ = is_taken.send(done.is_ok());
    tell(&[sd_notify::NotifyState::Ready]);
    if let Some(answer) = answer {
        let _ = answer.send(done);
    }
}

/// Loading a generation takes a while; others go on meanwhile.
fn time_out_of_the_runtime<T>(what: impl FnOnce() -> T) -> T {
    tokio::task::block_in_place(what)
}

/// Tells the service manager, if there is one.
fn tell(state: &[sd_notify::NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        warn!(%error, "can't tell the service manager");
    }
}

/// How long a last answer may take to leave.
const GOODBYE: Duration = Duration::from_millis(200);
