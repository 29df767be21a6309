//! What is answered instead of what was asked for: problem details (RFC 9457).

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde::Serialize;
use serde_json::json;

use super::super::{
    answer::{self, QuotaExceeded},
    state::State,
};
use crate::{application, text::Shown};

/// A request that can't be answered.
#[derive(Debug)]
pub struct Problem {
    status: StatusCode,
    detail: String,
}

impl Problem {
    pub fn new(status: StatusCode, detail: impl std::fmt::Display) -> Self {
        Self { status, detail: Shown(detail).to_string() }
    }

    /// It makes no sense.
    pub fn bad(detail: impl std::fmt::Display) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    /// Counts it, as the service itself does with what it makes no sense of.
    pub fn counted(self, state: &State) -> Self {
        state.stats().refused_request();
        self
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let title = self.status.canonical_reason().unwrap_or("Error");
        let body = json!({
            "type": "about:blank",
            "title": title,
            "status": self.status.as_u16(),
            "detail": self.detail,
        });
        let no_store = (header::CACHE_CONTROL, answer::NO_STORE);
        (self.status, [(header::CONTENT_TYPE, answer::PROBLEM), no_store], body.to_string()).into_response()
    }
}

/// The answer about a request that is over its limits: with the headers of the decision, and with these members.
pub fn denied<M: Serialize>(
    status: StatusCode,
    response: &application::Response,
    headers: HeaderMap,
    members: Option<M>,
) -> Response {
    let violated = answer::violated(response);
    let problem = QuotaExceeded::new(status, &violated, members);
    with(status, headers, answer::PROBLEM, answer::json(&problem))
}

/// An answer with a body of this type.
pub fn with(status: StatusCode, mut headers: HeaderMap, kind: HeaderValue, body: String) -> Response {
    headers.insert(header::CONTENT_TYPE, kind);
    let mut response = Response::new(Body::from(body));
    (*response.status_mut(), *response.headers_mut()) = (status, headers);
    response
}
