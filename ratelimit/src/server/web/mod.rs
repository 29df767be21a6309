//! The HTTP side: one file a route, and what they share.

mod auth;
mod check;
mod facts;
mod json;
mod problem;

use std::sync::Arc;

use axum::{
    Router,
    extract::{DefaultBodyLimit, State as Shared, rejection::BytesRejection},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use http::{HeaderValue, StatusCode, header};
use hyper::body::Bytes;

pub use self::problem::Problem;
use super::{limits, state::State};

/// What these routes are, for people and programs.
pub const OPENAPI: &str = include_str!("openapi.json");

/// Everything that is answered over HTTP.
pub fn router(state: &Arc<State>) -> Router {
    Router::new()
        .route("/json", post(json::answer))
        .route("/v1/check", post(check::answer))
        .route("/v1/auth", get(auth::answer).post(auth::answer))
        .route("/healthcheck", get(health))
        .route("/openapi.json", get(openapi))
        .fallback(not_found)
        .method_not_allowed_fallback(wrong_method)
        .layer(DefaultBodyLimit::max(limits::BODY))
        .with_state(Arc::clone(state))
}

async fn health(Shared(state): Shared<Arc<State>>) -> Response {
    let no_store = [(header::CACHE_CONTROL, HeaderValue::from_static("no-store"))];
    if state.is_serving() {
        (no_store, "OK").into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, no_store, "stopping").into_response()
    }
}

async fn openapi() -> Response {
    ([(header::CONTENT_TYPE, JSON)], OPENAPI).into_response()
}

async fn not_found() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "there is nothing here; /openapi.json has what there is")
}

async fn wrong_method() -> Problem {
    Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "not with this method; /openapi.json has those that there are",
    )
}

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A body that came whole, and was not too large.
type Body = Result<Bytes, BytesRejection>;

fn body(state: &State, body: Body) -> Result<Bytes, Problem> {
    body.map_err(|rejection| Problem::new(rejection.status(), rejection.body_text()).counted(state))
}
