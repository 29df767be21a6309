//! What the daemon answers at its control socket.

use std::{io, num::NonZeroU64, sync::Arc, time::Duration};

use axum::{
    Json, Router,
    body::{self, Body, Bytes},
    extract::{Path as PathPart, Request, State, rejection::JsonRejection},
    http::{StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse as _, Response},
    routing,
};
use ratelimit_common::time::Nanos;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

use super::{
    AskedBuckets, AskedRequestBuckets, Command, CommandReply, ControlSocket, NO_PACKETS, ReloadLog, ToldBans,
    buckets,
};
use crate::{
    application::InspectError,
    dataplane::{BanError, BanInForce, BanReasonError, BanStatus, Bans, NewBan, around},
    events::{Hub, MOST_CLIENTS},
    policy::{BanLength, InstanceName, Prefix},
    server::{
        Overview,
        serving::{Bounds, ConnectionLimit, Listener, Overload, serve_routes},
    },
};

/// So many connections at once.
const MOST_CONNECTIONS: usize = 256;

/// Bytes of a request at most.
const MOST_REQUEST: usize = 64 << 10;

/// Rules on requests that are listed at most, and domains.
pub const MOST_RULES: usize = 10_000;

/// How long a ban lasts if nobody says.
pub const DEFAULT_BAN: Duration = Duration::from_secs(600);

/// What the handlers share.
#[derive(Clone)]
struct ControlContext {
    instance: Arc<str>,
    commands: mpsc::Sender<Command>,
    layers: Layers,
}

/// What the daemon has, for those who ask at its control socket.
#[derive(Clone, Debug, Default)]
pub struct Layers {
    /// The network layer.
    pub kernel: Option<NetworkControl>,
    /// The application layer.
    pub requests: Option<Overview>,
    /// What came of the last reload.
    pub reloads: ReloadLog,
}

/// What the control socket needs of the network layer.
#[derive(Clone, Debug)]
pub struct NetworkControl {
    /// The bans.
    pub bans: Arc<Bans>,
    /// The events of packets.
    pub events: Hub,
}

/// Answers until the process ends.
///
/// # Errors
/// The socket can't be served.
pub async fn serve(
    socket: &ControlSocket,
    instance: &InstanceName,
    commands: mpsc::Sender<Command>,
    layers: Layers,
) -> io::Result<()> {
    let daemon = ControlContext { instance: instance.as_str().into(), commands, layers };
    let routes = Router::new()
        .route("/detach", routing::post(detach))
        .route("/reload", routing::post(reload).get(last_reload))
        .route("/observe", routing::post(observe))
        .route("/buckets", routing::post(source_buckets))
        .route("/events", routing::get(listen))
        .route("/network", routing::get(limits_packets))
        .route("/requests/{most}", routing::get(requests))
        .route("/requests/buckets", routing::post(request_buckets))
        .route("/bans", routing::get(list).post(ban).delete(unban))
        .route("/bans/told", routing::post(told))
        .layer(middleware::from_fn(with_its_body))
        .layer(middleware::from_fn_with_state(daemon.clone(), only_this_instance))
        .with_state(daemon);
    let name = json!({"instance": instance.as_str()});
    let routes = Router::new()
        .nest("/v1/instances/{instance}", routes)
        .route("/v1/instance", routing::get(async || Json(name)));
    // More wait until one of these ends; those who say nothing for a while are let go.
    let room = ConnectionLimit::new(MOST_CONNECTIONS, Overload::Queue);
    serve_routes(Listener::private(socket)?, routes, Bounds::INTERNAL, room).await
}

/// What is common to all paths.
#[derive(Deserialize)]
struct OfInstance {
    instance: String,
}

async fn only_this_instance(
    State(daemon): State<ControlContext>,
    PathPart(OfInstance { instance }): PathPart<OfInstance>,
    request: Request,
    next: Next,
) -> Response {
    if *instance == *daemon.instance {
        return next.run(request).await;
    }
    let instance = &daemon.instance;
    let error = format!(
        "this is the socket of instance `{instance}`, and nothing is changed: name it with `--instance {instance}`"
    );
    refused(StatusCode::NOT_FOUND, error)
}

fn refused(status: StatusCode, error: impl std::fmt::Display) -> Response {
    (status, Json(json!({"error": error.to_string()}))).into_response()
}

/// Asks the daemon's loop.
async fn ask(daemon: &ControlContext, command: impl FnOnce(CommandReply) -> Command) -> Response {
    let (answer, answered) = oneshot::channel();
    let done = match daemon.commands.send(command(answer)).await {
        Ok(()) => answered.await.unwrap_or_else(|_| Err("the daemon stopped".to_owned())),
        Err(_) => Err("the daemon is stopping".to_owned()),
    };
    match done {
        Ok(answer) => Json(answer).into_response(),
        Err(error) => refused(StatusCode::INTERNAL_SERVER_ERROR, error),
    }
}

/// A request has to come whole in the time that its headers have: what is done with it may take any time, and nobody
/// may keep a place by asking for nothing.
async fn with_its_body(request: Request, next: Next) -> Response {
    let (head, body) = request.into_parts();
    let whole = timeout(Bounds::INTERNAL.times.headers, body::to_bytes(body, MOST_REQUEST));
    match whole.await {
        Ok(Ok(body)) => next.run(Request::from_parts(head, body.into())).await,
        Ok(Err(_)) => {
            refused(StatusCode::PAYLOAD_TOO_LARGE, format!("a request has at most {MOST_REQUEST} bytes"))
        }
        Err(_) => refused(StatusCode::REQUEST_TIMEOUT, "the rest of the request did not come in time"),
    }
}

/// Events of packets, one JSON object a line, until the client goes.
async fn listen(State(daemon): State<ControlContext>) -> Response {
    let lines = match kernel(&daemon) {
        Ok(kernel) => kernel.events.lines(),
        Err((status, error)) => return refused(status, error),
    };
    match lines {
        Some(lines) => {
            ([(header::CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(lines)).into_response()
        }
        None => {
            let error = format!("{MOST_CLIENTS} clients listen to events already");
            refused(StatusCode::SERVICE_UNAVAILABLE, error)
        }
    }
}

type RequestBody<T> = Result<Json<T>, JsonRejection>;

async fn detach(State(daemon): State<ControlContext>) -> Response {
    ask(&daemon, Command::Detach).await
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct AskedReload {
    #[serde(default)]
    revert_after_seconds: Option<NonZeroU64>,
}

/// Without a body it is a reload without a trial.
async fn reload(State(daemon): State<ControlContext>, asked: Bytes) -> Response {
    let asked = if asked.is_empty() { Ok(AskedReload::default()) } else { serde_json::from_slice(&asked) };
    match asked.map(|asked| asked.revert_after_seconds) {
        Ok(seconds) => {
            let trial = seconds.map(|seconds| Nanos::from_secs(seconds.get()));
            ask(&daemon, |answer| Command::Reload(trial, answer)).await
        }
        Err(error) => refused(StatusCode::BAD_REQUEST, error),
    }
}

/// What came of the last one; `null` if there has been none.
async fn last_reload(State(daemon): State<ControlContext>) -> Response {
    Json(daemon.layers.reloads.last()).into_response()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AskedObserve {
    on: bool,
}

async fn observe(State(daemon): State<ControlContext>, asked: RequestBody<AskedObserve>) -> Response {
    match asked {
        Ok(Json(asked)) => ask(&daemon, |answer| Command::Observe(asked.on, answer)).await,
        Err(error) => refused(error.status(), error),
    }
}

async fn source_buckets(State(daemon): State<ControlContext>, asked: RequestBody<AskedBuckets>) -> Response {
    match asked {
        Ok(Json(asked)) => ask(&daemon, |answer| Command::Buckets(asked, answer)).await,
        Err(error) => refused(error.status(), error),
    }
}

/// What is in force about requests, with at most so many rules and as many domains: `null` if the daemon has no
/// application layer. A reload does not hold it up.
async fn requests(
    State(daemon): State<ControlContext>,
    PathPart((_, most)): PathPart<(String, usize)>,
) -> Response {
    let most = most.min(MOST_RULES);
    let Some(overview) = daemon.layers.requests else { return Json(Value::Null).into_response() };
    // It looks at all buckets of the store.
    match tokio::task::spawn_blocking(move || overview.status(most)).await {
        Ok(status) => Json(status).into_response(),
        Err(error) => refused(StatusCode::INTERNAL_SERVER_ERROR, error),
    }
}

/// Buckets of rules on requests, in whichever store. A reload does not hold it up.
async fn request_buckets(
    State(daemon): State<ControlContext>,
    asked: RequestBody<AskedRequestBuckets>,
) -> Response {
    let asked = match asked {
        Ok(Json(asked)) => asked,
        Err(error) => return refused(error.status(), error),
    };
    let Some(overview) = &daemon.layers.requests else {
        let none = "this daemon answers nothing about requests: it has no `application`";
        return refused(StatusCode::NOT_FOUND, none);
    };
    match buckets::of_requests(overview.service(), asked).await {
        Ok(answer) => Json(answer).into_response(),
        Err(error @ InspectError::Store(_)) => refused(StatusCode::SERVICE_UNAVAILABLE, error),
        Err(error) => refused(StatusCode::BAD_REQUEST, error),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AskedBan {
    prefix: String,
    #[serde(default)]
    for_seconds: Option<AskedLength>,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    replace: bool,
}

/// Seconds, or `"forever"`.
#[derive(Deserialize)]
#[serde(untagged)]
enum AskedLength {
    Seconds(u64),
    Word(AskedWord),
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum AskedWord {
    Forever,
}

async fn ban(State(daemon): State<ControlContext>, asked: RequestBody<AskedBan>) -> Response {
    let asked = match asked {
        Ok(Json(asked)) => asked,
        Err(error) => return refused(error.status(), error),
    };
    let length = match asked.for_seconds.unwrap_or(AskedLength::Seconds(DEFAULT_BAN.as_secs())) {
        AskedLength::Seconds(seconds) => BanLength::For(Nanos::from_secs(seconds)),
        AskedLength::Word(AskedWord::Forever) => BanLength::Forever,
    };
    let reason = asked.reason.map(|reason| reason.parse()).transpose();
    answer(prefix(&asked.prefix).and_then(|prefix| {
        let reason = reason.map_err(|error: BanReasonError| (StatusCode::BAD_REQUEST, error.to_string()))?;
        let new = NewBan { reason, replaces: asked.replace, ..NewBan::asked(length) };
        let bans = &kernel(&daemon)?.bans;
        let made = bans.ban(prefix, &new).map_err(failed)?;
        let made = bans.statuses_of_made(&[made]).map_err(|error| failed(error.into()))?;
        ToldBans::new(&made, &[]).log();
        Ok(json!(made))
    }))
}

async fn unban(State(daemon): State<ControlContext>, asked: RequestBody<AskedBan>) -> Response {
    let asked = match asked {
        Ok(Json(asked)) => asked,
        Err(error) => return refused(error.status(), error),
    };
    answer(prefix(&asked.prefix).and_then(|prefix| {
        let bans = &kernel(&daemon)?.bans;
        let ended = bans.unban(&[prefix]).map_err(failed)?;
        if !ended.is_empty() {
            let ended = statuses(bans, ended)?;
            ToldBans::new(&[], &ended).log();
            return Ok(json!(ended));
        }
        let all = bans.list().map_err(|error| failed(error.into()))?;
        let hint = around(&all, &prefix).map_or_else(String::new, |ban| format!(", but {} is", ban.prefix));
        Err((StatusCode::NOT_FOUND, format!("{prefix} is not banned{hint}")))
    }))
}

/// Whether packets are limited: who asks may not see the daemon's pins.
async fn limits_packets(State(daemon): State<ControlContext>) -> Json<bool> {
    Json(daemon.layers.kernel.is_some())
}

async fn list(State(daemon): State<ControlContext>) -> Response {
    answer(kernel(&daemon).and_then(|NetworkControl { bans, .. }| {
        let all = bans.list().map_err(|error| failed(error.into()))?;
        Ok(json!(statuses(bans, all)?))
    }))
}

/// Bans as the command line shows them, too.
fn statuses(bans: &Bans, shown: Vec<BanInForce>) -> Result<Vec<BanStatus>, Refused> {
    bans.statuses(shown).map_err(|error| failed(error.into()))
}

/// Puts into the log what a command has done by itself.
async fn told(asked: RequestBody<ToldBans>) -> Response {
    match asked {
        Ok(Json(told)) => {
            told.log();
            Json(json!({"logged": true})).into_response()
        }
        Err(error) => refused(error.status(), error),
    }
}

type Refused = (StatusCode, String);

fn kernel(daemon: &ControlContext) -> Result<&NetworkControl, Refused> {
    let none = || (StatusCode::NOT_FOUND, NO_PACKETS.to_owned());
    daemon.layers.kernel.as_ref().ok_or_else(none)
}

fn prefix(text: &str) -> Result<Prefix, Refused> {
    text.parse().map_err(|error: crate::policy::PrefixError| (StatusCode::BAD_REQUEST, error.to_string()))
}

fn failed(error: BanError) -> Refused {
    let status = match error {
        BanError::Everybody(_) | BanError::Length => StatusCode::BAD_REQUEST,
        BanError::Busy | BanError::Dataplane(_) => StatusCode::INTERNAL_SERVER_ERROR,
    };
    (status, error.to_string())
}

fn answer(done: Result<Value, Refused>) -> Response {
    match done {
        Ok(answer) => Json(answer).into_response(),
        Err((status, error)) => refused(status, error),
    }
}
