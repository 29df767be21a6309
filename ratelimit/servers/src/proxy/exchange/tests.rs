//! Clients over HTTP/2 that do not take their answers.

use std::{convert::Infallible, net::SocketAddr};

use futures_util::future::join_all;
use http_body_util::{BodyExt as _, Empty};
use hyper::{
    body::Bytes,
    client::conn::http2::{self, SendRequest},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
};

use super::{
    super::{BOUNDS, ProxyHandler, REFUSALS},
    *,
};
use crate::{
    application::Service,
    serving::{ConnectionLimit, Endpoint, Listener, Overload, Phase},
};

/// Requests on their way. A client may have half of them.
const PLACES: usize = 40;

/// A server that answers whatever it is asked, on one connection after the other and on several.
async fn server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let answer =
                service_fn(async |_: Request<Incoming>| Ok::<_, Infallible>(Response::new("ok".to_owned())));
            let builder = hyper::server::conn::http1::Builder::new();
            tokio::spawn(builder.serve_connection(TokioIo::new(stream), answer));
        }
    });
    address
}

/// A proxy that passes on what is for one host.
async fn proxy(phase: watch::Receiver<Phase>) -> SocketAddr {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ratelimit.yaml");
    let routes = format!("routes: [{{host: shop, upstreams: 'http://{}'}}]", server().await);
    let text = format!("application: {{proxy: [{{listen: '127.0.0.1:0', {routes}}}]}}");
    std::fs::write(&file, text).unwrap();
    let policy = ratelimit_config::load(&file).unwrap_or_else(|errors| panic!("{errors}"));
    let application = policy.application.unwrap();
    let service = Arc::new(Service::new(&application.service_policy()).unwrap());
    let context = Arc::new(ServeContext::new(service, Arc::default(), phase.clone()));
    let proxy = Proxy::new(&application.proxy, PLACES).unwrap();
    let listener = Listener::tcp("127.0.0.1:0".parse().unwrap()).unwrap();
    let crate::policy::application::ListenAddress::Tcp(address) = *listener.address() else {
        panic!("a port")
    };
    let exchange = ProxyHandler::new(context, proxy, 0);
    let limit = ConnectionLimit::new(10, Overload::Evict);
    tokio::spawn(listener.run(limit, Endpoint { exchange, bounds: BOUNDS, phase }));
    address
}

type Client = SendRequest<Empty<Bytes>>;

/// A client that lets a byte of each answer through, until it takes them.
async fn client(proxy: SocketAddr) -> Client {
    let stream = TokioIo::new(TcpStream::connect(proxy).await.unwrap());
    let mut builder = http2::Builder::new(TokioExecutor::new());
    let (client, connection) = builder.initial_stream_window_size(1).handshake(stream).await.unwrap();
    tokio::spawn(connection);
    client
}

/// The answers to so many requests that come at once, as far as there are any.
async fn ask(client: &Client, host: &str, count: usize) -> Vec<Response<Incoming>> {
    let asked = (0..count).map(|_| {
        let request = Request::get(format!("http://{host}/")).body(Empty::new()).unwrap();
        client.clone().send_request(request)
    });
    join_all(asked).await.into_iter().flatten().collect()
}

fn count(answers: &[Response<Incoming>], status: u16) -> usize {
    answers.iter().filter(|answer| answer.status() == status).count()
}

#[tokio::test]
async fn answers_that_nobody_takes_keep_their_places() {
    for (host, status) in [("shop", 200), ("nobody", 404)] {
        let (_serving, phase) = watch::channel(Phase::Serving);
        let proxy = proxy(phase).await;
        let (one, other) = (client(proxy).await, client(proxy).await);
        let answers = ask(&one, host, 25).await;
        assert_eq!((count(&answers, status), count(&answers, 503)), (PLACES / 2, 5), "{host}");
        assert_eq!(count(&ask(&other, host, 5).await, 503), 5, "{host}");
        for answer in answers {
            answer.into_body().collect().await.unwrap();
        }
        assert_eq!(count(&ask(&other, host, 10).await, status), 10, "{host}");
        // A connection that ends leaves room, too.
        drop(other);
    }
}

#[tokio::test]
async fn who_does_not_even_take_that_there_is_no_place_is_not_served_any_more() {
    let (_serving, phase) = watch::channel(Phase::Serving);
    let proxy = proxy(phase).await;
    let (mut answers, mut clients) = (Vec::new(), Vec::new());
    while clients.iter().all(|client: &Client| !client.is_closed()) {
        assert!(answers.len() <= REFUSALS);
        let client = client(proxy).await;
        answers.extend(ask(&client, "shop", 1_000).await);
        clients.push(client);
    }
    assert_eq!(count(&answers, 200), PLACES / 2);
}
