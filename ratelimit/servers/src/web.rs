//! The HTTP side: one file a route, and what they share.
//!
//! Paths are few and fixed, so what a request is for is one look at its path and its method.

mod auth;
mod check;
mod costs;
mod distinct;
mod facts;
mod json;
mod problem;
mod text;

pub use self::problem::{Problem, denied, denied_with};
use super::{
    context::{ServeContext, answering},
    limits,
    serving::{Metered, PeerAddress},
    unjudged::{self, Unjudged},
};
use crate::answers::NO_STORE;
use axum::{
    body::Body,
    response::{IntoResponse as _, Response},
};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};

/// What these routes are, for people and programs.
pub const OPENAPI: &str = include_str!("web/openapi.json");

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

    /// The methods that it is asked with, unless it takes any: gateways pass on the method that a client has chosen,
    /// and some of them let requests pass that could not be judged.
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
pub async fn answer(context: &ServeContext, peer: PeerAddress, request: Request<Metered>) -> Response {
    let (head, body) = request.into_parts();
    let route = Route::of(head.uri.path());
    if let Some(methods) = route.and_then(|route| route.refuses(&head.method)) {
        return wrong_method(methods);
    }
    let answered = match route {
        None => Err(not_found()),
        Some(route @ (Route::Json | Route::Check)) => {
            match unjudged::read(body, limits::BODY).await {
                Ok(body) if matches!(route, Route::Json) => {
                    json::answer(context, peer, &text::of(&body)).await
                }
                Ok(body) => check::answer(context, peer, &text::of(&body)).await,
                // Whoever measures the body counts it.
                Err(Unjudged::NoRoom) => return no_answer(context, route, Unjudged::NoRoom),
                Err(why) => return denied_unjudged(context, route, why),
            }
        }
        Some(Route::Auth) => auth::answer(context, peer, &head).await,
        Some(Route::Health) => Ok(health(context)),
        Some(Route::OpenApi) => Ok(with(StatusCode::OK, HeaderMap::new(), JSON, OPENAPI.into())),
    };
    answered.unwrap_or_else(Problem::into_response)
}

/// The answer where there is no room for a body, or for the answer itself. Whoever fills it must not pass by that.
pub fn no_room(context: &ServeContext, path: &str) -> Response {
    match Route::of(path) {
        Some(route @ (Route::Json | Route::Check | Route::Auth)) => {
            denied_unjudged(context, route, Unjudged::NoRoom)
        }
        _ => Problem::new(StatusCode::SERVICE_UNAVAILABLE, Unjudged::NoRoom).counted(context).into_response(),
    }
}

fn denied_unjudged(context: &ServeContext, route: Route, why: Unjudged) -> Response {
    context.stats().unjudged(why);
    no_answer(context, route, why)
}

/// The answer to a question that can't be judged: it is denied as one over its limits, since programs let pass what
/// they get an error for.
fn no_answer(context: &ServeContext, route: Route, why: Unjudged) -> Response {
    let in_force = context.in_force();
    if in_force.shadow_mode() {
        let body = match route {
            Route::Json => r#"{"overallCode":"OK"}"#,
            Route::Check => r#"{"allowed":true,"soft":false,"descriptors":[]}"#,
            _ => "",
        };
        return with(StatusCode::OK, no_store(), JSON, body.into());
    }
    let of_auth = answering(&in_force).auth.as_ref().filter(|_| matches!(route, Route::Auth));
    let status = of_auth.and_then(|auth| StatusCode::from_u16(auth.deny_status).ok());
    Problem::new(status.unwrap_or(StatusCode::TOO_MANY_REQUESTS), why).into_response()
}

fn health(context: &ServeContext) -> Response {
    let (status, text) = if context.is_serving() {
        (StatusCode::OK, "OK")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "stopping")
    };
    with(status, no_store(), TEXT, text.into())
}

fn not_found() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "no such route; /openapi.json lists the routes")
}

fn wrong_method(methods: &'static str) -> Response {
    let detail = "this route does not take this method; /openapi.json lists those that it takes";
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
