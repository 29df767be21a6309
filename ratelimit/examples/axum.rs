//! An axum server that allows each client ten requests at once and two a second:
//! `cargo run --example axum`, then `curl -i http://127.0.0.1:3000`.

use std::{net::SocketAddr, num::NonZeroU64};

use axum::{Router, routing::get};
use ratelimit::{
    limiter::{Algorithm, LimitSpec, Limiter, Nanos, Rate, Rule},
    tower::{ClientAddress, RateLimitLayer},
};
use tokio::net::TcpListener;

const TWO: NonZeroU64 = NonZeroU64::new(2).unwrap();

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let two_a_second = Rate { amount: TWO, per: Nanos::SECOND };
    let limit =
        LimitSpec { burst: NonZeroU64::new(10), ..LimitSpec::new(Algorithm::TokenBucket, two_a_second) };
    let limiter = Limiter::builder().rule(Rule::new("per-client", limit)).build()?;

    let app = Router::new()
        .route("/", get(|| async { "hello\n" }))
        .layer(RateLimitLayer::by_key(limiter, ClientAddress::default()));
    let listener = TcpListener::bind("127.0.0.1:3000").await?;
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}
