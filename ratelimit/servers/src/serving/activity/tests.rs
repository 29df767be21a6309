//! When a connection's time is over, by what has come.

use std::{
    future::poll_fn,
    io,
    pin::Pin,
    task::{Context, Waker},
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWrite as _},
    net::UnixStream,
};

use super::{super::budget::Budget, *};

/// The times of servers that are for the world.
const TIMES: ConnectionTimeouts = ConnectionTimeouts {
    headers: Duration::from_secs(10),
    request: None,
    idle: Duration::from_secs(75),
    answer: Some(Duration::from_secs(75)),
    silence: Some(Duration::from_secs(75)),
    lifetime: None,
};

/// The time that a connection still has which began so long ago.
pub fn rest(activity: &Activity) -> Duration {
    activity.end().saturating_duration_since(Instant::now())
}

/// Lets something come.
pub fn hear(activity: &Activity) {
    activity.read(b"a ping");
}

fn is_about(rest: Duration, expected: Duration) -> bool {
    (expected.saturating_sub(Duration::from_secs(5))..=expected).contains(&rest)
}

/// One that began a while ago.
pub fn activity() -> Arc<Activity> {
    let start = Instant::now().checked_sub(TIMES.idle).unwrap();
    Arc::new(Activity { start, ..Arc::into_inner(Activity::new(&TIMES)).unwrap() })
}

#[test]
fn anything_that_comes_or_goes_gives_time() {
    let activity = activity();
    assert_eq!(rest(&activity), Duration::ZERO);
    activity.read(b"\r\n");
    assert_eq!(rest(&activity), Duration::ZERO);
    activity.read(PREFACE);
    assert!(is_about(rest(&activity), TIMES.idle));
    let activity = self::activity();
    activity.written();
    assert!(is_about(rest(&activity), TIMES.idle));
}

#[test]
fn headers_have_less_time_than_bodies_and_rests() {
    let activity = activity();
    for bytes in [&b"G"[..], b"ET / HTTP/1.1\r\n"] {
        activity.read(bytes);
        assert!(is_about(rest(&activity), TIMES.headers));
    }
    let answering = activity.answer();
    assert!(is_about(rest(&activity), TIMES.idle));
    activity.read(b"a body");
    assert!(is_about(rest(&activity), TIMES.idle));
    drop(answering);
    activity.read(b"\r\n");
    assert!(is_about(rest(&activity), TIMES.idle));
    activity.read(b"G");
    assert!(is_about(rest(&activity), TIMES.headers));
}

#[test]
fn http2_is_told_by_its_first_bytes() {
    let activity = activity();
    for part in [&b"P"[..], b"RI * HTTP/2.0\r\n\r\n"] {
        activity.read(part);
        assert!(is_about(rest(&activity), TIMES.headers));
    }
    activity.read(b"SM\r\n\r\n\0\0");
    assert!(is_about(rest(&activity), TIMES.idle));
    let activity = self::activity();
    activity.read(b"PRI");
    activity.read(b"VATE / HTTP/1.1\r\n");
    assert!(is_about(rest(&activity), TIMES.headers));
}

#[test]
fn answers_have_to_be_taken_whatever_else_comes() {
    let activity = activity();
    let mut answering = activity.answer();
    hear(&activity);
    assert_eq!(rest(&activity), Duration::ZERO);
    answering.rests();
    assert!(is_about(rest(&activity), TIMES.idle));
    answering.goes_on();
    assert!(is_about(rest(&activity), TIMES.idle));
    drop(answering);
    assert!(is_about(rest(&activity), TIMES.idle));
}

#[tokio::test]
async fn what_a_client_has_not_taken_is_awaited() {
    let activity = activity();
    let (stream, mut client) = UnixStream::pair().unwrap();
    let mut noted = Noted::new(stream, Arc::clone(&activity));
    let (mut written, mut context) = (0, Context::from_waker(Waker::noop()));
    while let Poll::Ready(more) = Pin::new(&mut noted).poll_write(&mut context, &[0; 65_536]) {
        written += more.unwrap();
        assert!(!activity.is_awaited());
    }
    assert!(activity.is_awaited());
    client.read_exact(&mut vec![0; written]).await.unwrap();
    poll_fn(|context| Pin::new(&mut noted).poll_write(context, &[0])).await.unwrap();
    assert!(!activity.is_awaited());
    let _answering = activity.answer();
    assert!(activity.is_awaited() && !activity.waits_for_client());
    while Pin::new(&mut noted).poll_write(&mut context, &[0; 65_536]).is_ready() {}
    assert!(activity.waits_for_client(), "it does not take its answer");
}

#[tokio::test]
async fn who_waits_hears_of_the_end_and_not_before() {
    let activity = activity();
    assert_eq!(within(&activity, std::future::pending::<()>()).await, None);
    // The timer is set for a moment that is over; what comes in between counts.
    let mut polls = 0;
    let answered = poll_fn(|context| {
        polls += 1;
        activity.read(b"G");
        context.waker().wake_by_ref();
        if polls == 3 { Poll::Ready(polls) } else { Poll::Pending }
    });
    assert_eq!(within(&activity, answered).await, Some(3));
}

#[test]
fn an_answer_may_take_any_time_where_none_is_set() {
    let times = ConnectionTimeouts { answer: None, silence: None, lifetime: Some(TIMES.idle * 3), ..TIMES };
    let activity = Arc::into_inner(Activity::new(&times)).unwrap();
    let start = Instant::now().checked_sub(TIMES.idle).unwrap();
    let activity = Arc::new(Activity { start, ..activity });
    assert_eq!(rest(&activity), Duration::ZERO);
    let mut answering = activity.answer();
    assert!(is_about(rest(&activity), TIMES.idle * 2), "for as long as the connection may live");
    answering.rests();
    assert!(is_about(rest(&activity), TIMES.idle * 2), "a stream may be silent");
    drop(answering);
    assert_eq!(rest(&activity), Duration::ZERO);
}

/// A stream on which these bytes come.
async fn coming(activity: &Arc<Activity>, bytes: &[u8]) -> io::Result<()> {
    let mut noted = Noted::new(bytes, Arc::clone(activity));
    noted.read_to_end(&mut Vec::new()).await.map(drop)
}

#[tokio::test]
async fn headers_over_http2_have_as_little_time_whatever_else_is_answered() {
    let activity = activity();
    let part = [PREFACE, b"\0\0\x10\x01\x05\0\0\0\x01\x82"].concat();
    coming(&activity, &part).await.unwrap();
    assert!(is_about(rest(&activity), TIMES.headers));
    let _answering = activity.answer();
    assert!(is_about(rest(&activity), TIMES.headers));
    let activity = self::activity();
    coming(&activity, &[&part, &[0x82; 15][..]].concat()).await.unwrap();
    assert!(is_about(rest(&activity), TIMES.idle));
}

#[tokio::test]
async fn who_sends_and_takes_nothing_has_the_time_of_an_answer() {
    let activity = activity();
    activity.read(PREFACE);
    activity.blocked.store(1, Relaxed);
    hear(&activity);
    assert_eq!(rest(&activity), Duration::ZERO, "it has taken nothing since the start");
    let (stream, _client) = UnixStream::pair().unwrap();
    let mut noted = Noted::new(stream, Arc::clone(&activity));
    poll_fn(|context| Pin::new(&mut noted).poll_write(context, &[0])).await.unwrap();
    assert!(is_about(rest(&activity), TIMES.idle));
}

#[tokio::test]
async fn a_connection_that_is_to_end_hears_it() {
    let activity = activity();
    activity.answer().end_connection();
    activity.is_to_end().await;
}

#[test]
fn what_a_request_holds_over_http2_is_held_until_its_stream_is_over() {
    let budget = Budget::new(100);
    let answer = |activity: &Arc<Activity>| {
        let (share, mut answering) = (budget.share(&budget.holder(None), true), activity.answer());
        let held = Arc::downgrade(&share);
        answering.holds(share);
        (answering, move || held.strong_count() > 0)
    };
    let activity = activity();
    let (http1, is_held) = answer(&activity);
    drop(http1);
    assert!(!is_held());
    activity.read(PREFACE);
    activity.are_open(3);
    let [(first, first_is_held), (second, second_is_held), (third, third_is_held)] =
        [(); 3].map(|()| answer(&activity));
    drop(first);
    assert!(first_is_held());
    // Nobody knows which of them is over: one that came just now may have been refused.
    activity.are_open(4);
    activity.are_open(3);
    assert!(first_is_held());
    activity.are_open(2);
    assert!(!first_is_held());
    // One is over before who answers has let go of it.
    activity.are_open(1);
    drop(second);
    assert!(!second_is_held() && third_is_held());
    drop(third);
    assert!(third_is_held());
    // As when the connection is gone.
    activity.are_open(0);
    assert!(!third_is_held());
}
