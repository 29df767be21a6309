//! Problem details (RFC 9457): the body of the answer to a denied request.

use http::{HeaderValue, StatusCode};
use serde::Serialize;

/// The type of problem details (RFC 9457).
pub const PROBLEM: HeaderValue = HeaderValue::from_static("application/problem+json");

/// The type of a denied request's problem.
const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";

/// The problem of a request that is over limits.
#[derive(Debug, Serialize)]
pub struct QuotaExceeded<'a, M> {
    #[serde(rename = "type")]
    kind: &'static str,
    title: &'static str,
    status: u16,
    #[serde(rename = "violated-policies")]
    violated: &'a [&'a str],
    /// What else there is to say.
    #[serde(flatten)]
    members: Option<M>,
}

impl<'a, M: Serialize> QuotaExceeded<'a, M> {
    /// The problem of a request that is over the limits with these names.
    pub fn new(status: StatusCode, violated: &'a [&'a str], members: Option<M>) -> Self {
        Self { kind: QUOTA_EXCEEDED, title: "Quota exceeded", status: status.as_u16(), violated, members }
    }
}

/// What most answers are shorter than as text.
const USUAL_LENGTH: usize = 512;

/// As text. Nothing that answers are made of fails to be written.
pub fn json(value: &impl Serialize) -> Vec<u8> {
    let mut text = Vec::with_capacity(USUAL_LENGTH);
    serde_json::to_writer(&mut text, value).map_or_else(|_| Vec::new(), |()| text)
}
