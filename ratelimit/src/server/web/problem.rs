//! What is answered instead of what was asked for: problem details (RFC 9457).

use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use serde_json::{Value, json};

use super::super::{answer, state::State};
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

    /// What is wrong.
    pub fn detail(&self) -> &str {
        &self.detail
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

/// The answer about a request that is over its limits. It has no headers of the decision yet.
pub fn denied(status: StatusCode, response: &application::Response, members: Value) -> Response {
    let problem = answer::quota_exceeded(status, &answer::violated(response), members);
    (status, [(header::CONTENT_TYPE, answer::PROBLEM)], problem.to_string()).into_response()
}
