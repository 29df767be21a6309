//! `POST /json`: Envoy's messages as JSON, by protobuf's mapping.

use std::sync::LazyLock;

use axum::response::Response;
use http::StatusCode;
use prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor};

use super::{
    super::{
        context::{ServeContext, answering},
        convert,
        proto::{DESCRIPTORS, wire::envoy::service::ratelimit::v3::RateLimitRequest},
    },
    super::{offenders::Sender, serving::PeerAddress},
    JSON, Problem, costs,
    distinct::Distinct,
    text, with,
};
use crate::answers;

/// The messages' descriptors.
struct Messages {
    request: MessageDescriptor,
    response: MessageDescriptor,
}

/// `None` only if the crate was built with other descriptors than its own.
static MESSAGES: LazyLock<Option<Messages>> = LazyLock::new(|| {
    let pool = DescriptorPool::decode(DESCRIPTORS).ok()?;
    let message = |name: &str| pool.get_message_by_name(&format!("envoy.service.ratelimit.v3.{name}"));
    Some(Messages { request: message("RateLimitRequest")?, response: message("RateLimitResponse")? })
});

/// 200 or 429 with the response; 400 for what whoever asks has to write otherwise.
pub async fn answer(context: &ServeContext, peer: PeerAddress, text: &str) -> Result<Response, Problem> {
    let messages = MESSAGES.as_ref().ok_or_else(|| internal("the messages have no descriptors"))?;
    let of_bounded = |problem| text::bounded(text).map_or(Err(problem), |text| read(messages, &text));
    let request = read(messages, text).or_else(of_bounded).map_err(|problem| problem.counted(context))?;
    let request = convert::request(request).map_err(|error| Problem::bad(error).counted(context))?;
    let in_force = context.in_force();
    let response = in_force.decide_async(&request).await.map_err(Problem::bad)?;
    context.offenders().note(&request, &response, Sender::of_question(peer.0));
    let headers = answering(&in_force).headers;
    let message = convert::response(&request, &response, headers);
    let mut written = DynamicMessage::new(messages.response.clone());
    written.transcode_from(&message).map_err(internal)?;
    let written = serde_json::to_vec(&written).map_err(internal)?;
    let status = if response.allowed() { StatusCode::OK } else { StatusCode::TOO_MANY_REQUESTS };
    Ok(with(status, answers::of_http(&response, headers), JSON, written))
}

fn read(messages: &Messages, text: &str) -> Result<RateLimitRequest, Problem> {
    // If a member is there twice, the deserializer takes the last.
    serde_json::from_str::<Distinct>(text).map_err(Problem::bad)?;
    let mut json = serde_json::Deserializer::from_str(text);
    let request = match DynamicMessage::deserialize(messages.request.clone(), &mut json) {
        Ok(request) => json.end().map(|()| request),
        Err(error) => match costs::bounded(text) {
            Some(json) => DynamicMessage::deserialize(messages.request.clone(), json),
            None => Err(error),
        },
    };
    let request = request.map_err(Problem::bad)?;
    RateLimitRequest::decode(request.encode_to_vec().as_slice()).map_err(Problem::bad)
}

fn internal(error: impl std::fmt::Display) -> Problem {
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error)
}
