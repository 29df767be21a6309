//! What a denied request gets.

use std::any::{Any, TypeId};

use axum::body::Body;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Bytes;

use crate::server::answer::{self, QuotaExceeded};

/// The answer to a request with the first headers; it has the second ones.
pub fn answer<R: Default + 'static>(
    asked: &HeaderMap,
    headers: HeaderMap,
    violated: &[String],
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
    if let Some(body) = body(answer::json(&QuotaExceeded::new(status, &violated, None::<()>))) {
        *response.body_mut() = body;
        response.headers_mut().insert(header::CONTENT_TYPE, answer::PROBLEM);
    }
    response
}

fn is_grpc(headers: &HeaderMap) -> bool {
    headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}

/// A body of this type with that text, for the types that are known. A bound on what can be made of text would shut out
/// services with other bodies, tonic's among them.
fn body<R: 'static>(text: Vec<u8>) -> Option<R> {
    let wanted = TypeId::of::<R>();
    let body: Box<dyn Any> = if wanted == TypeId::of::<Body>() {
        Box::new(Body::from(text))
    } else if wanted == TypeId::of::<Full<Bytes>>() {
        Box::new(Full::<Bytes>::from(text))
    } else if wanted == TypeId::of::<tonic::body::Body>() {
        Box::new(tonic::body::Body::new(Body::from(text)))
    } else {
        // Only strings are left.
        Box::new(String::from_utf8(text).unwrap_or_default())
    };
    body.downcast().ok().map(|body| *body)
}
