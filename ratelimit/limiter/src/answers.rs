//! What an answer says over HTTP of a decision: its headers, and the problem of a denied request. It is the same from the
//! servers and inside a program.

mod headers;
mod limit_headers;
mod problem;

pub use self::{
    headers::{Figures, NO_STORE, headers, name_of, of_http, of_limit, violated},
    limit_headers::LimitHeaders,
    problem::{PROBLEM, QuotaExceeded, json},
};
