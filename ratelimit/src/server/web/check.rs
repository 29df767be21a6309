//! `POST /v1/check`: one request or many, in the words of this project.

use std::sync::Arc;

use axum::{
    extract::State as Shared,
    response::{IntoResponse as _, Response},
};
use http::{StatusCode, header};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Value, json};

use super::{
    super::{answer, limits, state::State},
    Body, JSON, Problem, body, problem,
};
use crate::{
    application::{self, Code, Descriptor, LimitOverride, Request, Status},
    limiter::Nanos,
};

/// What may be in the body.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Many {
    requests: Vec<Question>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    domain: String,
    descriptors: Vec<Item>,
    #[serde(default)]
    hits_addend: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Item {
    entries: Vec<Entry>,
    limit: Option<Limit>,
    hits_addend: Option<u64>,
    #[serde(default)]
    is_negative_hits: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    key: String,
    #[serde(default)]
    value: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Limit {
    requests_per_unit: u32,
    unit: String,
}

/// About one request 200 or 429; about many always 200, with an answer each, in order.
pub async fn answer(Shared(state): Shared<Arc<State>>, text: Body) -> Result<Response, Problem> {
    let text = body(&state, text)?;
    let question: Question = match serde_json::from_slice(&text) {
        Ok(question) => question,
        // One is tried first, since it is the usual, and many begin with a key that one has not.
        Err(_) if is_many(&text) => return many(&state, &text),
        Err(error) => return Err(Problem::bad(error).counted(&state)),
    };
    let response = state.decide(&question.into()).map_err(Problem::bad)?;
    let members = members(&response);
    let headers = answer::of_http(&response, state.settings().headers);
    let mut answer = if response.allowed() {
        ([(header::CONTENT_TYPE, JSON)], members.to_string()).into_response()
    } else {
        problem::denied(StatusCode::TOO_MANY_REQUESTS, &response, members)
    };
    answer.headers_mut().extend(headers);
    Ok(answer)
}

fn is_many(text: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Requests {
        #[serde(rename = "requests")]
        _requests: IgnoredAny,
    }
    serde_json::from_slice::<Requests>(text).is_ok()
}

fn many(state: &State, text: &[u8]) -> Result<Response, Problem> {
    let Many { requests } =
        serde_json::from_slice(text).map_err(|error| Problem::bad(error).counted(state))?;
    if requests.len() > limits::REQUESTS {
        let count = requests.len();
        return Err(Problem::bad(format_args!(
            "{count} requests; at most {} are accepted",
            limits::REQUESTS
        ))
        .counted(state));
    }
    let one = |question: Question| match state.decide(&question.into()) {
        Ok(response) => members(&response),
        Err(error) => json!({"error": Problem::bad(error).detail()}),
    };
    let answers: Vec<Value> = requests.into_iter().map(one).collect();
    let no_store = (header::CACHE_CONTROL, answer::NO_STORE);
    let body = json!({"answers": answers}).to_string();
    Ok(([(header::CONTENT_TYPE, JSON), no_store], body).into_response())
}

/// A decision as JSON: of the whole, and of each descriptor.
fn members(response: &application::Response) -> Value {
    let mut members = response.deciding().map_or_else(|| json!({}), numbers);
    members["allowed"] = response.allowed().into();
    members["soft"] = response.soft().into();
    members["descriptors"] = response.statuses.iter().map(descriptor).collect();
    members
}

fn descriptor(status: &Status) -> Value {
    let mut members = if status.limit.is_some() { numbers(status) } else { json!({}) };
    members["allowed"] = (status.code == Code::Ok).into();
    for (name, is) in [
        ("never", status.never && status.code == Code::OverLimit),
        ("soft", status.soft),
        ("shadow", status.shadowed),
        ("quota", status.quota),
    ] {
        if is {
            members[name] = true.into();
        }
    }
    members
}

fn numbers(status: &Status) -> Value {
    let mut members = json!({
        "rule": answer::name_of(status),
        "limit": status.limit.map(|limit| limit.capacity),
        "remaining": status.remaining,
        "reset_after": seconds(status.reset_after),
    });
    if let (Code::OverLimit, Some(wait)) = (status.code, status.retry_after) {
        members["retry_after"] = seconds(wait);
    }
    members
}

/// Seconds with a fraction; exact to the microsecond for years.
fn seconds(time: Nanos) -> Value {
    std::time::Duration::from_nanos(time.0).as_secs_f64().into()
}

impl From<Question> for Request {
    fn from(question: Question) -> Self {
        Self {
            domain: question.domain,
            descriptors: question.descriptors.into_iter().map(Descriptor::from).collect(),
            hits_addend: question.hits_addend,
        }
    }
}

impl From<Item> for Descriptor {
    fn from(item: Item) -> Self {
        let limit = |limit: Limit| LimitOverride {
            requests_per_unit: limit.requests_per_unit,
            unit: limit.unit.parse().ok(),
        };
        Self {
            entries: item.entries.into_iter().map(|entry| (entry.key, entry.value)).collect(),
            limit: item.limit.map(limit),
            hits_addend: item.hits_addend,
            is_negative_hits: item.is_negative_hits,
        }
    }
}
