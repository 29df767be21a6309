//! The tower layer over a store: its verdict comes later, and holds nobody's thread until then.

use std::{
    convert::Infallible,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::{Context, Poll, Waker},
};

use axum::body::Body;
use http::{Request, Response};
use ratelimit::{
    application::{self, Descriptor, Service, ServicePolicy},
    config,
    policy::application::RedisSettings,
    tower::RateLimitLayer,
};
use ratelimit_redis::RedisStore;
use ratelimit_redis_testing::{Engine, Server, until};
use tokio::runtime::Handle;
use tower::{Layer, Service as TowerService, ServiceExt as _};

const RULES: &str = "
domain: d
on_store_error: deny
descriptors:
  - key: user
    rate_limit: {name: per-user, unit: week, requests_per_unit: 3}
";

fn policy() -> ServicePolicy {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("rules.yaml");
    std::fs::write(&path, RULES).unwrap();
    ServicePolicy::of_rules(config::check_rules(&[path], false).unwrap().rules)
}

fn service(server: &Server) -> Arc<Service> {
    let settings = RedisSettings::new(server.url().parse().unwrap());
    let settings = RedisSettings { timeout: std::time::Duration::from_secs(2).into(), ..settings };
    let store = RedisStore::connect(&settings, &Handle::current());
    Arc::new(Service::new(&policy()).unwrap().sharing(store))
}

fn describe(request: &Request<Body>) -> Option<application::Request> {
    let user = request.headers().get("x-user")?.to_str().ok()?;
    let descriptors = vec![Descriptor::of([("user", user)])];
    Some(application::Request { domain: "d".to_owned(), descriptors, hits_addend: 1 })
}

fn request(user: &str) -> Request<Body> {
    Request::get("/").header("x-user", user).body(Body::empty()).unwrap()
}

/// What is inside: it counts the requests that reach it, each at a copy that was ready.
#[derive(Debug, Default)]
struct Inside {
    reached: Arc<AtomicUsize>,
    is_ready: bool,
}

impl Clone for Inside {
    /// As of most services, a copy is to be asked whether it is ready.
    fn clone(&self) -> Self {
        Self { reached: Arc::clone(&self.reached), is_ready: false }
    }
}

impl TowerService<Request<Body>> for Inside {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.is_ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Body>) -> Self::Future {
        assert!(std::mem::take(&mut self.is_ready), "the one that was ready is called");
        self.reached.fetch_add(1, SeqCst);
        std::future::ready(Ok(Response::new(Body::from("inside"))))
    }
}

/// Waits until the store answers.
async fn until_answered(service: &Service) {
    let asked = application::Request {
        domain: "d".to_owned(),
        descriptors: vec![Descriptor::of([("user", "nobody")])],
        hits_addend: 1,
    };
    while !service.decide_async(&asked).await.unwrap().allowed() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_layer_waits_for_the_store_and_blocks_nobody() {
    let server = Server::start(Engine::Redis);
    let service = service(&server);
    until_answered(&service).await;
    let inside = Inside::default();
    let mut layered = RateLimitLayer::by_descriptors(Arc::clone(&service), describe).layer(inside.clone());
    for left in ["2", "1", "0"] {
        let answer = layered.ready().await.unwrap().call(request("alice")).await.unwrap();
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["x-ratelimit-remaining"], left);
        assert_eq!(axum::body::to_bytes(answer.into_body(), 100).await.unwrap(), "inside");
    }
    let denied = layered.ready().await.unwrap().call(request("alice")).await.unwrap();
    assert_eq!((denied.status().as_u16(), &denied.headers()["content-type"]), (429, &problem_type()));
    assert_eq!(inside.reached.load(SeqCst), 3);

    // While the store stands still the future is pending, and nothing has reached what is inside.
    server.pause();
    let mut waiting = pin!(layered.ready().await.unwrap().call(request("bob")));
    let mut context = Context::from_waker(Waker::noop());
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    assert_eq!(inside.reached.load(SeqCst), 3);
    server.resume();
    assert_eq!(waiting.await.unwrap().status(), 200);
    assert_eq!(inside.reached.load(SeqCst), 4);

    // Who goes away before the verdict leaves nothing behind.
    server.pause();
    let mut given_up = Box::pin(layered.ready().await.unwrap().call(request("carol")));
    assert!(given_up.as_mut().poll(&mut context).is_pending());
    drop(given_up);
    server.resume();
    assert_eq!(layered.ready().await.unwrap().call(request("dave")).await.unwrap().status(), 200);
    assert_eq!(inside.reached.load(SeqCst), 5);
}

fn problem_type() -> http::HeaderValue {
    http::HeaderValue::from_static("application/problem+json")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_layer_does_what_the_domain_says_while_there_is_no_store() {
    let mut server = Server::start(Engine::Valkey);
    let service = service(&server);
    until_answered(&service).await;
    let inside = Inside::default();
    let mut layered = RateLimitLayer::by_descriptors(Arc::clone(&service), describe).layer(inside.clone());
    server.kill();
    let denied = layered.ready().await.unwrap().call(request("alice")).await.unwrap();
    assert_eq!((denied.status().as_u16(), inside.reached.load(SeqCst)), (429, 0));
    assert!(!denied.headers().contains_key("x-ratelimit-remaining"), "no number is made up");
    server.start_again();
    until_answered(&service).await;
    assert_eq!(layered.ready().await.unwrap().call(request("alice")).await.unwrap().status(), 200);
    until("the count", || inside.reached.load(SeqCst) == 1);
}
