//! The control socket: HTTP and JSON on a Unix socket that only its owner may open. The daemon serves it, the command
//! line asks it.

use std::{
    fs, io,
    os::unix::{fs::PermissionsExt as _, net::UnixStream as StdUnixStream},
    path::{Path, PathBuf},
};

use axum::{Json, Router, extract::State, http::StatusCode, routing};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::{Request, body::Bytes};
use hyper_util::rt::TokioIo;
use nix::sys::stat::{Mode, umask};
use serde_json::{Value, json};
use thiserror::Error;
use tokio::{
    net::{UnixListener, UnixStream},
    sync::{mpsc, oneshot},
};

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
    #[error("{path}: another daemon answers there: stop it first, or give this one another `control:`", path = .0.display())]
    Taken(PathBuf),
    /// No daemon answers there.
    #[error("{path}: no daemon answers there ({source})", path = path.display())]
    Nobody {
        /// The socket.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The socket can't be made.
    #[error("{path}: {source}", path = path.display())]
    Socket {
        /// The socket.
        path: PathBuf,
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
#[must_use]
pub fn default_path(instance: &InstanceName) -> PathBuf {
    let root = if nix::unistd::geteuid().is_root() { None } else { std::env::var_os("XDG_RUNTIME_DIR") };
    root.map_or_else(|| PathBuf::from("/run"), PathBuf::from)
        .join("ratelimit")
        .join(format!("{instance}.sock"))
}

/// A socket that removes its file when the daemon stops.
#[derive(Debug)]
pub struct ControlSocket {
    listener: StdListener,
    path: PathBuf,
}

type StdListener = std::os::unix::net::UnixListener;

impl ControlSocket {
    /// Makes the socket. A file that nobody answers at is left over from a daemon that died, and replaced.
    ///
    /// # Errors
    /// Somebody answers there, or the file can't be made.
    pub fn bind(path: &Path) -> Result<Self, ControlError> {
        let failed = |source| ControlError::Socket { path: path.to_owned(), source };
        if StdUnixStream::connect(path).is_ok() {
            return Err(ControlError::Taken(path.to_owned()));
        }
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory).map_err(failed)?;
        }
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        // The file must at no time be open to others.
        let before = umask(Mode::from_bits_truncate(0o177));
        let bound = StdListener::bind(path);
        umask(before);
        let listener = bound.map_err(failed)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        Ok(Self { listener, path: path.to_owned() })
    }

    /// Answers until the process ends.
    ///
    /// # Errors
    /// The socket can't be served.
    pub async fn serve(&self, commands: mpsc::Sender<Command>) -> io::Result<()> {
        let listener = UnixListener::from_std(self.listener.try_clone()?)?;
        let routes = Router::new().route("/v1/detach", routing::post(detach)).with_state(commands);
        axum::serve(listener, routes).await
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        // It may be gone with its directory.
        let _ = fs::remove_file(&self.path);
    }
}

async fn detach(State(commands): State<mpsc::Sender<Command>>) -> (StatusCode, Json<Value>) {
    let (answer, answered) = oneshot::channel();
    let done = match commands.send(Command::Detach(answer)).await {
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
    let stream = StdUnixStream::connect(path).ok()?;
    let peer = nix::sys::socket::getsockopt(&stream, nix::sys::socket::sockopt::PeerCredentials).ok()?;
    Some(peer.pid())
}

/// Asks the daemon at `path` to do `what`, and waits until it is done.
///
/// # Errors
/// Nobody answers, or the daemon could not do it.
pub async fn ask(path: &Path, what: &str) -> Result<(), ControlError> {
    const MOST_ANSWER: usize = 1 << 20;
    let broken = |error: &dyn std::fmt::Display| ControlError::Broken(error.to_string());
    let stream = UnixStream::connect(path)
        .await
        .map_err(|source| ControlError::Nobody { path: path.to_owned(), source })?;
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
