//! The least that a proxy made with hyper does: requests go on as they are, over connections that are kept.

use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};

use http::{Request, Response, Uri, header};
use hyper::{
    body::{Body as _, Incoming},
    client::conn::http1::{SendRequest, handshake},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use tokio::net::{TcpListener, TcpStream};

/// Where it listens and where requests go, by which this program knows that it is to be the proxy.
pub const VARIABLE: &str = "RATELIMIT_BENCH_BARE";

/// Connections without a request.
type Idle = Arc<Mutex<Vec<SendRequest<Incoming>>>>;

pub fn run(addresses: &str) {
    let mut addresses =
        addresses.split(' ').map(|address| address.parse::<SocketAddr>().expect("an address"));
    let (listen, behind) = (addresses.next().expect("where"), addresses.next().expect("where to"));
    let threads = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    threads.expect("threads").block_on(async {
        let listener = TcpListener::bind(listen).await.expect("a listener");
        let idle = Idle::default();
        loop {
            let Ok((stream, _)) = listener.accept().await else { continue };
            let _ = stream.set_nodelay(true);
            let idle = Arc::clone(&idle);
            let service = service_fn(move |request| pass_on(request, behind, Arc::clone(&idle)));
            tokio::spawn(async move {
                let mut builder = auto::Builder::new(TokioExecutor::new());
                builder.http2().max_concurrent_streams(1_000);
                let _ = builder.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
}

async fn pass_on(
    mut request: Request<Incoming>,
    behind: SocketAddr,
    idle: Idle,
) -> Result<Response<Incoming>, Infallible> {
    let mut sender = loop {
        let kept = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let Some(mut kept) = kept else { break connect(behind).await };
        if kept.ready().await.is_ok() {
            break kept;
        }
    };
    if let (Some(host), false) = (request.uri().authority(), request.headers().contains_key(header::HOST)) {
        let host = host.as_str().parse().expect("a host");
        request.headers_mut().insert(header::HOST, host);
    }
    let target = request.uri().path_and_query().cloned();
    *request.uri_mut() = target.map_or_else(Uri::default, Uri::from);
    *request.version_mut() = http::Version::HTTP_11;
    let mut response = sender.send_request(request).await.expect("an answer");
    response.headers_mut().remove(header::CONNECTION);
    *response.version_mut() = http::Version::HTTP_11;
    // Answers here are so short that they have come whole, or will before the connection is ready.
    if response.body().is_end_stream() || response.body().size_hint().exact().is_some() {
        idle.lock().unwrap_or_else(PoisonError::into_inner).push(sender);
    }
    Ok(response)
}

async fn connect(behind: SocketAddr) -> SendRequest<Incoming> {
    let stream = TcpStream::connect(behind).await.expect("a connection");
    let _ = stream.set_nodelay(true);
    let (sender, connection) = handshake(TokioIo::new(stream)).await.expect("a connection");
    tokio::spawn(connection);
    sender
}
