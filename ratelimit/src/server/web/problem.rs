//! What is answered instead of what was asked for: problem details (RFC 9457).

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde_json::{Value, json};

use super::super::answer;
use crate::{application, text::Shown};

const PROBLEM: HeaderValue = HeaderValue::from_static("application/problem+json");

/// The type of a denied request's problem.
const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";

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
        let no_store = (header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        (self.status, [(header::CONTENT_TYPE, PROBLEM), no_store], body.to_string()).into_response()
    }
}

/// The answer about a request that is over its limits. It has no headers of the decision yet.
pub fn denied(status: StatusCode, response: &application::Response, mut members: Value) -> Response {
    members["type"] = QUOTA_EXCEEDED.into();
    members["title"] = "Quota exceeded".into();
    members["status"] = status.as_u16().into();
    members["violated-policies"] = answer::violated(response).into();
    (status, [(header::CONTENT_TYPE, PROBLEM)], members.to_string()).into_response()
}
