//! What is answered instead of what was asked for: problem details (RFC 9457).

use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde::Serialize;
use serde_json::json;

use super::{super::context::ServeContext, no_store, with};
use crate::{
    answers::{self, QuotaExceeded},
    application,
    policy::application::DenyBody,
    text::Shown,
};

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
    pub fn counted(self, context: &ServeContext) -> Self {
        context.stats().refused_request();
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
        with(self.status, no_store(), answers::PROBLEM, body.to_string().into())
    }
}

/// The same with the operator's own body.
pub fn denied_with(status: StatusCode, headers: HeaderMap, body: &DenyBody) -> Response {
    with(status, headers, HeaderValue::from_static(body.content_type), body.bytes.to_vec())
}

/// The answer about a request that is over its limits: with the headers of the decision, and with these members.
pub fn denied<M: Serialize>(
    status: StatusCode,
    response: &application::Response,
    headers: HeaderMap,
    members: Option<M>,
) -> Response {
    let violated = answers::violated(response);
    let problem = QuotaExceeded::new(status, &violated, members);
    with(status, headers, answers::PROBLEM, answers::json(&problem))
}
