//! What is sent how often, and when, with a clock that sleeping moves.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    pin::pin,
    sync::{Arc, Mutex},
    task::Waker,
};

use super::*;

/// The status of an answer, and its `Retry-After`.
type Given = (u16, Option<&'static str>);

/// A server that gives these answers, the last one again and again, and what it was asked.
#[derive(Clone)]
struct Server {
    answers: Arc<Mutex<Vec<Given>>>,
    asked: Arc<Mutex<u32>>,
}

impl Service<Request<&'static str>> for Server {
    type Response = Response<()>;
    type Error = Infallible;
    type Future = Ready<Result<Response<()>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<&'static str>) -> Self::Future {
        assert_eq!(*request.body(), "body");
        *self.asked.lock().unwrap() += 1;
        let mut answers = self.answers.lock().unwrap();
        let (status, retry_after) = if answers.len() > 1 { answers.remove(0) } else { answers[0] };
        let mut response = Response::builder().status(status);
        if let Some(retry_after) = retry_after {
            response = response.header(RETRY_AFTER, retry_after);
        }
        ready(Ok(response.body(()).unwrap()))
    }
}

/// Sends a request: the status of its answer, how often it was sent, and how long it waited each time.
fn sent(
    answers: &[Given],
    settings: RetrySettings,
    request: Request<&'static str>,
) -> (u16, u32, Vec<Duration>) {
    let server = Server { answers: Arc::new(Mutex::new(answers.to_vec())), asked: Arc::default() };
    let waits = Arc::<Mutex<Vec<Duration>>>::default();
    let slept = Arc::clone(&waits);
    let sleep = move |wait| {
        slept.lock().unwrap().push(wait);
        ready(())
    };
    let mut client = RetryLayer::new(settings, sleep).layer(server.clone());
    let answer = match pin!(client.call(request)).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Ok(answer)) => answer,
        Poll::Pending => panic!("nothing here waits"),
    };
    let waits = waits.lock().unwrap().clone();
    (answer.status().as_u16(), *server.asked.lock().unwrap(), waits)
}

fn request(method: &str) -> Request<&'static str> {
    Request::builder().method(method).body("body").unwrap()
}

const DENIED: Given = (429, Some("2"));
const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_denied_request_is_sent_again_when_the_server_says_so() {
    let (status, asked, waits) =
        sent(&[DENIED, DENIED, (200, None)], RetrySettings::default(), request("GET"));
    assert_eq!((status, asked), (200, 3));
    assert!(waits.iter().all(|wait| (SECOND * 2..=SECOND * 5 / 2).contains(wait)), "{waits:?}");
    assert_eq!(sent(&[(503, Some("1")), (200, None)], RetrySettings::default(), request("GET")).0, 200);
}

#[test]
fn attempts_are_bounded() {
    for attempts in [0, 1, 2, 5] {
        let settings = RetrySettings { attempts, ..RetrySettings::default() };
        let (status, asked, _) = sent(&[DENIED], settings, request("GET"));
        assert_eq!((status, asked), (429, attempts.max(1)));
    }
}

#[test]
fn what_may_not_be_repeated_is_sent_once_unless_told_to() {
    for (method, times) in
        [("GET", 3), ("HEAD", 3), ("PUT", 3), ("DELETE", 3), ("POST", 1), ("PATCH", 1), ("X", 1)]
    {
        assert_eq!(sent(&[DENIED], RetrySettings::default(), request(method)).1, times, "{method}");
        let all = RetrySettings { repeats_all: true, ..RetrySettings::default() };
        assert_eq!(sent(&[DENIED], all, request(method)).1, 3, "{method}");
    }
}

#[test]
fn other_answers_are_passed_on() {
    for answer in [(200, Some("1")), (403, Some("1")), (500, Some("1")), (503, None), (503, Some("soon"))] {
        assert_eq!(sent(&[answer], RetrySettings::default(), request("GET")).1, 1, "{answer:?}");
    }
}

#[test]
fn nobody_waits_longer_than_told() {
    let (status, asked, waits) = sent(&[(429, Some("3600"))], RetrySettings::default(), request("GET"));
    assert_eq!((status, asked, waits.len()), (429, 1, 0));
    let settings = RetrySettings { attempts: 100, longest_wait: SECOND * 5, ..RetrySettings::default() };
    let (_, asked, waits) = sent(&[DENIED], settings, request("GET"));
    assert!(asked <= 3 && waits.iter().sum::<Duration>() <= SECOND * 5, "{waits:?}");
    let deadline = |left| {
        let mut request = request("GET");
        request.extensions_mut().insert(Deadline(Instant::now() + left));
        sent(&[DENIED], RetrySettings::default(), request).1
    };
    assert_eq!((deadline(SECOND), deadline(SECOND * 3600)), (1, 3));
}

#[test]
fn where_no_time_is_named_waits_double() {
    let settings = RetrySettings { attempts: 5, first_wait: SECOND, ..RetrySettings::default() };
    let (_, asked, waits) = sent(&[(429, None)], settings, request("GET"));
    assert_eq!(asked, 5);
    for (wait, most) in waits.iter().zip([1, 2, 4, 8]) {
        assert!((SECOND * most / 2..=SECOND * most).contains(wait), "{waits:?}");
    }
}
