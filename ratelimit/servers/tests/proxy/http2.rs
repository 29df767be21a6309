//! HTTP/2 on either side, and TLS.

use std::{
    convert::Infallible,
    fs,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use http::{HeaderMap, Request, Response, StatusCode, Version, header};
use http_body_util::{BodyExt as _, Empty, Full, StreamBody, combinators::BoxBody};
use hyper::{
    body::{Bytes, Frame, Incoming},
    client::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Barrier,
};
use tokio_rustls::{
    TlsAcceptor, TlsConnector,
    rustls::{self, pki_types::PrivateKeyDer},
};

use super::{
    server::{OK, Recorder},
    support::{Proxy, body, status},
};

pub type Sender = http2::SendRequest<BoxBody<Bytes, Infallible>>;

/// A client over HTTP/2 without TLS.
pub async fn client(proxy: &Proxy) -> Sender {
    let stream = TcpStream::connect(proxy.address()).await.unwrap();
    let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

fn request(method: &str, path: &str, body: &'static [u8]) -> Request<BoxBody<Bytes, Infallible>> {
    let body = if body.is_empty() { Empty::new().boxed() } else { Full::from(body).boxed() };
    Request::builder().method(method).uri(format!("http://shop{path}")).body(body).unwrap()
}

/// A server that says what it was asked for, and sends the body back with a trailer.
async fn echo(request: Request<Incoming>) -> Result<Response<BoxBody<Bytes, hyper::Error>>, Infallible> {
    let (head, body) = request.into_parts();
    let asked = format!("{:?} {} {}", head.version, head.method, head.uri);
    let takes_trailers = head.headers.get(header::TE).is_some_and(|te| te == "trailers");
    let trailer = |name| (header::HeaderName::from_static(name), "0".parse().unwrap());
    // Only one of them is a trailer that may be.
    let trailers = HeaderMap::from_iter(["grpc-status", "x_plan", "content-encoding"].map(trailer));
    let body = body.with_trailers(async move { takes_trailers.then_some(Ok(trailers)) });
    let mut response = Response::new(body.boxed());
    response.headers_mut().insert("x-asked", asked.parse().unwrap());
    Ok(response)
}

/// The same at a port, over either version of HTTP.
async fn listen(tls: Option<TlsAcceptor>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let tls = tls.clone();
            tokio::spawn(async move {
                let builder = auto::Builder::new(TokioExecutor::new());
                match tls {
                    None => drop(builder.serve_connection(TokioIo::new(stream), service_fn(echo)).await),
                    Some(tls) => {
                        let Ok(stream) = tls.accept(stream).await else { return };
                        drop(builder.serve_connection(TokioIo::new(stream), service_fn(echo)).await);
                    }
                }
            });
        }
    });
    address
}

#[tokio::test]
async fn http2_goes_to_a_server_over_http1() {
    let server = Recorder::answering(OK);
    let proxy = Proxy::before(server.address);
    let mut sender = client(&proxy).await;
    let mut asked = request("POST", "//a/../b?c", b"abc");
    asked.headers_mut().append("cookie", "a=1".parse().unwrap());
    asked.headers_mut().append("cookie", "b=2".parse().unwrap());
    let response = sender.send_request(asked).await.unwrap();
    assert_eq!((response.status(), response.version()), (StatusCode::OK, Version::HTTP_2));
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "ok");
    let expected = [
        "POST /b?c HTTP/1.1",
        "content-length: 3",
        "cookie: a=1; b=2",
        "host: shop",
        "via: 2.0 ratelimit",
        "x-forwarded-for: 127.0.0.1",
        "x-forwarded-host: shop",
        "x-forwarded-proto: http",
        "abc",
    ];
    assert_eq!(server.next_sorted(), expected);
    for (method, uri, expected) in [("TRACE", "http://shop/", 405), ("GET", "http://me@shop/", 400)] {
        let request = Request::builder().method(method).uri(uri).body(Empty::new().boxed()).unwrap();
        let status = sender.send_request(request).await.map(|response| response.status().as_u16());
        assert!(
            status.as_ref().is_ok_and(|status| *status == expected) || status.is_err(),
            "{method} {uri} {status:?}"
        );
    }
    let mut two = request("GET", "/", b"");
    two.headers_mut().insert(header::HOST, "other".parse().unwrap());
    assert_eq!(sender.send_request(two).await.unwrap().status(), StatusCode::BAD_REQUEST);
    assert!(server.has_nothing());
}

#[tokio::test]
async fn http1_goes_to_a_server_over_http2() {
    let address = listen(None).await;
    let proxy = Proxy::new(&format!("routes: [{{upstreams: 'h2c://{address}'}}]"));
    let ask = "POST /a?b HTTP/1.1\r\nHost: shop\r\nTE: trailers\r\nConnection: close, TE\r\nContent-Length: 3\r\n\r\nabc";
    let answer = tokio::task::spawn_blocking(move || proxy.send(ask)).await.unwrap();
    assert_eq!(status(&answer), 200, "{answer}");
    assert!(answer.contains("x-asked: HTTP/2.0 POST http://shop/a?b\r\n"), "{answer}");
    assert!(body(&answer).contains("abc"), "{answer}");
}

#[tokio::test]
async fn a_call_with_messages_both_ways_passes_as_grpc_has_it() {
    let address = listen(None).await;
    let proxy = Proxy::new(&format!("routes: [{{upstreams: 'h2c://{address}'}}]"));
    let mut sender = client(&proxy).await;
    let (messages, stream) = tokio::sync::mpsc::channel::<Result<Frame<Bytes>, Infallible>>(1);
    let stream =
        futures_util::stream::unfold(stream, async |mut stream| Some((stream.recv().await?, stream)));
    let request = Request::post("http://shop/pkg.Service/Call")
        .header("te", "trailers")
        .header("content-type", "application/grpc")
        .body(StreamBody::new(stream).boxed())
        .unwrap();
    let mut answer = sender.send_request(request).await.unwrap();
    for message in ["one", "two", "three"] {
        messages.send(Ok(Frame::data(Bytes::from(message)))).await.unwrap();
        let frame = answer.body_mut().frame().await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), message);
    }
    drop(messages);
    let trailers = answer.body_mut().frame().await.unwrap().unwrap().into_trailers().unwrap();
    let names: Vec<&str> = trailers.keys().map(header::HeaderName::as_str).collect();
    assert_eq!(names, ["grpc-status"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_requests_at_once_on_one_connection_are_all_answered() {
    const REQUESTS: usize = 1_000;
    // Each is answered when all have come.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = Proxy::before(listener.local_addr().unwrap());
    let barrier = Arc::new(Barrier::new(REQUESTS));
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let barrier = Arc::clone(&barrier);
            let service = service_fn(move |request: Request<Incoming>| {
                let barrier = Arc::clone(&barrier);
                async move {
                    barrier.wait().await;
                    Ok::<_, Infallible>(Response::new(Full::<Bytes>::from(request.uri().path().to_owned())))
                }
            });
            let builder = auto::Builder::new(TokioExecutor::new());
            tokio::spawn(async move { drop(builder.serve_connection(TokioIo::new(stream), service).await) });
        }
    });
    let sender = client(&proxy).await;
    let answered = Arc::<AtomicUsize>::default();
    let asking: Vec<_> = (0..REQUESTS)
        .map(|place| {
            let (mut sender, answered) = (sender.clone(), Arc::clone(&answered));
            tokio::spawn(async move {
                let path = format!("/{place}");
                let response = sender.send_request(request("GET", &path, b"")).await.unwrap();
                assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), path);
                answered.fetch_add(1, Relaxed);
            })
        })
        .collect();
    for asked in asking {
        asked.await.unwrap();
    }
    assert_eq!(answered.load(Relaxed), REQUESTS);
}

#[tokio::test]
async fn clients_over_tls_speak_either_version() {
    let server = Recorder::answering(OK);
    let directory = tempfile::tempdir().unwrap();
    let own = rcgen::generate_simple_self_signed(["shop.example".to_owned()]).unwrap();
    let [cert, key] = ["cert.pem", "key.pem"].map(|name| directory.path().join(name));
    fs::write(&cert, own.cert.pem()).unwrap();
    fs::write(&key, own.signing_key.serialize_pem()).unwrap();
    let tls = format!("tls: {{cert: {}, key: {}}}", cert.display(), key.display());
    let proxy = Proxy::new(&format!("{tls}\nroutes: [{{upstreams: 'http://{}'}}]", server.address));
    let mut roots = rustls::RootCertStore::empty();
    roots.add(own.cert.der().clone()).unwrap();
    for (protocol, via) in [("h2", "via: 2.0 ratelimit"), ("http/1.1", "via: 1.1 ratelimit")] {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ClientConfig::builder_with_provider(provider);
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        let mut config = builder.with_root_certificates(roots.clone()).with_no_client_auth();
        config.alpn_protocols = vec![protocol.into()];
        let stream = TcpStream::connect(proxy.address()).await.unwrap();
        let name = rustls::pki_types::ServerName::try_from("shop.example").unwrap();
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(protocol.as_bytes()));
        let (stream, request) = (TokioIo::new(stream), Request::get("https://shop.example:443/"));
        let response = if protocol == "h2" {
            let (mut sender, connection) = http2::handshake(TokioExecutor::new(), stream).await.unwrap();
            tokio::spawn(connection);
            sender.send_request(request.body(Empty::<Bytes>::new()).unwrap()).await
        } else {
            let (mut sender, connection) = http1::handshake(stream).await.unwrap();
            tokio::spawn(connection);
            let request = request.header(header::HOST, "SHOP.example");
            sender.send_request(request.body(Empty::<Bytes>::new()).unwrap()).await
        };
        assert_eq!(response.unwrap().status(), StatusCode::OK);
        let got = server.next_sorted();
        for expected in ["host: shop.example", "x-forwarded-proto: https", via] {
            assert!(got.iter().any(|line| line == expected), "{expected} {got:?}");
        }
    }
}

#[tokio::test]
async fn servers_over_tls_are_trusted_by_name_and_authority() {
    let mut authority = rcgen::CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority_key = rcgen::KeyPair::generate().unwrap();
    let ca = authority.self_signed(&authority_key).unwrap();
    let issuer = rcgen::Issuer::new(authority, authority_key);
    let key = rcgen::KeyPair::generate().unwrap();
    let own = rcgen::CertificateParams::new(vec!["api.example".to_owned()])
        .unwrap()
        .signed_by(&key, &issuer)
        .unwrap();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ca.pem");
    fs::write(&file, ca.pem()).unwrap();
    for (protocols, version) in [(&[&b"h2"[..], b"http/1.1"][..], "HTTP/2.0"), (&[b"http/1.1"], "HTTP/1.1")] {
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder =
            rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let mut config =
            builder.unwrap().with_no_client_auth().with_single_cert(vec![own.der().clone()], key).unwrap();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        let address = listen(Some(TlsAcceptor::from(Arc::new(config)))).await;
        for (tls, expected) in [
            (format!("{{ca: {}, server_name: api.example}}", file.display()), Ok(version)),
            (format!("{{ca: {}}}", file.display()), Err(502)),
            ("{server_name: api.example}".to_owned(), Err(502)),
        ] {
            let keys = format!("routes: [{{tls: {tls}, upstreams: 'https://{address}'}}]");
            let proxy = Proxy::new(&keys);
            let answer = tokio::task::spawn_blocking(move || proxy.get("/")).await.unwrap();
            match expected {
                Ok(version) => {
                    assert!(answer.contains(&format!("x-asked: {version} GET ")), "{tls} {answer}")
                }
                Err(expected) => {
                    assert_eq!(status(&answer), expected, "{tls} {answer}");
                    assert!(body(&answer).contains("TLS failed"), "{answer}");
                }
            }
        }
    }
}
