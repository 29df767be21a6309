//! `POST /v1/check`: one request or many, in the words of this project.

use std::time::Duration;

use axum::response::Response;
use futures_util::future::join_all;
use http::StatusCode;
use serde::{Deserialize, Serialize, Serializer, de::IgnoredAny, ser::SerializeStruct};
use smallvec::SmallVec;

use super::{
    super::{
        context::{ServeContext, answering},
        limits,
        offenders::Sender,
        serving::PeerAddress,
    },
    JSON, Problem,
    costs::Cost,
    no_store, problem, text, with,
};
use crate::{
    answers,
    application::{self, Code, Descriptor, InForce, LimitOverride, Request, RequestError, Status},
    json_object::JsonObject,
    limiter::Nanos,
    text::Shown,
};

/// What may be in the body.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with requests")]
struct Many {
    requests: Vec<JsonObject<Question>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with domain and descriptors")]
struct Question {
    domain: String,
    descriptors: Vec<JsonObject<Item>>,
    hits_addend: Option<Cost>,
    /// Whether it says what was taken, which can't be denied any more.
    #[serde(default)]
    report: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a descriptor: an object with entries")]
struct Item {
    entries: Vec<JsonObject<Entry>>,
    limit: Option<JsonObject<OwnLimit>>,
    hits_addend: Option<Cost>,
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
struct OwnLimit {
    requests_per_unit: u32,
    unit: String,
}

/// What is asked.
enum Asked {
    One(Question),
    Many(Vec<JsonObject<Question>>),
}

/// About one request 200 or 429; about many always 200, with an answer each, in order.
pub async fn answer(context: &ServeContext, peer: PeerAddress, text: &str) -> Result<Response, Problem> {
    let question = match read(text).map_err(|error| Problem::bad(error).counted(context))? {
        Asked::One(question) => question,
        Asked::Many(requests) => return many(context, peer, requests).await,
    };
    let in_force = context.in_force();
    let response = question.judge(context, peer, &in_force).await.map_err(Problem::bad)?;
    let (members, headers) = (Members(&response), answers::of_http(&response, answering(&in_force).headers));
    Ok(if response.allowed() {
        with(StatusCode::OK, headers, JSON, answers::json(&members))
    } else {
        problem::denied(StatusCode::TOO_MANY_REQUESTS, &response, headers, Some(members))
    })
}

impl Question {
    async fn judge(
        self,
        context: &ServeContext,
        PeerAddress(peer): PeerAddress,
        in_force: &InForce<'_>,
    ) -> Result<application::Response, RequestError> {
        let reports = self.report;
        let request = self.into();
        if reports {
            return in_force.report_async(&request).await;
        }
        let response = in_force.decide_async(&request).await?;
        context.offenders().note(&request, &response, Sender::of_question(peer));
        Ok(response)
    }
}

fn read(text: &str) -> serde_json::Result<Asked> {
    let error = match serde_json::from_str(text) {
        Ok(JsonObject(question)) => return Ok(Asked::One(question)),
        // One is tried first, since it is the usual, and many begin with a key that one has not.
        Err(_) if is_many(text) => match serde_json::from_str(text) {
            Ok(JsonObject(Many { requests })) => return Ok(Asked::Many(requests)),
            Err(error) => error,
        },
        Err(error) => error,
    };
    text::bounded(text).map_or(Err(error), |text| read(&text))
}

fn is_many(text: &str) -> bool {
    #[derive(Deserialize)]
    struct Requests {
        #[serde(rename = "requests")]
        _requests: IgnoredAny,
    }
    serde_json::from_str::<JsonObject<Requests>>(text).is_ok()
}

async fn many(
    context: &ServeContext,
    peer: PeerAddress,
    requests: Vec<JsonObject<Question>>,
) -> Result<Response, Problem> {
    if requests.len() > limits::REQUESTS {
        let count = requests.len();
        return Err(Problem::bad(format_args!(
            "{count} requests; at most {} are accepted",
            limits::REQUESTS
        ))
        .counted(context));
    }
    let in_force = context.in_force();
    // Together, so that a store that is asked over a network gets them in one call, in their order.
    let judge = |JsonObject(question): JsonObject<Question>| question.judge(context, peer, &in_force);
    let responses = join_all(requests.into_iter().map(judge)).await;
    let answers = responses.iter().map(|response| match response {
        Ok(response) => One::Members(Members(response)),
        Err(error) => One::Error { error: Shown(error).to_string() },
    });
    let answers = answers::json(&Answers { answers: answers.collect() });
    Ok(with(StatusCode::OK, no_store(), JSON, answers))
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
struct Members<'r>(&'r application::Response);

/// About one descriptor.
struct Member<'r>(&'r Status);

impl Serialize for Members<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(response) = self;
        let mut members = serializer.serialize_struct("Members", 8)?;
        members.serialize_field("allowed", &response.allowed())?;
        members.serialize_field("soft", &response.soft())?;
        if let Some(status) = response.deciding() {
            numbers(&mut members, status)?;
        }
        let statuses: SmallVec<[Member<'_>; 4]> = response.statuses.iter().map(Member).collect();
        members.serialize_field("descriptors", &*statuses)?;
        members.end()
    }
}

impl Serialize for Member<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(status) = self;
        let mut members = serializer.serialize_struct("Member", 10)?;
        members.serialize_field("allowed", &(status.code == Code::Ok))?;
        if status.limit.is_some() {
            numbers(&mut members, status)?;
        }
        for (name, is) in [
            ("never", status.never && status.code == Code::OverLimit),
            ("soft", status.soft),
            ("shadow", status.shadowed),
            ("quota", status.quota),
        ] {
            if is {
                members.serialize_field(name, &true)?;
            }
        }
        members.end()
    }
}

fn numbers<S: SerializeStruct>(members: &mut S, status: &Status) -> Result<(), S::Error> {
    members.serialize_field("rule", answers::name_of(status))?;
    members.serialize_field("limit", &status.limit.map(|limit| limit.capacity))?;
    members.serialize_field("remaining", &status.remaining)?;
    members.serialize_field("reset_after", &seconds(status.reset_after))?;
    match status.retry_after {
        Some(wait) if status.code == Code::OverLimit => {
            members.serialize_field("retry_after", &seconds(wait))
        }
        _ => Ok(()),
    }
}

/// Seconds with a fraction; exact to the microsecond for years.
fn seconds(time: Nanos) -> f64 {
    Duration::from_nanos(time.0).as_secs_f64()
}

impl From<Question> for Request {
    fn from(question: Question) -> Self {
        Self {
            domain: question.domain,
            descriptors: question.descriptors.into_iter().map(|JsonObject(item)| item.into()).collect(),
            hits_addend: question.hits_addend.map_or(0, Cost::of_request),
        }
    }
}

impl From<Item> for Descriptor {
    fn from(item: Item) -> Self {
        let limit = |JsonObject(limit): JsonObject<OwnLimit>| LimitOverride {
            requests_per_unit: limit.requests_per_unit,
            unit: limit.unit.parse().ok(),
        };
        Self {
            entries: item.entries.into_iter().map(|JsonObject(entry)| (entry.key, entry.value)).collect(),
            limit: item.limit.map(limit),
            hits_addend: item.hits_addend.map(|Cost(hits)| hits),
            is_negative_hits: item.is_negative_hits,
        }
    }
}
