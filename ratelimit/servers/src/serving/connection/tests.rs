//! Clients over HTTP/2 that want more than they may have. Time passes when nobody has anything to do.

use std::time::Duration;

use http_body_util::{BodyExt as _, Empty};
use hyper::{body::Bytes, client::conn::http2};
use tokio::{
    io::{AsyncWriteExt as _, DuplexStream, duplex},
    task::JoinHandle,
    time::{Instant, sleep},
};

use super::{super::bounds::ConnectionTimeouts, *};

const TIME: Duration = Duration::from_secs(75);
const BOUNDS: Bounds = Bounds {
    versions: Versions::Http2,
    headers: 64 << 10,
    streams: 2_000,
    send_buffer: 1,
    times: ConnectionTimeouts {
        headers: TIME,
        request: None,
        idle: TIME,
        answer: Some(TIME),
        silence: Some(TIME),
        lifetime: None,
    },
};
/// What each request holds here: its path has one byte, and there are no headers.
const HELD: usize = REQUEST + 1;

/// Answers with so many bytes, or never.
#[derive(Clone, Copy)]
struct Answers(Option<usize>);

impl Handler for Answers {
    async fn answer(&self, _: PeerAddress, _: Request<Metered>) -> Result<Response<Body>, Infallible> {
        match self.0 {
            Some(bytes) => Ok(Response::new(Body::from(vec![0; bytes]))),
            None => pending().await,
        }
    }

    fn no_room(&self, _: &str) -> Response<Body> {
        let mut response = Response::new(Body::from("no room"));
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        response
    }

    fn too_late(&self) -> Response<Body> {
        unreachable!("requests have all the time")
    }
}

/// A budget of which a client gets so much: half of what is not in reserve.
fn budget(bytes: usize) -> Arc<Budget> {
    Budget::new(16 * bytes / 7)
}

/// Serves a client.
fn serving(
    server: DuplexStream,
    handler: Answers,
    budget: &Arc<Budget>,
    activity: &Arc<Activity>,
) -> JoinHandle<()> {
    let (sender, phase) = watch::channel(Phase::Serving);
    let exchange = Bounded { handler, budget: Arc::clone(budget), time: None };
    let endpoint = Endpoint { exchange, bounds: BOUNDS, phase };
    let (client, activity) = (Client::new(PeerAddress(None), false), Arc::clone(activity));
    tokio::spawn(async move {
        serve(Box::new(server), client, activity, endpoint).await;
        drop(sender);
    })
}

/// A client and its connection.
struct Lab {
    client: http2::SendRequest<Empty<Bytes>>,
    serving: JoinHandle<()>,
    /// Others know it longer than the connection lives.
    activity: Arc<Activity>,
    answers: Vec<Response<Incoming>>,
}

impl Lab {
    /// That lets so many bytes of each answer through, until it takes them.
    async fn new(window: u32, handler: Answers, budget: &Arc<Budget>) -> Self {
        let (client, server) = duplex(1 << 20);
        let activity = Activity::new(&BOUNDS.times);
        let serving = serving(server, handler, budget, &activity);
        let mut builder = http2::Builder::new(TokioExecutor::new());
        let (client, connection) =
            builder.initial_stream_window_size(window).handshake(TokioIo::new(client)).await.unwrap();
        tokio::spawn(connection);
        Self { client, serving, activity, answers: Vec::new() }
    }

    /// Asks so often, one after the other; how many are answered, and how many refused.
    async fn ask(&mut self, count: usize) -> (usize, usize) {
        let mut asking = Vec::new();
        for _ in 0..count {
            asking.push(self.send());
            sleep(Duration::from_millis(1)).await;
        }
        self.answered(asking).await
    }

    /// The same at once.
    async fn ask_at_once(&mut self, count: usize) -> (usize, usize) {
        let asking = (0..count).map(|_| self.send()).collect();
        sleep(Duration::from_millis(1)).await;
        self.answered(asking).await
    }

    fn send(&self) -> JoinHandle<hyper::Result<Response<Incoming>>> {
        let mut client = self.client.clone();
        let request = Request::get("http://test/").body(Empty::new()).unwrap();
        tokio::spawn(async move { client.send_request(request).await })
    }

    async fn answered(
        &mut self,
        asking: Vec<JoinHandle<hyper::Result<Response<Incoming>>>>,
    ) -> (usize, usize) {
        let (mut answered, mut refused) = (0, 0);
        for asked in asking.into_iter().filter(JoinHandle::is_finished) {
            let Ok(answer) = asked.await.unwrap() else { continue };
            let count = if answer.status() == StatusCode::OK { &mut answered } else { &mut refused };
            *count += 1;
            self.answers.push(answer);
        }
        (answered, refused)
    }

    /// Takes all that has been answered.
    async fn take(&mut self) {
        for answer in self.answers.drain(..) {
            answer.into_body().collect().await.unwrap();
        }
    }

    fn is_kept(&self) -> bool {
        !self.serving.is_finished()
    }
}

#[tokio::test(start_paused = true)]
async fn requests_that_wait_hold_what_there_is_for_a_client_and_no_more() {
    for most in [11, 50] {
        let mut lab = Lab::new(0, Answers(None), &budget(most * HELD)).await;
        assert_eq!(lab.ask(most + 2).await, (0, 2), "{most}");
        assert!(lab.is_kept(), "{most}");
    }
}

#[tokio::test(start_paused = true)]
async fn answers_that_nobody_takes_hold_what_there_is_for_a_client_and_no_more() {
    for (most, bytes) in [(11, 1), (11, 1_000), (7, 10_000), (10, 100_000)] {
        let mut lab = Lab::new(0, Answers(Some(bytes)), &budget(most * (HELD + bytes))).await;
        for _ in 0..2 {
            assert_eq!(lab.ask(most + 2).await, (most, 2), "{most} {bytes}");
            // Whoever gives up leaves room.
            lab.answers.clear();
        }
    }
}

/// Who answers lets go of an answer with its last piece.
#[tokio::test(start_paused = true)]
async fn answers_whose_last_bytes_nobody_takes_hold_what_there_is_for_a_client_and_no_more() {
    for most in [11, 50] {
        // Each has its bytes until it has handed them out.
        let budget = budget(most * HELD + 2);
        let mut lab = Lab::new(1, Answers(Some(2)), &budget).await;
        for _ in 0..2 {
            assert_eq!(lab.ask(most + 2).await, (most, 2), "{most}");
            lab.take().await;
        }
        // So does a connection that ends with answers that were not taken.
        assert_eq!(lab.ask(most + 2).await, (most, 2), "{most}");
        let Lab { activity, serving, .. } = lab;
        serving.abort();
        assert_eq!(Lab::new(1, Answers(Some(2)), &budget).await.ask(most + 2).await, (most, 2), "{most}");
        drop(activity);
    }
    // The last piece of a long one is kept back.
    let mut lab = Lab::new(1, Answers(Some(10_000)), &budget(7 * (HELD + 10_000))).await;
    assert_eq!(lab.ask(9).await, (7, 2));
}

/// None of them waits for one that was there before.
#[tokio::test(start_paused = true)]
async fn untaken_answers_to_requests_that_come_at_once_on_several_connections_hold_no_more() {
    let budget = budget(50 * HELD + 2);
    let (mut labs, mut answers) = (Vec::new(), (0, 0));
    for _ in 0..3 {
        let mut lab = Lab::new(1, Answers(Some(2)), &budget).await;
        let (answered, refused) = lab.ask_at_once(18).await;
        answers = (answers.0 + answered, answers.1 + refused);
        labs.push(lab);
    }
    assert_eq!(answers, (50, 4));
}

/// The answer that there is no room is one, too.
#[tokio::test(start_paused = true)]
async fn who_does_not_even_take_that_there_is_no_room_is_not_served_any_more() {
    for window in [0, 1] {
        let mut lab = Lab::new(window, Answers(Some(1 << 20)), &budget(20 * HELD)).await;
        let (answered, refused) = lab.ask(1_000).await;
        assert!(answered == 0 && refused < 50, "{answered} {refused}");
        assert!(!lab.is_kept(), "{window}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_asks_much_at_once_and_takes_what_it_is_answered_stays_connected() {
    let mut lab = Lab::new(1, Answers(Some(1 << 20)), &budget(20 * HELD)).await;
    let (mut asking, mut refused) = ((0..60).map(|_| lab.send()).collect::<Vec<_>>(), Vec::new());
    while !asking.is_empty() && lab.is_kept() {
        sleep(REFUSAL_WAIT * 2).await;
        let (done, rest) = asking.into_iter().partition(JoinHandle::is_finished);
        refused.push(lab.answered(done).await.1);
        lab.take().await;
        asking = rest;
    }
    assert!(refused[0] < 50 && refused.iter().sum::<usize>() == 60, "{refused:?}");
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).unwrap();
    [&[0, 0, length, kind, flags], &stream.to_be_bytes()[..], payload].concat()
}

/// The beginning of a connection, and requests.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// `GET /` of a client over HTTP/2.
fn ask(stream: u32) -> Vec<u8> {
    frame(1, 5, stream, b"\x82\x86\x84\x01\x04test")
}

fn streams() -> impl Iterator<Item = u32> {
    (1..).step_by(2)
}

#[tokio::test(start_paused = true)]
async fn who_takes_back_more_requests_than_anybody_has_seen_is_cut_off() {
    for (count, is_kept) in [(TAKEN_BACK, true), (TAKEN_BACK + 1, false)] {
        let (mut client, server) = duplex(1 << 20);
        let taken_back =
            streams().take(count).flat_map(|stream| [ask(stream), frame(3, 0, stream, &[0, 0, 0, 8])]);
        let all = [PREFACE.to_vec()].into_iter().chain(taken_back).collect::<Vec<_>>().concat();
        // All of it is there when the first is read.
        client.write_all(&all).await.unwrap();
        let serving = serving(server, Answers(Some(1)), &budget(1 << 20), &Activity::new(&BOUNDS.times));
        sleep(Duration::from_secs(1)).await;
        assert_eq!(!serving.is_finished(), is_kept, "{count}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_asks_again_and_again_and_takes_nothing_is_not_served_any_more() {
    let (mut client, server) = duplex(64);
    let (begun, serving) =
        (Instant::now(), serving(server, Answers(Some(1)), &budget(1 << 20), &Activity::new(&BOUNDS.times)));
    client.write_all(PREFACE).await.unwrap();
    for stream in streams().take_while(|_| begun.elapsed() < 2 * TIME) {
        // It fails at the end.
        let _ = client.write_all(&ask(stream)).await;
        sleep(Duration::from_secs(1)).await;
        if serving.is_finished() {
            break;
        }
    }
    let lived = begun.elapsed();
    assert!((TIME..TIME + Duration::from_secs(10)).contains(&lived), "{lived:?}");
}
