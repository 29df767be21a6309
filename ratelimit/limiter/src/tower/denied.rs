//! What a denied request gets.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use http_body_util::Full;

use crate::answers::{self, QuotaExceeded};

/// Makes the body of the answer to a denied request. Any function or closure from the text of its problem details does.
pub trait DeniedBody<R> {
    /// The body with that text; `None` if the answer is to have none.
    fn body(&self, problem: String) -> Option<R>;
}

impl<F: Fn(String) -> R, R> DeniedBody<R> for F {
    fn body(&self, problem: String) -> Option<R> {
        Some(self(problem))
    }
}

/// Problem details (RFC 9457), for services whose bodies can be made of text.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProblemDetails;

impl<R: TextBody> DeniedBody<R> for ProblemDetails {
    fn body(&self, problem: String) -> Option<R> {
        Some(R::from_text(problem))
    }
}

/// None: all that the answer says is in its headers.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoBody;

impl<R> DeniedBody<R> for NoBody {
    fn body(&self, _: String) -> Option<R> {
        None
    }
}

/// A type of bodies that can be made of text.
#[diagnostic::on_unimplemented(
    message = "the layer can't make `{Self}` of the problem details of a denied request",
    note = "give it a function that does: `.denied_body(|problem: String| ...)`, or `.denied_body(NoBody)`"
)]
pub trait TextBody {
    /// The body with that text.
    fn from_text(text: String) -> Self;
}

#[cfg(feature = "axum")]
impl TextBody for axum::body::Body {
    fn from_text(text: String) -> Self {
        text.into()
    }
}

#[cfg(feature = "tonic")]
impl TextBody for tonic::body::Body {
    fn from_text(text: String) -> Self {
        Self::new(Full::<Bytes>::from(text))
    }
}

impl TextBody for Full<Bytes> {
    fn from_text(text: String) -> Self {
        text.into()
    }
}

impl TextBody for String {
    fn from_text(text: String) -> Self {
        text
    }
}

/// The answer to a request with the first headers; it has the second ones.
pub fn answer<R: Default>(
    asked: &HeaderMap,
    headers: HeaderMap,
    violated: &[String],
    body: &impl DeniedBody<R>,
) -> Response<R> {
    let mut response = Response::new(R::default());
    *response.headers_mut() = headers;
    if is_grpc(asked) {
        // An answer without messages: all that it says is in its headers.
        let mut insert =
            |name: &'static str, value| response.headers_mut().insert(name, HeaderValue::from_static(value));
        insert("content-type", "application/grpc");
        insert("grpc-status", "8");
        insert("grpc-message", "too many requests");
        return response;
    }
    let status = StatusCode::TOO_MANY_REQUESTS;
    *response.status_mut() = status;
    let violated: Vec<&str> = violated.iter().map(String::as_str).collect();
    let problem = answers::json(&QuotaExceeded::new(status, &violated, None::<()>));
    if let Some(body) = body.body(String::from_utf8(problem).unwrap_or_default()) {
        *response.body_mut() = body;
        response.headers_mut().insert(header::CONTENT_TYPE, answers::PROBLEM);
    }
    response
}

fn is_grpc(headers: &HeaderMap) -> bool {
    headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}
