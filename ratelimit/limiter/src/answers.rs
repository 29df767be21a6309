//! What an answer says over HTTP of a decision: its headers, and the problem of a denied request. It is the same from
//! the servers and inside a program. The layer in `tower` uses it by itself; this is for servers that know no tower.
//!
//! ```
//! use http::{Response, StatusCode, header};
//! use ratelimit_limiter::{AnswerHeaders, answers, application};
//!
//! /// The answer to a denied request.
//! fn denied(decided: &application::Response) -> Response<Vec<u8>> {
//!     let status = StatusCode::TOO_MANY_REQUESTS;
//!     let violated = answers::violated(decided);
//!     let problem = answers::QuotaExceeded::new(status, &violated, None::<()>);
//!     let mut response = Response::new(answers::json(&problem));
//!     *response.status_mut() = status;
//!     response.headers_mut().extend(answers::headers(decided, AnswerHeaders::default()));
//!     response.headers_mut().insert(header::CONTENT_TYPE, answers::PROBLEM);
//!     response
//! }
//! ```

mod headers;
mod limit_headers;
mod problem;

pub use self::{
    headers::{Figures, NO_STORE, USUAL_HEADERS, headers, name_of, of_http, of_limit, tell, violated},
    limit_headers::LimitHeaders,
    problem::{PROBLEM, QuotaExceeded, json},
};
