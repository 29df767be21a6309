//! Envoy's rate limit service over gRPC, with health and reflection.

use std::net::IpAddr;

use axum::{Router, response::Response};
use tonic::{Code, Status, service::Routes};
use tonic_health::{
    ServingStatus,
    pb::health_server::{Health, HealthServer},
};
use tracing::warn;

use super::{
    context::{ServeContext, answering},
    convert, limits, message,
    offenders::Sender,
    proto::{
        DESCRIPTORS,
        envoy::service::ratelimit::v3::{RateLimitResponse, rate_limit_response},
        wire::envoy::service::ratelimit::v3::RateLimitRequest,
    },
    serving::{Metered, PeerAddress, Phase},
    unjudged::Unjudged,
};

/// The service's name, as health is asked for it.
const SERVICE: &str = "envoy.service.ratelimit.v3.RateLimitService";

/// The path of its only call.
pub const SHOULD_RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// Answers whether a request may go on. A question that can't be judged is denied: an error would let it pass.
pub async fn should_rate_limit(
    context: &ServeContext,
    PeerAddress(peer): PeerAddress,
    body: Metered,
) -> Response {
    match message::read(body).await {
        Ok(request) => decide(context, peer, request).await.unwrap_or_else(Status::into_http),
        // Whoever measures the body counts it.
        Err(Unjudged::NoRoom) => unjudged(context),
        Err(why) => {
            context.stats().unjudged(why);
            unjudged(context)
        }
    }
}

/// The answer to a question that can't be judged.
pub fn unjudged(context: &ServeContext) -> Response {
    let passes = context.in_force().shadow_mode();
    let code = if passes { rate_limit_response::Code::Ok } else { rate_limit_response::Code::OverLimit };
    message::answer(&RateLimitResponse { overall_code: code.into(), ..RateLimitResponse::default() })
}

async fn decide(
    context: &ServeContext,
    peer: Option<IpAddr>,
    request: RateLimitRequest,
) -> Result<Response, Status> {
    let request = convert::request(request).map_err(Status::invalid_argument)?;
    let in_force = context.in_force();
    // As Envoy's service answers what it can't make sense of.
    let response =
        in_force.decide_async(&request).await.map_err(|error| Status::unknown(error.to_string()))?;
    context.offenders().note(&request, &response, Sender::of_question(peer));
    Ok(message::answer(&convert::response(&request, &response, answering(&in_force).headers)))
}

/// All else that is answered over gRPC. It is to be called in a runtime.
pub fn router(context: &ServeContext) -> Router {
    reflection(Routes::new(health(context))).into_axum_router()
}

/// Whether this answers what can't be decoded, of which nobody else hears.
pub fn is_unreadable(answer: &Response) -> bool {
    let code = Status::from_header_map(answer.headers()).map(|status| status.code());
    matches!(code, Some(Code::Internal | Code::InvalidArgument | Code::OutOfRange))
}

/// It says NOT_SERVING as soon as the servers leave, and nothing more at their end.
fn health(context: &ServeContext) -> HealthServer<impl Health> {
    let (mut reporter, service) = tonic_health::server::health_reporter();
    let mut phase = context.phase();
    tokio::spawn(async move {
        reporter.set_service_status(SERVICE, ServingStatus::Serving).await;
        // Without the servers nobody asks either.
        let _ = phase.wait_for(|phase| *phase > Phase::Serving).await;
        for name in ["", SERVICE] {
            reporter.set_service_status(name, ServingStatus::NotServing).await;
        }
        let _ = phase.wait_for(|phase| *phase == Phase::Ending).await;
        for name in ["", SERVICE] {
            reporter.clear_service_status(name).await;
        }
    });
    service.max_decoding_message_size(limits::SMALL_MESSAGE)
}

fn reflection(routes: Routes) -> Routes {
    let builder = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    match (builder().build_v1(), builder().build_v1alpha()) {
        (Ok(v1), Ok(v1alpha)) => routes
            .add_service(v1.max_decoding_message_size(limits::SMALL_MESSAGE))
            .add_service(v1alpha.max_decoding_message_size(limits::SMALL_MESSAGE)),
        (Err(error), _) | (_, Err(error)) => {
            warn!(%error, "no reflection");
            routes
        }
    }
}
