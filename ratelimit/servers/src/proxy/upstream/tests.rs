//! Where servers are, connections that they have closed, and which of them is next.

use std::{
    convert::Infallible,
    io::{Read as _, Write as _},
};

use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::AsyncWriteExt as _;

use super::*;

/// A request without a body, as it comes from a client.
async fn asked() -> (Request<Upload>, Arc<Progress>) {
    let (mut client, server) = tokio::io::duplex(1024);
    client.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let (sender, mut asked) = tokio::sync::mpsc::channel(1);
    let service = service_fn(move |request: Request<Incoming>| {
        let sender = sender.clone();
        async move {
            sender.send(request).await.unwrap();
            std::future::pending::<Result<Response<String>, Infallible>>().await
        }
    });
    let connection =
        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(server), service);
    let request = tokio::select! {
        request = asked.recv() => request.unwrap(),
        _ = connection => panic!("a connection without a request"),
    };
    let (head, body) = request.into_parts();
    let (upload, progress) = Upload::new(body, &Arc::default());
    (Request::from_parts(head, upload), progress)
}

#[tokio::test]
async fn what_could_not_be_sent_on_a_connection_is_still_there() {
    // A server that closes after its first answer, without saying so.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 1024]);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    });
    let url = UpstreamUrl { scheme: Scheme::Http, host: "127.0.0.1".to_owned(), port };
    let upstream = Upstream::new(url);
    let (request, progress) = asked().await;
    let how = How {
        target: PathAndQuery::from_static("/"),
        authority: HeaderValue::from_static("x"),
        is_upgrade: false,
        takes_trailers: false,
        connect: Duration::from_secs(10),
        response: Duration::from_secs(10),
        progress,
    };
    let Ok((response, Lease::Alone(connection))) = upstream.send(&mut Some(request), &how).await else {
        panic!("no answer")
    };
    assert_eq!(response.status(), 200);
    // Somebody took it before anybody had heard of its end.
    while !connection.is_closed() {
        tokio::task::yield_now().await;
    }
    let mut request = Some(asked().await.0);
    let sent = Ready::Alone(connection).send(&mut request, &how, Scheme::Http).await;
    assert!(matches!(sent, Err(NoAnswer::Unsent(UpstreamFailure::Closed))) && request.is_some());
}

fn group(count: u16, balance: Balance) -> UpstreamGroup {
    let url = |port| UpstreamUrl { scheme: Scheme::Http, host: "x".to_owned(), port };
    UpstreamGroup::new((0..count).map(|port| Arc::new(Upstream::new(url(port + 1)))).collect(), balance)
}

#[tokio::test]
async fn a_server_is_where_its_url_says_and_where_its_name_was_found() {
    let of = |url: &str| Upstream::new(url.parse().unwrap());
    let is_in = |upstream: &Upstream, network: &str| upstream.is_in(&network.parse().unwrap());
    let written = of("http://10.1.0.7:80");
    assert!(is_in(&written, "10.1.0.7/32") && is_in(&written, "10.0.0.0/8"));
    assert!(!is_in(&written, "10.1.0.8/32") && !is_in(&written, "2001:db8::/32"));
    assert!(is_in(&of("http://[::ffff:10.1.0.7]:80"), "10.1.0.7/32"));
    let named = of("http://localhost:80");
    assert!(!is_in(&named, "127.0.0.1/32") && !is_in(&named, "::1/128"));
    let how_long = Duration::from_secs(10);
    drop(connect(&named.url, &named.addresses, None, false, how_long).await);
    assert!(is_in(&named, "127.0.0.1/32") || is_in(&named, "::1/128"));
}

#[test]
fn each_server_is_next_in_turn() {
    let group = group(3, Balance::RoundRobin);
    let orders: Vec<_> = (0..4).map(|_| group.order()).collect();
    assert_eq!(orders, [[0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 1, 2]]);
}

#[test]
fn the_server_with_the_fewest_requests_is_next() {
    let group = group(3, Balance::LeastRequests);
    let upstreams = group.upstreams();
    let _busy: Vec<_> = [0, 0, 1].map(|place: usize| upstreams[place].begin()).into();
    assert_eq!([group.order(), group.order()], [[2, 1, 0]; 2]);
}

#[test]
fn a_server_that_can_not_be_connected_to_comes_last() {
    for balance in [Balance::RoundRobin, Balance::LeastRequests] {
        let group = group(2, balance);
        group.upstreams()[0].failed(UpstreamFailure::Connect);
        assert_eq!([group.order(), group.order()], [[1, 0]; 2]);
        // What fails with a request may fail by the request.
        group.upstreams()[1].failed(UpstreamFailure::Closed);
        assert_eq!(group.order(), [1, 0]);
    }
}
