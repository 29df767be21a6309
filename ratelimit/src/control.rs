//! The control socket: HTTP and JSON on a Unix socket that only its owner may open. The daemon serves it, the command
//! line asks it.

mod buckets;
mod listen;
mod reloads;
mod routes;
mod served;
mod told;

use std::{
    io,
    net::IpAddr,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{
    Request, Response,
    body::{Bytes, Incoming},
    http::request::Builder,
};
use hyper_util::rt::TokioIo;
use ratelimit_common::time::Nanos;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;
use tokio::{net::UnixStream, sync::oneshot};

pub use self::listen::listen;
pub use self::{
    reloads::{LastReload, ReloadLog, last_reload, when_in_effect},
    routes::{Layers, MOST_RULES, NetworkControl, serve},
    served::{of_another, served},
    told::{ToldBans, tell_bans},
};
pub use crate::server::socket::{
    ControlSocket, SocketError, check_place as check_socket_place, remove_left_over,
};
use crate::{
    dataplane::{ADVICE, BanStatus, BucketStatus},
    policy::InstanceName,
    server::{
        LayerStatus,
        peer::{Peer, peer},
    },
};

/// What a command that is about packets gets from a daemon without them.
pub const NO_PACKETS: &str = "this daemon limits no packets: it has no `network`";

/// Takes the answer back to who asked: what was done, or why it was not.
pub type CommandReply = oneshot::Sender<Result<Value, String>>;

/// What the daemon is asked to do.
#[derive(Debug)]
pub enum Command {
    /// Take the program off all interfaces, and stop.
    Detach(CommandReply),
    /// Read the configuration again, and put its rules on trial for so long, if at all.
    Reload(Option<Nanos>, CommandReply),
    /// Switch all rules to observing, or back.
    Observe(bool, CommandReply),
    /// Show or reset a source's buckets.
    Buckets(AskedBuckets, CommandReply),
}

/// Which buckets.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AskedBuckets {
    /// Whose.
    pub address: IpAddr,
    /// Under which rule; all of them if not given.
    #[serde(default)]
    pub rule: Option<String>,
    /// Whether they are made as good as new.
    #[serde(default)]
    pub reset: bool,
}

/// Which buckets of rules on requests.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AskedRequestBuckets {
    /// Whose rules.
    pub domain: String,
    /// Descriptors, as their entries in order.
    pub descriptors: Vec<Vec<(String, String)>>,
    /// Whether they are made as good as new.
    #[serde(default)]
    pub reset: bool,
}

/// What is answered about them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AnsweredRequestBuckets {
    /// Whose rules.
    pub domain: String,
    /// Whether they were made as good as new, after they were as told here.
    pub reset: bool,
    /// One for each descriptor.
    pub buckets: Vec<RequestBucket>,
}

/// A descriptor's bucket.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RequestBucket {
    /// The descriptor, as `KEY=VALUE,...`.
    pub descriptor: String,
    /// The rule's name, or its key.
    pub rule: Option<String>,
    /// The most at once; `None` if no limit applies.
    pub limit: Option<u64>,
    /// What is left.
    pub remaining: u64,
    /// Seconds until one request would pass, if none would.
    pub retry_after: Option<f64>,
    /// Seconds until the bucket is full again, or the window ends.
    pub reset_after: f64,
}

/// What is answered about them: first what comes before all rules.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AnsweredBuckets {
    /// Whose.
    pub address: IpAddr,
    /// Whether they were made as good as new.
    pub reset: bool,
    /// Whether anything is dropped: not after a trial that nobody confirmed.
    pub in_force: bool,
    /// The prefix on the allow list that it is inside: everything of it passes.
    pub allowed: Option<String>,
    /// The prefix on the deny list that it is inside: everything of it is dropped, unless it is allowed.
    pub denied: Option<String>,
    /// The ban that it is inside: likewise.
    pub banned: Option<BanStatus>,
    /// What the rules say.
    pub buckets: Vec<BucketStatus>,
    /// Rules that never judge it, whatever it sends.
    #[serde(default)]
    pub spared_by: Vec<SparingRule>,
}

/// A rule that never judges a source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SparingRule {
    /// Its name.
    pub rule: String,
    /// Which key of it spares the source.
    pub key: SparingKey,
}

/// Which key of a rule spares a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SparingKey {
    /// Its condition is about others.
    Match,
    /// It excepts the source.
    Except,
}

/// What can go wrong with the control socket.
#[derive(Debug, Error)]
pub enum ControlError {
    /// Its file.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// There is no place for it.
    #[error(
        "no place for the control socket: without root it is in $XDG_RUNTIME_DIR, which is not set: be root (`sudo`), or set \
         that or `control:`"
    )]
    NoPlace,
    /// No daemon answers there.
    #[error("{}", nobody(path, source))]
    Nobody {
        /// The socket.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// There is a daemon, and it does not answer.
    #[error("{path}: its daemon does not answer", path = .0.display())]
    Stuck(PathBuf),
    /// The daemon could not do it.
    #[error("the daemon answers: {0}")]
    Refused(String),
    /// The exchange broke off.
    #[error("talking to the daemon: {0}")]
    Broken(String),
}

/// That no daemon answers, and what to do about it. That of root is not for others, and has its socket elsewhere.
fn nobody(path: &Path, source: &io::Error) -> String {
    let path = path.display();
    if source.kind() == io::ErrorKind::PermissionDenied {
        return format!(
            "{path}: only the user who has started its daemon may ask it: be that user, as a rule root (`sudo`)"
        );
    }
    let user =
        if nix::unistd::geteuid().is_root() { "" } else { "if root has started it, be root (`sudo`); else " };
    format!("{path}: no daemon answers there ({source}): {user}{ADVICE}")
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

/// The daemon that answers at a socket, by its process id; `None` if there is none.
///
/// # Errors
/// There is one that has let so many wait for so long that nobody else gets a place.
pub fn daemon(path: &Path) -> Result<Option<i32>, ControlError> {
    let until = Instant::now() + PATIENCE;
    loop {
        match peer(path) {
            Peer::Process(process) => return Ok(Some(process)),
            Peer::Nobody(_) => return Ok(None),
            Peer::Busy if Instant::now() >= until => return Err(ControlError::Stuck(path.to_owned())),
            Peer::Busy => std::thread::sleep(TRY_AGAIN),
        }
    }
}

/// How long a daemon may take for an answer. It does one thing at a time, and only loading rules takes long.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// How soon a socket is tried again at which so many wait that there is no place: nothing tells when there is one.
const TRY_AGAIN: Duration = Duration::from_millis(20);

/// Asks the daemon at `path`, which serves `instance`, for `what`, waits for at most `patience`, and returns its
/// answer.
///
/// # Errors
/// Nobody answers, or the daemon could not do it.
pub fn ask(
    path: &Path,
    instance: &InstanceName,
    what: &str,
    asked: &Value,
    patience: Duration,
) -> Result<Value, ControlError> {
    exchange(path, Request::post(route(instance, what)), asked.to_string(), patience)
}

/// What is in force about requests at the daemon at `path`, which serves `instance`, with at most so many rules; `None`
/// if it has no application layer.
///
/// # Errors
/// Nobody answers, or what is no such status.
pub fn requests(
    path: &Path,
    instance: &InstanceName,
    most: usize,
) -> Result<Option<LayerStatus>, ControlError> {
    let what = route(instance, &format!("requests/{most}"));
    let answer = exchange(path, Request::get(what), String::new(), PATIENCE)?;
    serde_json::from_value(answer).map_err(|error| broken(&error))
}

/// Whether the daemon at `path` says that it limits packets: its pins may be out of sight.
pub fn limits_packets(path: &Path, instance: &InstanceName) -> bool {
    let answer = exchange(path, Request::get(route(instance, "network")), String::new(), PATIENCE);
    answer.is_ok_and(|answer| answer == Value::Bool(true))
}

fn route(instance: &InstanceName, what: &str) -> String {
    format!("/v1/instances/{instance}/{what}")
}

/// Sends a request, waits for at most `patience`, and returns the answer.
fn exchange(path: &Path, request: Builder, asked: String, patience: Duration) -> Result<Value, ControlError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| ControlError::Broken(error.to_string()))?;
    runtime.block_on(async {
        let answer = async { read(send(path, request, asked).await?).await };
        let answer = tokio::time::timeout(patience, answer).await;
        answer.unwrap_or_else(|_| Err(ControlError::Stuck(path.to_owned())))
    })
}

/// Sends a request, and returns the answer of a daemon that does what it is asked.
async fn send(path: &Path, request: Builder, asked: String) -> Result<Response<Incoming>, ControlError> {
    let stream =
        connect(path).await.map_err(|source| ControlError::Nobody { path: path.to_owned(), source })?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|error| broken(&error))?;
    tokio::spawn(connection);
    let request = request.header("host", "ratelimit").header("content-type", "application/json");
    let request = request.body(Full::new(Bytes::from(asked))).map_err(|error| broken(&error))?;
    let answer = sender.send_request(request).await.map_err(|error| broken(&error))?;
    if answer.status().is_success() {
        return Ok(answer);
    }
    let answer = read(answer).await?;
    Err(ControlError::Refused(answer["error"].as_str().unwrap_or("?").to_owned()))
}

/// Connects as soon as there is a place among those who wait for an answer.
async fn connect(path: &Path) -> io::Result<UnixStream> {
    loop {
        match UnixStream::connect(path).await {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => tokio::time::sleep(TRY_AGAIN).await,
            connected => return connected,
        }
    }
}

async fn read(answer: Response<Incoming>) -> Result<Value, ControlError> {
    const MOST_ANSWER: usize = 64 << 20;
    let body = Limited::new(answer.into_body(), MOST_ANSWER).collect().await;
    let body = body.map_err(|error| broken(&error))?;
    Ok(serde_json::from_slice(&body.to_bytes()).unwrap_or_default())
}

fn broken(error: &dyn std::fmt::Display) -> ControlError {
    ControlError::Broken(error.to_string())
}
