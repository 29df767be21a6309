//! One connection of a server that is not for the world: HTTP/1 with bounds on the head of a request, and no others.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::{Router, body::Body, http::Request};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tower_service::Service as _;
use tracing::debug;

/// How long the head of a request may take to come, and a connection may wait for one.
const HEAD_TIME: Duration = Duration::from_secs(5);

/// The longest head of a request.
const HEAD_BYTES: usize = 16 << 10;

/// Answers the requests of one connection. `is_answering` says meanwhile whether a request has come and is not answered yet.
pub async fn converse(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    routes: Router,
    is_answering: Arc<AtomicBool>,
) {
    let answer = service_fn(move |request: Request<Incoming>| {
        let (mut routes, is_answering) = (routes.clone(), Arc::clone(&is_answering));
        async move {
            is_answering.store(true, Ordering::Relaxed);
            let answer = routes.call(request.map(Body::new)).await;
            is_answering.store(false, Ordering::Relaxed);
            answer
        }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME).max_buf_size(HEAD_BYTES);
    // Who has said all still gets the answer.
    http.half_close(true);
    if let Err(error) = http.serve_connection(TokioIo::new(stream), answer).await {
        debug!(%error, "a client");
    }
}

#[cfg(test)]
mod tests {
    //! Clients as they are, such as tools that send their input and close their side.

    use axum::routing::get;
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::UnixStream,
    };

    use super::*;

    #[tokio::test]
    async fn who_has_said_all_still_gets_the_answer() {
        let routes = Router::new().route("/", get(|| async { tokio::task::yield_now().await }));
        let (mut client, server) = UnixStream::pair().unwrap();
        client.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        client.shutdown().await.unwrap();
        converse(server, routes, Arc::default()).await;
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await.unwrap();
        assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
    }
}
