//! The retrying client against the servers, whose clock moves when it sleeps.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    pin::pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
    time::Duration,
};

use http::{Request, Response};
use ratelimit_limiter::{
    Nanos,
    retry::{RetryLayer, RetrySettings},
};
use tower::{Layer as _, Service};

use crate::support::{Fixture, question};

/// A client of `/v1/check`.
#[derive(Clone)]
struct Client(Arc<Fixture>);

impl Service<Request<String>> for Client {
    type Response = Response<String>;
    type Error = Infallible;
    type Future = Ready<Result<Response<String>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<String>) -> Self::Future {
        let answer = self.0.post(request.uri().path(), request.body());
        let mut response = Response::builder().status(answer.status);
        if let Some(seconds) = answer.header("retry-after") {
            response = response.header("retry-after", seconds);
        }
        ready(Ok(response.body(answer.body).unwrap()))
    }
}

#[test]
fn a_client_that_waits_as_long_as_it_is_told_gets_through() {
    let rules = "domain: edge\ndescriptors:\n- {key: user, rate_limit: {algorithm: token_bucket, unit: minute, \
                 requests_per_unit: 6, burst: 1}}\n";
    let fixture = Arc::new(Fixture::with_rules(rules, ""));
    let (clock, waits) = (fixture.clock.clone(), Arc::<Mutex<Vec<Duration>>>::default());
    let noted = Arc::clone(&waits);
    let sleep = move |wait: Duration| {
        noted.lock().unwrap().push(wait);
        clock.advance(Nanos(u64::try_from(wait.as_nanos()).unwrap()));
        ready(())
    };
    let settings = RetrySettings { repeats_all: true, ..RetrySettings::default() };
    let mut client = RetryLayer::new(settings, sleep).layer(Client(Arc::clone(&fixture)));
    for _ in 0..4 {
        let request = Request::post("/v1/check").body(question("user", "a")).unwrap();
        let answer = pin!(client.call(request)).poll(&mut Context::from_waker(Waker::noop()));
        let Poll::Ready(Ok(answer)) = answer else { panic!("{answer:?}") };
        assert_eq!(answer.status(), 200, "{}", answer.body());
    }
    let waits = waits.lock().unwrap();
    // One wait for each request but the first, of ten seconds and some more.
    assert!(
        waits.len() == 3 && waits.iter().all(|wait| (10.0..=12.5).contains(&wait.as_secs_f64())),
        "{waits:?}"
    );
}
