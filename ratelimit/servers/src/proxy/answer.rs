//! What clients get from the proxy itself.

use axum::{body::Body, response::IntoResponse as _};
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};

use super::{failure::UpstreamFailure, request::Refusal, stats::Turned};
use crate::{
    answers, application,
    policy::application::{AnswerHeaders, DenyBody},
    web::{self, Problem},
};

/// The methods that are passed on.
const ALLOW: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");

/// The answer to a request that is not passed on for what it is.
pub fn refused(why: Refusal) -> Response<Body> {
    let mut response = Problem::new(why.status(), why).into_response();
    if why == Refusal::Method {
        response.headers_mut().insert(header::ALLOW, ALLOW);
    }
    response
}

/// The answer to a request that no server gets.
pub fn turned(why: Turned) -> Response<Body> {
    let (status, text) = match why {
        Turned::Refused => (StatusCode::BAD_REQUEST, "this request can't be passed on"),
        Turned::NoRoute => (StatusCode::NOT_FOUND, "there is nothing for this host and path"),
        Turned::Busy => {
            (StatusCode::SERVICE_UNAVAILABLE, "too many requests are on their way; try again later")
        }
        Turned::Unjudged => {
            (StatusCode::SERVICE_UNAVAILABLE, "this request can't be judged now; try again later")
        }
    };
    let mut response = Problem::new(status, text).into_response();
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// The answer to a request that a server, one of so many, has failed.
pub fn failed(failure: UpstreamFailure, place: usize, count: usize) -> Response<Body> {
    let who = place + 1;
    Problem::new(failure.status(), format_args!("upstream {who} of {count} {}", failure.what()))
        .into_response()
}

/// The answer to a request whose rest does not come.
pub fn broken_off(is_late: bool) -> Response<Body> {
    let (status, text) = if is_late {
        (StatusCode::REQUEST_TIMEOUT, "the rest of the request did not come in time")
    } else {
        (StatusCode::BAD_REQUEST, "the rest of the request did not come, or can't be read")
    };
    Problem::new(status, text).into_response()
}

/// The answer to a request that is over its limits.
pub fn denied(
    response: &application::Response,
    wanted: AnswerHeaders,
    asked: &HeaderMap,
    body: Option<&DenyBody>,
) -> Response<Body> {
    let headers = answers::of_http(response, wanted);
    let is_grpc =
        asked.get(header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"));
    let status = StatusCode::TOO_MANY_REQUESTS;
    match body {
        _ if is_grpc => {}
        Some(body) => return web::denied_with(status, headers, body),
        None => return web::denied(status, response, headers, None::<()>),
    }
    let mut answer = tonic::Status::resource_exhausted("too many requests").into_http::<Body>();
    answer.headers_mut().extend(headers);
    answer
}
