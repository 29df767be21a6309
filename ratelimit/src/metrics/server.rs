//! The server of `/metrics` and `/healthz`. Whoever can reach it may send anything: sizes, times and connections are
//! bounded.

use std::{
    io,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    Router,
    body::Bytes,
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
    server::{
        advice,
        serving::{Bounds, ConnectionLimit, ConnectionTimeouts, Listener, Overload, serve_routes},
    },
};

/// So many connections at once. Whoever keeps them all must keep nobody out.
const MOST_CONNECTIONS: usize = 64;

/// What is borne on a connection. Prometheus makes a new one after its time.
const BOUNDS: Bounds = Bounds {
    times: ConnectionTimeouts { lifetime: Some(Duration::from_secs(120)), ..Bounds::INTERNAL.times },
    ..Bounds::INTERNAL
};

/// The server can't be started.
#[derive(Debug, Error)]
#[error("metrics.listen: {address}: can't listen there ({source}): {}", advice("", source))]
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
struct MetricsContext {
    instance: InstanceName,
    limits_packets: bool,
    registry: Arc<Registry>,
    text: Latest<Option<Bytes>>,
    health: Latest<Result<(), String>>,
}

/// An answer that takes time: it is worked out by one at a time, on a thread of its own, and is that of all who had
/// asked before that began. So those who ask wait for two of them at most, however many they are.
struct Latest<A>(Arc<Mutex<Option<(Instant, A)>>>);

impl<A> Clone for Latest<A> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<A: Clone + Send + 'static> Latest<A> {
    fn new() -> Self {
        Self(Arc::new(Mutex::new(None)))
    }

    /// The answer; `None` if nobody could work it out.
    async fn get(&self, work_out: impl FnOnce() -> A + Send + 'static) -> Option<A> {
        let asked = Instant::now();
        let mut latest = Arc::clone(&self.0).lock_owned().await;
        if let Some((_, answer)) = latest.as_ref().filter(|(began, _)| *began >= asked) {
            return Some(answer.clone());
        }
        let working = tokio::task::spawn_blocking(move || {
            let began = Instant::now();
            let answer = work_out();
            *latest = Some((began, answer.clone()));
            answer
        });
        working.await.ok()
    }
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
        let routes = routes(MetricsContext {
            instance,
            limits_packets: metrics.limits_packets,
            registry: Arc::new(metrics.registry),
            text: Latest::new(),
            health: Latest::new(),
        });
        serve_routes(self.0, routes, BOUNDS, ConnectionLimit::new(MOST_CONNECTIONS, Overload::Evict)).await
    }
}

fn routes(shared: MetricsContext) -> Router {
    Router::new()
        .route("/metrics", routing::get(metrics))
        .route("/healthz", routing::get(health))
        .with_state(shared)
}

async fn metrics(State(shared): State<MetricsContext>) -> Response {
    let registry = Arc::clone(&shared.registry);
    let encode = move || {
        let mut text = String::new();
        prometheus_text::encode(&mut text, &registry).ok().map(|()| Bytes::from(text))
    };
    match shared.text.get(encode).await.flatten() {
        Some(text) => ([(header::CONTENT_TYPE, prometheus_text::CONTENT_TYPE)], text).into_response(),
        None => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// Whether limits are in force.
async fn health(State(shared): State<MetricsContext>) -> Response {
    if !shared.limits_packets {
        return "ok\n".into_response();
    }
    let instance = shared.instance;
    match shared.health.get(move || check(&instance)).await {
        Some(Ok(())) => "ok\n".into_response(),
        Some(Err(why)) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response(),
        None => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// Whether limits on packets are in force, or why not.
fn check(instance: &InstanceName) -> Result<(), String> {
    let status = dataplane::status(instance).map_err(|error| in_one_line(&error))?;
    if status.interfaces.is_empty() {
        return Err("attached to no interface".to_owned());
    }
    if status.trial == TrialStatus::Failed {
        return Err("everything passes: nobody has confirmed the rules in time".to_owned());
    }
    if !status.missing.is_empty() {
        let missing = status.missing.join(", ");
        return Err(format!("not limited, because they are missing or refuse it: {missing}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{
        fmt,
        sync::atomic::{AtomicUsize, Ordering::SeqCst},
    };

    use prometheus_client::{collector::Collector, encoding::DescriptorEncoder};
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::{TcpSocket, TcpStream},
        sync::watch,
        time,
    };

    use super::*;

    /// Far less than a half-sent request may wait.
    const SOON: Duration = Duration::from_secs(3);

    async fn healthz(address: SocketAddr, from: &str) -> io::Result<String> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(from.parse().unwrap())?;
        let mut stream = socket.connect(address).await?;
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
            let answer = time::timeout(SOON, healthz(address, "127.0.0.1:0"))
                .await
                .expect("an answer in time")
                .unwrap();
            assert!(answer.ends_with("\r\n\r\nok\n"), "{answer}");
        }
    }

    /// A metric that takes until it is told to go on.
    #[derive(Debug)]
    struct Slow {
        goes_on: watch::Receiver<bool>,
        begun: Arc<AtomicUsize>,
    }

    impl Collector for Slow {
        fn encode(&self, _: DescriptorEncoder<'_>) -> fmt::Result {
            self.begun.fetch_add(1, SeqCst);
            let mut goes_on = self.goes_on.clone();
            let waiting = goes_on.wait_for(|goes_on| *goes_on);
            tokio::runtime::Handle::current().block_on(waiting).map(drop).map_err(|_| fmt::Error)
        }
    }

    /// All connections are being answered all the time.
    #[tokio::test(flavor = "multi_thread")]
    async fn clients_that_ask_again_and_again_keep_nobody_else_out() {
        let server = Server::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let &ListenAddress::Tcp(address) = server.address() else { panic!("no port") };
        let instance = InstanceName::default();
        let mut metrics = Metrics::new(&instance, false);
        let (go_on, goes_on) = watch::channel(false);
        let begun = Arc::new(AtomicUsize::new(0));
        metrics.registry.register_collector(Box::new(Slow { goes_on, begun: Arc::clone(&begun) }));
        tokio::spawn(server.serve(metrics, instance));
        let mut asking = Vec::new();
        for _ in 0..200 {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let question = b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n".repeat(200);
            // Those that are too many are refused.
            let _ = stream.write_all(&question).await;
            asking.push(stream);
        }
        for _ in 0..3 {
            let answer = time::timeout(SOON, healthz(address, "127.0.0.2:0")).await;
            let answer = answer.expect("an answer in time").unwrap();
            assert!(answer.ends_with("\r\n\r\nok\n"), "{answer}");
        }
        assert_eq!(begun.load(SeqCst), 1, "all wait for one");
        go_on.send(true).unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn who_asked_before_an_answer_was_begun_shares_it() {
        let (latest, begun) = (Latest::<usize>::new(), Arc::new(AtomicUsize::new(0)));
        let held = latest.0.lock().await;
        let asked: Vec<_> = (0..10)
            .map(|_| {
                let (latest, begun) = (latest.clone(), Arc::clone(&begun));
                tokio::spawn(async move { latest.get(move || begun.fetch_add(1, SeqCst)).await })
            })
            .collect();
        // Each has asked when it waits for the lock.
        while Arc::strong_count(&latest.0) < 21 {
            tokio::task::yield_now().await;
        }
        drop(held);
        for answer in asked {
            assert_eq!(answer.await.unwrap(), Some(0));
        }
        assert_eq!(latest.get(move || begun.fetch_add(1, SeqCst)).await, Some(1), "later than that");
    }
}
