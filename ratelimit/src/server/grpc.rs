//! Envoy's rate limit service over gRPC, with health and reflection.

use std::sync::Arc;

use axum::{Router, response::Response as Answer};
use tonic::{Code, Request, Response, Status, async_trait, service::Routes};
use tonic_health::{
    ServingStatus,
    pb::health_server::{Health, HealthServer},
};
use tracing::warn;

use super::{
    connection::Phase,
    convert, limits,
    proto::{
        DESCRIPTORS,
        envoy::service::ratelimit::v3::{
            RateLimitRequest, RateLimitResponse,
            rate_limit_service_server::{RateLimitService, RateLimitServiceServer},
        },
    },
    state::State,
};

/// The service's name, as health is asked for it.
const SERVICE: &str = "envoy.service.ratelimit.v3.RateLimitService";

/// Everything that is answered over gRPC. It is to be called in a runtime.
pub fn router(state: &Arc<State>) -> Router {
    let service = RateLimitServiceServer::new(Handler(Arc::clone(state)));
    let mut routes = Routes::new(service.max_decoding_message_size(limits::BODY));
    routes = routes.add_service(health(state));
    routes = reflection(routes);
    routes.into_axum_router()
}

/// Whether this answers what can't be decoded, of which the service never hears.
pub fn is_unreadable(answer: &Answer) -> bool {
    let code = Status::from_header_map(answer.headers()).map(|status| status.code());
    matches!(code, Some(Code::Internal | Code::InvalidArgument | Code::OutOfRange))
}

/// It says NOT_SERVING as soon as the servers leave, and nothing more at their end.
fn health(state: &State) -> HealthServer<impl Health> {
    let (mut reporter, service) = tonic_health::server::health_reporter();
    let mut phase = state.phase();
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

struct Handler(Arc<State>);

#[async_trait]
impl RateLimitService for Handler {
    async fn should_rate_limit(
        &self,
        request: Request<RateLimitRequest>,
    ) -> Result<Response<RateLimitResponse>, Status> {
        let request = convert::request(request.into_inner()).map_err(Status::invalid_argument)?;
        let in_force = self.0.in_force();
        // As Envoy's service answers what it can't make sense of.
        let response = in_force.decide(&request).map_err(|error| Status::unknown(error.to_string()))?;
        Ok(Response::new(convert::response(&request, &response, in_force.settings().headers)))
    }
}
