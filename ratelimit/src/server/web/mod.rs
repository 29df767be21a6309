//! The HTTP side: one file a route, and what they share.
//!
//! Paths are few and fixed, so what a request is for is one look at its path and its method.

mod auth;
mod check;
mod distinct;
mod facts;
mod json;
mod problem;

use axum::{
    body::Body,
    response::{IntoResponse as _, Response},
};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::{Body as _, Bytes};

pub use self::problem::Problem;
use super::{
    answer::NO_STORE,
    budget::{Full, Metered},
    connection::PeerAddress,
    limits,
    state::State,
};

/// What these routes are, for people and programs.
pub const OPENAPI: &str = include_str!("openapi.json");

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// What is there, by its path.
#[derive(Clone, Copy, Debug)]
enum Route {
    Json,
    Check,
    Auth,
    Health,
    OpenApi,
}

impl Route {
    fn of(path: &str) -> Option<Self> {
        match path {
            "/json" => Some(Self::Json),
            "/v1/check" => Some(Self::Check),
            "/v1/auth" => Some(Self::Auth),
            "/healthcheck" => Some(Self::Health),
            "/openapi.json" => Some(Self::OpenApi),
            _ => None,
        }
    }

    /// The methods that it is asked with, unless it takes any: gateways pass on the method that a client has chosen, and
    /// some of them let requests pass that could not be judged.
    const fn methods(self) -> Option<&'static str> {
        match self {
            Self::Json | Self::Check => Some("POST"),
            Self::Auth => None,
            Self::Health | Self::OpenApi => Some("GET,HEAD"),
        }
    }

    /// The methods that it takes, if the request has none of them.
    fn refuses(self, method: &Method) -> Option<&'static str> {
        self.methods().filter(|methods| methods.split(',').all(|taken| taken != method.as_str()))
    }
}

/// Answers a request that came from there.
pub async fn answer(state: &State, peer: PeerAddress, request: Request<Metered>) -> Response {
    let (head, body) = request.into_parts();
    let route = Route::of(head.uri.path());
    if let Some(methods) = route.and_then(|route| route.refuses(&head.method)) {
        return wrong_method(methods);
    }
    let answered = match route {
        None => Err(not_found()),
        Some(Route::Json) => {
            read(state, body).await.and_then(|body| json::answer(state, text(state, &body)?))
        }
        Some(Route::Check) => {
            read(state, body).await.and_then(|body| check::answer(state, text(state, &body)?))
        }
        Some(Route::Auth) => auth::answer(state, peer, &head),
        Some(Route::Health) => Ok(health(state)),
        Some(Route::OpenApi) => Ok(with(StatusCode::OK, HeaderMap::new(), JSON, OPENAPI.into())),
    };
    answered.unwrap_or_else(Problem::into_response)
}

/// A body, if it comes whole and is not too large.
async fn read(state: &State, body: Metered) -> Result<Bytes, Problem> {
    let too_large = || {
        let detail = format_args!("the body is too large: at most {} bytes are accepted", limits::BODY);
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail).counted(state)
    };
    if body.size_hint().lower() > limits::BODY as u64 {
        return Err(too_large());
    }
    match Limited::new(body, limits::BODY).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(too_large()),
        // Whoever measures the body says so, and counts it.
        Err(error) if error.is::<Full>() => Err(Problem::bad(error)),
        Err(error) => Err(Problem::bad(format_args!("can't read the body: {error}")).counted(state)),
    }
}

/// A body as text. Looked at as a whole, that is cheaper than string by string.
fn text<'b>(state: &State, body: &'b [u8]) -> Result<&'b str, Problem> {
    str::from_utf8(body)
        .map_err(|error| Problem::bad(format_args!("the body is not JSON: {error}")).counted(state))
}

fn health(state: &State) -> Response {
    let (status, text) = if state.is_serving() {
        (StatusCode::OK, "OK")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "stopping")
    };
    with(status, no_store(), TEXT, text.into())
}

fn not_found() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "there is nothing here; /openapi.json has what there is")
}

fn wrong_method(methods: &'static str) -> Response {
    let detail = "not with this method; /openapi.json has those that there are";
    let mut response = Problem::new(StatusCode::METHOD_NOT_ALLOWED, detail).into_response();
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(methods));
    response
}

/// An answer with a body of this type.
fn with(status: StatusCode, mut headers: HeaderMap, kind: HeaderValue, body: Vec<u8>) -> Response {
    headers.insert(header::CONTENT_TYPE, kind);
    let mut response = Response::new(Body::from(body));
    (*response.status_mut(), *response.headers_mut()) = (status, headers);
    response
}

fn no_store() -> HeaderMap {
    HeaderMap::from_iter([(header::CACHE_CONTROL, NO_STORE)])
}
