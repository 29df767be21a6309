//! A gRPC server, here with the health service alone, that allows each user five calls an hour:
//! `cargo run --example tonic`, then for example
//! `grpcurl -plaintext -H 'x-user: alice' 127.0.0.1:3001 grpc.health.v1.Health/Check`.

use std::num::NonZeroU64;

use http::Request;
use ratelimit::{
    limiter::{Algorithm, LimitSpec, Limiter, Nanos, Rate, Rule},
    tower::RateLimitLayer,
};
use tonic::{body::Body, transport::Server};

const FIVE: NonZeroU64 = NonZeroU64::new(5).unwrap();

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let five_an_hour = Rate { amount: FIVE, per: Nanos::from_secs(3_600) };
    let limit = LimitSpec::new(Algorithm::FixedWindow, five_an_hour);
    let limiter = Limiter::builder().rule(Rule::new("per-user", limit)).build()?;

    let by_user = |request: &Request<Body>| request.headers().get("x-user").cloned();
    let (_, health) = tonic_health::server::health_reporter();
    Server::builder()
        .layer(RateLimitLayer::by_key(limiter, by_user))
        .add_service(health)
        .serve("127.0.0.1:3001".parse()?)
        .await?;
    Ok(())
}
