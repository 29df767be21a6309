//! `POST /v1/check`: one request or many, in the words of this project.

use std::{sync::Arc, time::Duration};

use axum::{extract::State as Shared, response::Response};
use http::{HeaderMap, StatusCode, header};
use serde::{Deserialize, Serialize, de::IgnoredAny};

use super::{
    super::{answer, limits, state::State},
    Body, JSON, Problem, body, problem,
};
use crate::{
    application::{self, Code, Descriptor, LimitOverride, Request, Status},
    limiter::Nanos,
    text::Shown,
};

/// What may be in the body.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with requests")]
struct Many {
    requests: Vec<Question>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with domain and descriptors")]
struct Question {
    domain: String,
    descriptors: Vec<Item>,
    #[serde(default)]
    hits_addend: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a descriptor: an object with entries")]
struct Item {
    entries: Vec<Entry>,
    limit: Option<Limit>,
    hits_addend: Option<u64>,
    #[serde(default)]
    is_negative_hits: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an entry: an object with key and value")]
struct Entry {
    key: String,
    #[serde(default)]
    value: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a limit: an object with requests_per_unit and unit")]
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
    let in_force = state.in_force();
    let response = in_force.decide(&question.into()).map_err(Problem::bad)?;
    let (members, headers) =
        (Members::of(&response), answer::of_http(&response, in_force.settings().headers));
    Ok(if response.allowed() {
        problem::with(StatusCode::OK, headers, JSON, answer::json(&members))
    } else {
        problem::denied(StatusCode::TOO_MANY_REQUESTS, &response, headers, Some(members))
    })
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
    let in_force = state.in_force();
    let decide = |question: Question| in_force.decide(&question.into());
    let responses: Vec<_> = requests.into_iter().map(decide).collect();
    let answers = responses.iter().map(|response| match response {
        Ok(response) => One::Members(Members::of(response)),
        Err(error) => One::Error { error: Shown(error).to_string() },
    });
    let headers = HeaderMap::from_iter([(header::CACHE_CONTROL, answer::NO_STORE)]);
    Ok(problem::with(StatusCode::OK, headers, JSON, answer::json(&Answers { answers: answers.collect() })))
}

#[derive(Serialize)]
struct Answers<'r> {
    answers: Vec<One<'r>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum One<'r> {
    Members(Members<'r>),
    Error { error: String },
}

/// A decision as JSON: of the whole, and of each descriptor.
#[derive(Serialize)]
struct Members<'r> {
    allowed: bool,
    soft: bool,
    #[serde(flatten)]
    numbers: Option<Numbers<'r>>,
    descriptors: Vec<Described<'r>>,
}

#[derive(Serialize)]
struct Described<'r> {
    allowed: bool,
    #[serde(flatten)]
    numbers: Option<Numbers<'r>>,
    #[serde(skip_serializing_if = "is_not")]
    never: bool,
    #[serde(skip_serializing_if = "is_not")]
    soft: bool,
    #[serde(skip_serializing_if = "is_not")]
    shadow: bool,
    #[serde(skip_serializing_if = "is_not")]
    quota: bool,
}

#[derive(Serialize)]
struct Numbers<'r> {
    rule: &'r str,
    limit: Option<u64>,
    remaining: u64,
    reset_after: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<f64>,
}

impl<'r> Members<'r> {
    fn of(response: &'r application::Response) -> Self {
        Self {
            allowed: response.allowed(),
            soft: response.soft(),
            numbers: response.deciding().map(Numbers::of),
            descriptors: response.statuses.iter().map(Described::of).collect(),
        }
    }
}

impl<'r> Described<'r> {
    fn of(status: &'r Status) -> Self {
        Self {
            allowed: status.code == Code::Ok,
            numbers: status.limit.is_some().then(|| Numbers::of(status)),
            never: status.never && status.code == Code::OverLimit,
            soft: status.soft,
            shadow: status.shadowed,
            quota: status.quota,
        }
    }
}

impl<'r> Numbers<'r> {
    fn of(status: &'r Status) -> Self {
        let wait = status.retry_after.filter(|_| status.code == Code::OverLimit);
        Self {
            rule: answer::name_of(status),
            limit: status.limit.map(|limit| limit.capacity),
            remaining: status.remaining,
            reset_after: seconds(status.reset_after),
            retry_after: wait.map(seconds),
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
const fn is_not(is: &bool) -> bool {
    !*is
}

/// Seconds with a fraction; exact to the microsecond for years.
fn seconds(time: Nanos) -> f64 {
    Duration::from_nanos(time.0).as_secs_f64()
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
