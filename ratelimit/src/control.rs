//! The control socket: HTTP and JSON on a Unix socket that only its owner may open. The daemon serves it, the command
//! line asks it.

mod peer;
mod socket;

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use axum::{
    Json, Router,
    extract::{Path as PathPart, State},
    http::StatusCode,
    routing,
};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::{Request, body::Bytes};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use thiserror::Error;
use tokio::{
    net::{UnixListener, UnixStream},
    sync::{mpsc, oneshot},
};

use self::peer::{Peer, peer};
pub use self::socket::{ControlSocket, remove_left_over};
use crate::policy::InstanceName;

/// What the daemon is asked to do; the answer goes back to who asked.
#[derive(Debug)]
pub enum Command {
    /// Take the program off all interfaces, and stop.
    Detach(oneshot::Sender<Result<(), String>>),
}

/// What can go wrong with the control socket.
#[derive(Debug, Error)]
pub enum ControlError {
    /// Another daemon answers there.
    #[error("{path}: another daemon answers there: give this one another `control:`", path = .0.display())]
    Taken(PathBuf),
    /// There is no place for it.
    #[error(
        "no place for the control socket: without root it is in $XDG_RUNTIME_DIR, which is not set; set that or `control:`"
    )]
    NoPlace,
    /// No daemon answers there.
    #[error("{path}: no daemon answers there ({source}); name its socket with `--control PATH`", path = path.display())]
    Nobody {
        /// The socket.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// There is a daemon, and it does not answer.
    #[error("{path}: its daemon does not answer", path = .0.display())]
    Stuck(PathBuf),
    /// Something that is no socket stands where it is to be.
    #[error("{path}: {kind}, not a socket, and left alone: give `control:` another path", path = path.display())]
    NotASocket {
        /// Where.
        path: PathBuf,
        /// What it is.
        kind: &'static str,
    },
    /// It, or a directory for it, can't be made.
    #[error(
        "{path}: can't make {what} ({source}): set `control:` to a path where this user may make files",
        path = path.display()
    )]
    Make {
        /// Where the socket is to be.
        path: PathBuf,
        /// What can't be made.
        what: String,
        /// Why not.
        source: io::Error,
    },
    /// The daemon could not do it.
    #[error("the daemon answers: {0}")]
    Refused(String),
    /// The exchange broke off.
    #[error("talking to the daemon: {0}")]
    Broken(String),
}

/// Where an instance's socket is unless its configuration says otherwise.
///
/// # Errors
/// Nowhere: this user has no directory for such files.
pub fn default_path(instance: &InstanceName) -> Result<PathBuf, ControlError> {
    let root = if nix::unistd::geteuid().is_root() {
        PathBuf::from("/run")
    } else {
        let root = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        root.filter(|root| root.is_absolute()).ok_or(ControlError::NoPlace)?
    };
    Ok(root.join("ratelimit").join(format!("{instance}.sock")))
}

/// What the handlers share.
#[derive(Clone)]
struct Daemon {
    instance: Arc<str>,
    commands: mpsc::Sender<Command>,
}

impl ControlSocket {
    /// Answers until the process ends.
    ///
    /// # Errors
    /// The socket can't be served.
    pub async fn serve(&self, instance: &InstanceName, commands: mpsc::Sender<Command>) -> io::Result<()> {
        let listener = UnixListener::from_std(self.listener().try_clone()?)?;
        let daemon = Daemon { instance: instance.as_str().into(), commands };
        let routes =
            Router::new().route("/v1/instances/{instance}/detach", routing::post(detach)).with_state(daemon);
        axum::serve(listener, routes).await
    }
}

async fn detach(
    State(daemon): State<Daemon>,
    PathPart(instance): PathPart<String>,
) -> (StatusCode, Json<Value>) {
    if *instance != *daemon.instance {
        let error = format!("this is the socket of instance `{}`; nothing is changed", daemon.instance);
        return (StatusCode::NOT_FOUND, Json(json!({"error": error})));
    }
    let (answer, answered) = oneshot::channel();
    let done = match daemon.commands.send(Command::Detach(answer)).await {
        Ok(()) => answered.await.unwrap_or_else(|_| Err("the daemon stopped".to_owned())),
        Err(_) => Err("the daemon is stopping".to_owned()),
    };
    match done {
        Ok(()) => (StatusCode::OK, Json(json!({"detached": true}))),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, Json(json!({"error": error}))),
    }
}

/// The daemon that answers at a socket, by its process id.
#[must_use]
pub fn daemon(path: &Path) -> Option<i32> {
    match peer(path) {
        Peer::Process(process) => Some(process),
        Peer::Busy | Peer::Nobody(_) => None,
    }
}

/// How long a daemon may take for an answer. It has only one thing to do at a time, and none takes a second.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// Asks the daemon at `path`, which serves `instance`, to detach and to stop, and waits until it has detached.
///
/// # Errors
/// Nobody answers, or the daemon could not do it.
pub fn ask_to_detach(path: &Path, instance: &InstanceName) -> Result<(), ControlError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| ControlError::Broken(error.to_string()))?;
    let what = format!("/v1/instances/{instance}/detach");
    runtime.block_on(async {
        let asked = tokio::time::timeout(PATIENCE, ask(path, &what)).await;
        asked.unwrap_or_else(|_| Err(ControlError::Stuck(path.to_owned())))
    })
}

async fn ask(path: &Path, what: &str) -> Result<(), ControlError> {
    const MOST_ANSWER: usize = 1 << 20;
    let broken = |error: &dyn std::fmt::Display| ControlError::Broken(error.to_string());
    let stream = UnixStream::connect(path).await.map_err(|source| match source.kind() {
        // So many wait for an answer that there is no place for another.
        io::ErrorKind::WouldBlock => ControlError::Stuck(path.to_owned()),
        _ => ControlError::Nobody { path: path.to_owned(), source },
    })?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|error| broken(&error))?;
    tokio::spawn(connection);
    let request = Request::post(what).header("host", "ratelimit").body(Empty::<Bytes>::new());
    let request = request.map_err(|error| broken(&error))?;
    let answer = sender.send_request(request).await.map_err(|error| broken(&error))?;
    let status = answer.status();
    let body =
        Limited::new(answer.into_body(), MOST_ANSWER).collect().await.map_err(|error| broken(&error))?;
    if status.is_success() {
        return Ok(());
    }
    let answer: Value = serde_json::from_slice(&body.to_bytes()).unwrap_or_default();
    Err(ControlError::Refused(answer["error"].as_str().unwrap_or("?").to_owned()))
}
