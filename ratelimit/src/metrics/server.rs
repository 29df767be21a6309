//! The server of `/metrics` and `/healthz`. Whoever can reach it may send anything: sizes, times and connections are bounded.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
    routing,
};
use prometheus_client::{encoding::prometheus_text, registry::Registry};
use thiserror::Error;
use tokio::sync::Mutex;

use super::Metrics;
use crate::{
    dataplane::{self, TrialStatus, in_one_line},
    policy::{InstanceName, application::ListenAddress},
    server::serving::{Bounds, Listener, Overload, Room, Times, serve_routes},
};

/// So many connections at once. Whoever keeps them all must keep nobody out.
const MOST_CONNECTIONS: usize = 64;

/// What is borne on a connection. Prometheus makes a new one after its time.
const BOUNDS: Bounds = Bounds {
    times: Times { lifetime: Some(Duration::from_secs(120)), ..Bounds::INTERNAL.times },
    ..Bounds::INTERNAL
};

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
pub struct Server(Listener);

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
        Listener::tcp(address).map(Self).map_err(|source| MetricsError { address, source })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> &ListenAddress {
        self.0.address()
    }

    /// Serves as long as it is polled.
    ///
    /// # Errors
    /// The runtime has no place for it.
    pub async fn serve(self, metrics: Metrics, instance: InstanceName) -> io::Result<()> {
        let routes = routes(Shared {
            instance,
            limits_packets: metrics.limits_packets,
            registry: Arc::new(Mutex::new(metrics.registry)),
        });
        serve_routes(self.0, routes, BOUNDS, Room::new(MOST_CONNECTIONS, Overload::Evict)).await
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
        Ok(Ok(status)) if !status.missing.is_empty() => unhealthy(format!(
            "not limited, because they are missing or refuse it: {}",
            status.missing.join(", ")
        )),
        Ok(Ok(_)) => "ok\n".into_response(),
        Ok(Err(error)) => unhealthy(in_one_line(&error)),
        Err(error) => unhealthy(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpStream,
        time,
    };

    use super::*;

    /// Far less than a half-sent request may wait.
    const SOON: Duration = Duration::from_secs(3);

    async fn healthz(address: SocketAddr) -> io::Result<String> {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.map(|_| answer)
    }

    #[tokio::test]
    async fn clients_that_send_half_of_a_request_keep_nobody_out() {
        let server = Server::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let &ListenAddress::Tcp(address) = server.address() else { panic!("no port") };
        let instance = InstanceName::default();
        tokio::spawn(server.serve(Metrics::new(&instance, false), instance));
        let mut half_sent = Vec::new();
        for _ in 0..200 {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(b"GET /metrics HTTP/1.1\r\nho").await.unwrap();
            half_sent.push(stream);
        }
        for _ in 0..3 {
            let answer = time::timeout(SOON, healthz(address)).await.expect("an answer in time").unwrap();
            assert!(answer.ends_with("\r\n\r\nok\n"), "{answer}");
        }
    }
}
