//! The tower layer: what reaches the service inside, and what callers get.

use std::{convert::Infallible, net::SocketAddr, num::NonZeroU64, sync::Arc};

use axum::{Router, body::Body, extract::ConnectInfo, routing::get};
use http::{Request, Response};
use http_body_util::{BodyExt as _, Empty, Full};
use hyper::body::Bytes;
use ratelimit::{
    application::{self, Descriptor, Service},
    clock::FakeClock,
    limiter::{Algorithm, LimitSpec, Limiter, Nanos, Rate, Rule},
    policy::application::AnswerHeaders,
    tower::{
        ByDescriptors, ClientAddress, DeniedBody, KeyExtractor, NoBody, OnRequestError, ProblemDetails,
        RateLimitLayer,
    },
};
use tower::{Layer as _, ServiceExt as _, service_fn};

use crate::support::{RULES, START, application};

fn limiter(clock: &FakeClock) -> Limiter<FakeClock> {
    let rate = Rate { amount: NonZeroU64::new(2).unwrap(), per: Nanos::SECOND };
    let spec = LimitSpec { burst: NonZeroU64::new(3), ..LimitSpec::new(Algorithm::TokenBucket, rate) };
    Limiter::builder().rule(Rule::new("per-user", spec)).clock(clock.clone()).build().unwrap()
}

fn user(request: &Request<Body>) -> Option<String> {
    Some(request.headers().get("x-user")?.to_str().ok()?.to_owned())
}

fn request(user: &str) -> Request<Body> {
    let builder = Request::get("/");
    let builder = if user.is_empty() { builder } else { builder.header("x-user", user) };
    builder.body(Body::empty()).unwrap()
}

fn header<'r, B>(response: &'r Response<B>, name: &str) -> Option<&'r str> {
    Some(response.headers().get(name)?.to_str().unwrap())
}

#[tokio::test]
async fn each_key_has_a_bucket_and_denied_requests_stay_outside() {
    let clock = FakeClock::new(START);
    let layer = RateLimitLayer::by_key(limiter(&clock), user);
    let app: Router = Router::new().route("/", get(|| async { "inside" })).layer(layer);
    let ask = |user: &'static str| app.clone().oneshot(request(user));
    for left in ["2", "1", "0"] {
        let response = ask("alice").await.unwrap();
        assert_eq!(
            (response.status().as_u16(), header(&response, "x-ratelimit-remaining")),
            (200, Some(left))
        );
        assert_eq!(header(&response, "cache-control"), None);
        assert_eq!(header(&response, "ratelimit-policy"), Some("\"per-user\";q=3;w=2"));
    }
    let denied = ask("alice").await.unwrap();
    assert_eq!((denied.status().as_u16(), header(&denied, "retry-after")), (429, Some("1")));
    assert_eq!(header(&denied, "ratelimit"), Some("\"per-user\";r=0;t=1"));
    assert_eq!(header(&denied, "content-type"), Some("application/problem+json"));
    let problem = axum::body::to_bytes(denied.into_body(), 1_000).await.unwrap();
    let problem: serde_json::Value = serde_json::from_slice(&problem).unwrap();
    assert_eq!((&problem["status"], &problem["violated-policies"][0]), (&429.into(), &"per-user".into()));
    assert_eq!(ask("bob").await.unwrap().status().as_u16(), 200);
    // What has no key is not limited, and says nothing of limits.
    for _ in 0..5 {
        let response = ask("").await.unwrap();
        assert_eq!((response.status().as_u16(), header(&response, "x-ratelimit-limit")), (200, None));
    }
    clock.advance(Nanos::SECOND);
    assert_eq!(ask("alice").await.unwrap().status().as_u16(), 200);
}

#[tokio::test]
async fn grpc_callers_get_a_status() {
    let clock = FakeClock::new(START);
    let layer = RateLimitLayer::by_key(limiter(&clock), |_: &Request<Body>| Some(1));
    let inside = service_fn(|_| async { Ok::<_, Infallible>(Response::new(tonic::body::Body::default())) });
    let service = layer.layer(inside);
    let ask = || {
        let request =
            Request::post("/a/b").header("content-type", "application/grpc+proto").body(Body::empty());
        service.clone().oneshot(request.unwrap())
    };
    for _ in 0..3 {
        assert_eq!(header(&ask().await.unwrap(), "grpc-status"), None);
    }
    let denied = ask().await.unwrap();
    assert_eq!((denied.status().as_u16(), header(&denied, "grpc-status")), (200, Some("8")));
    assert_eq!(
        (header(&denied, "content-type"), header(&denied, "retry-after")),
        (Some("application/grpc"), Some("1"))
    );
}

#[tokio::test]
async fn bodies_of_known_types_get_the_problem_and_others_what_is_made_for_them() {
    async fn denied<R: Default>(body: impl DeniedBody<R> + Clone) -> Response<R> {
        let limiter = limiter(&FakeClock::new(START));
        assert!(limiter.check("x", 3).allowed());
        let layer = RateLimitLayer::by_key(limiter, |_: &Request<Body>| Some("x"));
        let layer = layer.denied_body(body);
        let inside = service_fn(|_| async { Ok::<_, Infallible>(Response::new(R::default())) });
        layer.layer(inside).oneshot(request("x")).await.unwrap()
    }
    let string = denied::<String>(ProblemDetails).await;
    assert!(string.body().contains("per-user"), "{string:?}");
    let text = string.into_body();
    let full = denied::<Full<Bytes>>(ProblemDetails).await.into_body().collect().await.unwrap().to_bytes();
    let tonic =
        denied::<tonic::body::Body>(ProblemDetails).await.into_body().collect().await.unwrap().to_bytes();
    assert_eq!((full.as_ref(), tonic.as_ref()), (text.as_bytes(), text.as_bytes()));
    let own = denied(|problem: String| problem.into_bytes()).await;
    assert_eq!(
        (header(&own, "content-type"), own.body()),
        (Some("application/problem+json"), &text.into_bytes())
    );
    let empty = denied::<Empty<Bytes>>(NoBody).await;
    assert_eq!((empty.status().as_u16(), header(&empty, "content-type")), (429, None));
}

#[tokio::test]
async fn rules_by_descriptors_decide_too() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("rules.yaml"), RULES).unwrap();
    let policy = application(directory.path(), "");
    let service = Service::with_clock(&policy.service_policy(), Arc::new(FakeClock::new(START))).unwrap();
    let describe = |request: &Request<Body>| {
        let descriptors = vec![Descriptor::of([("user", user(request)?)])];
        Some(application::Request { domain: "edge".to_owned(), descriptors, hits_addend: 1 })
    };
    let headers = AnswerHeaders { ietf: false, ..AnswerHeaders::default() };
    let layer = RateLimitLayer::by_descriptors(Arc::new(service), describe).headers(headers);
    let kept = || async { ([("cache-control", "max-age=60")], "inside") };
    let app: Router = Router::new().route("/", get(kept)).layer(layer);
    let ask = || app.clone().oneshot(request("alice"));
    let first = ask().await.unwrap();
    assert_eq!((header(&first, "x-ratelimit-limit"), header(&first, "ratelimit")), (Some("2"), None));
    // What the service says itself stays.
    assert_eq!(header(&first, "cache-control"), Some("max-age=60"));
    assert_eq!(ask().await.unwrap().status().as_u16(), 200);
    let denied = ask().await.unwrap();
    assert_eq!((denied.status().as_u16(), header(&denied, "cache-control")), (429, Some("no-store")));
}

#[tokio::test]
async fn by_descriptors_judges_keys_of_any_length_and_denies_what_makes_no_sense() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("rules.yaml"), RULES).unwrap();
    let policy = application(directory.path(), "");
    let service =
        Arc::new(Service::with_clock(&policy.service_policy(), Arc::new(FakeClock::new(START))).unwrap());
    let describe = |request: &Request<Body>| {
        let descriptors = vec![Descriptor::of([("user", user(request)?)])];
        // A mistake of this program's.
        let domain = if request.headers().contains_key("x-mistake") { "" } else { "edge" };
        Some(application::Request { domain: domain.to_owned(), descriptors, hits_addend: 1 })
    };
    let denies = RateLimitLayer::by_descriptors(Arc::clone(&service), describe);
    let allows = ByDescriptors::new(service, describe).on_request_error(OnRequestError::Allow);
    let allows = RateLimitLayer::new(allows);
    let ask = async |layer: &RateLimitLayer<ByDescriptors<_>>, key: &str, is_mistake: bool| {
        let app: Router = Router::new().route("/", get(|| async { "inside" })).layer(layer.clone());
        let mut request = request(key);
        if is_mistake {
            request.headers_mut().insert("x-mistake", "yes".parse().unwrap());
        }
        app.oneshot(request).await.unwrap().status().as_u16()
    };
    for (end, expected) in [("a", 200), ("a", 200), ("a", 429), ("b", 200)] {
        assert_eq!(ask(&denies, &("k".repeat(66_000) + end), false).await, expected);
    }
    assert_eq!(ask(&denies, "x", true).await, 429);
    assert_eq!(ask(&allows, "x", true).await, 200);
}

#[tokio::test]
async fn clients_whose_address_nobody_knows_share_a_bucket() {
    let layer = RateLimitLayer::by_key(limiter(&FakeClock::new(START)), ClientAddress::default());
    let app: Router = Router::new().route("/", get(|| async { "inside" })).layer(layer);
    let mut statuses = Vec::new();
    for user in ["a", "b", "c", "d"] {
        statuses.push(app.clone().oneshot(request(user)).await.unwrap().status().as_u16());
    }
    assert_eq!(statuses, [200, 200, 200, 429]);
}

#[test]
fn clients_are_found_behind_proxies() {
    let request = |forwarded: &str| {
        let mut request = request("x");
        request.extensions_mut().insert(ConnectInfo::<SocketAddr>("10.0.0.1:80".parse().unwrap()));
        request.headers_mut().insert("x-forwarded-for", forwarded.parse().unwrap());
        request
    };
    let key = |client: ClientAddress, forwarded: &str| client.key(&request(forwarded)).unwrap();
    let direct = ClientAddress::default();
    let proxied = ClientAddress { trusted_hops: 1, ..direct };
    assert_eq!(key(direct, "6.6.6.6"), key(direct, "7.7.7.7"));
    assert_eq!(key(proxied, "6.6.6.6, 2001:db8::1"), key(proxied, "7.7.7.7, 2001:db8::2"));
    assert_ne!(key(proxied, "2001:db8::1"), key(proxied, "2001:db8:0:1::1"));
    // All whom nobody knows the address of are one.
    assert_eq!(direct.key(&self::request("x")), Some(None));
    for forwarded in ["", "unknown", "_hidden", "nonsense"] {
        assert_eq!(key(proxied, forwarded), None, "{forwarded}");
    }
}

#[test]
fn a_server_of_ones_own_says_who_is_connected() {
    let client = |peer: &str| {
        let mut request = request("x");
        request.extensions_mut().insert(peer.parse::<SocketAddr>().unwrap());
        ClientAddress::default().key(&request).unwrap()
    };
    assert_eq!(client("198.51.100.7:80"), Some("198.51.100.7".parse().unwrap()));
    assert_eq!(client("198.51.100.7:80"), client("198.51.100.7:81"));
    assert_ne!(client("198.51.100.7:80"), client("198.51.100.8:80"));
}
