//! The server of `/metrics` and `/healthz`. Whoever can reach it may send anything: sizes, times and connections are bounded.

use std::{
    convert::Infallible,
    io,
    net::{SocketAddr, TcpListener},
    sync::Arc,
    time::Duration,
};

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
    routing,
};
use prometheus_client::{encoding::prometheus_text, registry::Registry};
use thiserror::Error;
use tokio::{
    sync::{Mutex, Semaphore},
    time,
};
use tracing::warn;

use super::Metrics;
use crate::{
    dataplane::{self, TrialStatus, in_one_line},
    http1::converse,
    policy::InstanceName,
};

/// So many connections at once; more are closed as they come.
const MOST_CONNECTIONS: usize = 64;

/// How long a connection may live. Prometheus makes a new one.
const LIFETIME: Duration = Duration::from_secs(120);

/// How long it waits if the system has no descriptor for another connection.
const PAUSE: Duration = Duration::from_millis(100);

/// The server can't be started.
#[derive(Debug, Error)]
#[error("metrics.listen: {address}: {source}: give it another address or port, or end who has this one")]
pub struct MetricsError {
    /// Where it was to listen.
    address: SocketAddr,
    /// Why it can't.
    source: io::Error,
}

/// The server, before it serves.
#[derive(Debug)]
pub struct Server(TcpListener);

/// What the handlers share.
#[derive(Clone)]
struct Shared {
    instance: InstanceName,
    limits_packets: bool,
    /// One at a time reads all counters, however many ask.
    registry: Arc<Mutex<Registry>>,
}

impl Server {
    /// Takes the address.
    ///
    /// # Errors
    /// Somebody else has it, or this host does not.
    pub fn bind(address: SocketAddr) -> Result<Self, MetricsError> {
        let bound = TcpListener::bind(address)
            .and_then(|listener| listener.set_nonblocking(true).map(|()| Self(listener)));
        bound.map_err(|source| MetricsError { address, source })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The system does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Serves as long as it is polled.
    ///
    /// # Errors
    /// The runtime has no place for it.
    pub async fn serve(self, metrics: Metrics, instance: InstanceName) -> io::Result<Infallible> {
        let listener = tokio::net::TcpListener::from_std(self.0)?;
        let routes = routes(Shared {
            instance,
            limits_packets: metrics.limits_packets,
            registry: Arc::new(Mutex::new(metrics.registry)),
        });
        let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
        loop {
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    warn!(%error, "a connection for metrics");
                    time::sleep(PAUSE).await;
                    continue;
                }
            };
            let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
            let routes = routes.clone();
            tokio::spawn(async move {
                let _place = place;
                let _ = time::timeout(LIFETIME, converse(stream, routes)).await;
            });
        }
    }
}

fn routes(shared: Shared) -> Router {
    Router::new()
        .route("/metrics", routing::get(metrics))
        .route("/healthz", routing::get(health))
        .with_state(shared)
}

async fn metrics(State(shared): State<Shared>) -> Response {
    let registry = shared.registry.lock_owned().await;
    // On a thread of its own: whoever asks often must not hold up the daemon.
    let encoded = tokio::task::spawn_blocking(move || {
        let mut text = String::new();
        prometheus_text::encode(&mut text, &registry).map(|()| text)
    });
    match encoded.await {
        Ok(Ok(text)) => ([(header::CONTENT_TYPE, prometheus_text::CONTENT_TYPE)], text).into_response(),
        _ => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// Whether limits are in force.
async fn health(State(shared): State<Shared>) -> Response {
    if !shared.limits_packets {
        return "ok\n".into_response();
    }
    // One at a time, here too.
    let _registry = shared.registry.lock().await;
    let status = tokio::task::spawn_blocking(move || dataplane::status(&shared.instance)).await;
    let unhealthy = |why: String| (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response();
    match status {
        Ok(Ok(status)) if status.interfaces.is_empty() => unhealthy("attached to no interface".to_owned()),
        Ok(Ok(status)) if status.trial == TrialStatus::Failed => {
            unhealthy("everything passes: nobody has confirmed the rules in time".to_owned())
        }
        Ok(Ok(status)) if !status.missing.is_empty() => {
            unhealthy(format!("not limited, because they are missing: {}", status.missing.join(", ")))
        }
        Ok(Ok(_)) => "ok\n".into_response(),
        Ok(Err(error)) => unhealthy(in_one_line(&error)),
        Err(error) => unhealthy(error.to_string()),
    }
}
