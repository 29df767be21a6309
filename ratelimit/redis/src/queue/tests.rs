//! Requests on their way, through a transport that waits for the test.

mod gate;

use std::{sync::atomic::Ordering::SeqCst, time::Duration};

use ratelimit_common::{
    limit::{Algorithm, LimitSpec, Rate, StateStorage},
    time::Nanos,
};
use ratelimit_limiter::store::remote::{Act, Over, Say};

use self::gate::Gate;
use super::*;
use crate::call::request::{Doing, ShardBucket, ShardPart};

fn request(keys: impl IntoIterator<Item = usize>) -> ShardRequest {
    request_of(Algorithm::TokenBucket, keys)
}

fn request_of(algorithm: Algorithm, keys: impl IntoIterator<Item = usize>) -> ShardRequest {
    let rate = Rate { amount: 10.try_into().unwrap(), per: Nanos::SECOND };
    let limit = LimitSpec::new(algorithm, rate).build(StateStorage::UserSpace).unwrap();
    let keys: Vec<usize> = keys.into_iter().collect();
    let bucket =
        |(reader, key): (usize, &usize)| ShardBucket { shard: 0, key: key.to_string().into_bytes(), reader };
    let part = |bucket| ShardPart {
        bucket,
        limit,
        cost: 1,
        act: Doing::Act(Act::ChargeIfAdmitted),
        say: Say::Decides,
        over: Over::Denied,
        soft: None,
    };
    ShardRequest {
        buckets: keys.iter().enumerate().map(bucket).collect(),
        parts: (0..keys.len()).map(part).collect(),
        passes_all: false,
        has_open_quota: false,
    }
}

fn later() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

fn queue(gate: &Arc<Gate>) -> Arc<Queue<Gate>> {
    Queue::new(0, 2, Arc::clone(gate), Handle::current())
}

/// Lets what is spawned run until it waits.
async fn settle() {
    for _ in 0..20 {
        yield_now().await;
    }
}

#[tokio::test]
async fn a_queue_asks_what_time_it_is_before_its_first_request_and_not_again() {
    let gate = Gate::new(b'A');
    let queue = queue(&gate);
    gate.open.add_permits(10);
    for key in [3, 4, 5] {
        queue.ask(request([key, 9]), later(), None).await.unwrap().unwrap();
    }
    assert_eq!(*gate.asked_time.lock().unwrap(), [[b"3"]], "of the server that has the first key");
}

#[tokio::test]
async fn one_slow_reply_does_not_make_later_requests_void() {
    let gate = Gate::new(b'A');
    let queue = queue(&gate);
    gate.open.add_permits(10);
    // As if the second reply took a second on its way.
    for now in [10_000_000, 9_000_000] {
        gate.now.store(now, SeqCst);
        queue.ask(request([0]), later(), None).await.unwrap().unwrap();
    }
    assert!(queue.clock.at(Instant::now()) > Micros(9_900_000));
}

#[tokio::test]
async fn requests_go_in_order_in_few_calls_of_bounded_size() {
    let gate = Gate::new(b'A');
    let queue = queue(&gate);
    let mut answers = vec![queue.ask(request([0]), later(), None)];
    settle().await;
    answers.extend((1..=1_000).map(|key| queue.ask(request([key]), later(), None)));
    settle().await;
    assert_eq!(gate.calls.lock().unwrap().len(), 2, "two are on their way");
    gate.open.add_permits(1_000);
    for answer in answers {
        assert!(answer.await.unwrap().is_ok());
    }
    let calls = gate.calls.lock().unwrap();
    assert!(calls.iter().all(|(keys, requests)| *requests <= 64 && keys.len() == *requests));
    let keys: Vec<Vec<u8>> = calls.iter().flat_map(|(keys, _)| keys.clone()).collect();
    let expected: Vec<Vec<u8>> = (0..=1_000).map(|key| key.to_string().into_bytes()).collect();
    assert_eq!(keys, expected);
    // Sixteen full ones and what came first; at the end two share what is left.
    assert!(calls.len() <= 19 && gate.most_on_way.load(SeqCst) == 2, "{}", calls.len());
}

/// Fifty clients, each of which asks again when it is answered: their requests meet, half of them in each call.
#[tokio::test]
async fn those_that_are_answered_together_go_together_again() {
    let gate = Gate::new(b'A');
    let queue = queue(&gate);
    let clients: Vec<_> = (0..50)
        .map(|key| {
            let queue = Arc::clone(&queue);
            tokio::spawn(async move {
                for _ in 0..40 {
                    assert!(queue.ask(request([key]), later(), None).await.unwrap().is_ok());
                }
            })
        })
        .collect();
    for _ in 0..1_000 {
        settle().await;
        gate.open.add_permits(1);
        if clients.iter().all(tokio::task::JoinHandle::is_finished) {
            break;
        }
    }
    assert!(clients.iter().all(tokio::task::JoinHandle::is_finished));
    let calls: Vec<usize> = gate.calls.lock().unwrap().iter().map(|(_, requests)| *requests).collect();
    assert_eq!(calls.iter().sum::<usize>(), 50 * 40);
    assert!(calls.len() <= 2 * 40 + 10, "{} calls: {calls:?}", calls.len());
    assert!(calls[5..60].iter().all(|requests| (16..=34).contains(requests)), "{calls:?}");
}

#[tokio::test]
async fn a_call_that_is_full_goes_out_before_answers_are_handed_out() {
    for (waiting, calls) in [(MOST_REQUESTS, 2), (MOST_UNSHARED - 1, 1)] {
        let gate = Gate::new(b'A');
        let queue = Queue::new(0, 1, Arc::clone(&gate), Handle::current());
        let first = queue.ask(request([0]), later(), None);
        settle().await;
        let others: Vec<_> = (1..=waiting).map(|key| queue.ask(request([key]), later(), None)).collect();
        gate.open.add_permits(1);
        first.await.unwrap().unwrap();
        assert_eq!(gate.calls.lock().unwrap().len(), calls, "{waiting} wait");
        gate.open.add_permits(1);
        for answer in others {
            answer.await.unwrap().unwrap();
        }
    }
}

#[tokio::test]
async fn a_key_that_has_something_else_is_named() {
    let gate = Gate::new(b'F');
    gate.open.add_permits(1);
    let queue = queue(&gate);
    // Strings are in front of logs, whoever came first.
    let log = queue.ask(request_of(Algorithm::SlidingWindowLog, [9]), later(), None);
    let text = queue.ask(request([5]), later(), None);
    assert!(matches!(log.await.unwrap(), Err(Trouble::Foreign(key)) if key == b"9"));
    assert!(matches!(text.await.unwrap(), Err(Trouble::Foreign(key)) if key == b"5"));
}

#[tokio::test]
async fn a_call_has_few_keys_unless_one_request_has_more() {
    let gate = Gate::new(b'L');
    let queue = queue(&gate);
    let sizes = [100, 100, 100, 300, 1, 256];
    for (index, size) in sizes.into_iter().enumerate() {
        queue.line().waiting.push_back(Waiter {
            request: Box::new(request((0..size).map(|key| index * 1_000 + key))),
            deadline: later(),
            not_after: Some(Micros(1)),
            tries: 0,
            is_alone: false,
            answer: None,
        });
    }
    queue.start(queue.line());
    gate.open.add_permits(10);
    settle().await;
    let calls: Vec<_> = gate.calls.lock().unwrap().iter().map(|(keys, count)| (keys.len(), *count)).collect();
    assert_eq!(calls, [(200, 2), (100, 1), (300, 1), (1, 1), (256, 1)]);
}

#[tokio::test]
async fn one_key_asked_for_by_many_is_one_key() {
    let gate = Gate::new(b'A');
    let queue = queue(&gate);
    gate.open.add_permits(10);
    let answers: Vec<_> = (0..64).map(|_| queue.ask(request([7]), later(), None)).collect();
    for answer in answers {
        answer.await.unwrap().unwrap();
    }
    assert!(gate.calls.lock().unwrap().iter().all(|(keys, _)| keys.len() == 1));
}

#[tokio::test]
async fn what_nobody_waits_for_is_not_sent_and_more_than_can_wait_is_refused() {
    let gate = Gate::new(b'A');
    let queue = queue(&gate);
    let first = [queue.ask(request([0]), later(), None)];
    settle().await;
    let second = [queue.ask(request([1]), later(), None)];
    settle().await;
    drop((0..1_000).map(|key| queue.ask(request([key]), later(), None)).collect::<Vec<_>>());
    let past = queue.ask(request([5_000]), Instant::now(), None);
    gate.open.add_permits(10);
    for answer in first.into_iter().chain(second) {
        answer.await.unwrap().unwrap();
    }
    assert!(matches!(past.await.unwrap(), Err(Trouble::Late)));
    assert_eq!(gate.calls.lock().unwrap().len(), 2);

    let gate = Gate::new(b'A');
    let queue = self::queue(&gate);
    let waiting: Vec<_> =
        (0..MOST_WAITING + 200).map(|key| queue.ask(request([key]), later(), None)).collect();
    settle().await;
    for answer in waiting.into_iter().skip(MOST_WAITING) {
        assert!(matches!(answer.await.unwrap(), Err(Trouble::Full)));
    }
    for key in 0..MOST_LATER + 10 {
        queue.charge_later(request([key]), later());
    }
    assert!(queue.line().later.len() <= MOST_LATER);
    for key in 0..MOST_WAITING {
        queue.tell(request([key]), later());
    }
    assert!(queue.line().waiting.len() <= MOST_WAITING);
}

/// How many requests each call had.
fn sizes(gate: &Gate) -> Vec<usize> {
    gate.calls.lock().unwrap().iter().map(|(_, requests)| *requests).collect()
}

#[tokio::test]
async fn two_calls_share_what_is_on_its_way_and_not_what_was() {
    let gate = Gate::new(b'A');
    let queue = queue(&gate);
    gate.open.add_permits(200);
    for key in 0..200 {
        queue.ask(request([key]), later(), None).await.unwrap().unwrap();
    }
    let first = [queue.ask(request([0]), later(), None)];
    settle().await;
    let others: Vec<_> = (0..39).map(|key| queue.ask(request([key]), later(), None)).collect();
    settle().await;
    assert_eq!(sizes(&gate)[200..], [1, 20]);
    gate.open.add_permits(10);
    for answer in first.into_iter().chain(others) {
        answer.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn what_is_not_judged_comes_first_again_in_its_order() {
    let gate = Gate::new(b'L');
    let queue = Queue::new(0, 1, Arc::clone(&gate), Handle::current());
    let first = [1, 2].map(|key| queue.ask(request([key]), later(), None));
    settle().await;
    let last = queue.ask(request([3]), later(), None);
    gate.open.add_permits(20);
    for answer in first.into_iter().chain([last]) {
        assert!(matches!(answer.await.unwrap(), Err(Trouble::Late)));
    }
    let keys = |call: usize| gate.calls.lock().unwrap()[call].0.concat();
    assert_eq!((keys(0), keys(1)), (b"12".to_vec(), b"123".to_vec()));
}

#[tokio::test]
async fn those_that_are_not_found_together_go_alone_and_those_behind_them_together() {
    let gate = Gate::new(b'M');
    let queue = Queue::new(0, 1, Arc::clone(&gate), Handle::current());
    let first = queue.ask(request([0]), later(), None);
    settle().await;
    let others = [1, 2, 3].map(|key| queue.ask(request([key]), later(), None));
    gate.open.add_permits(2);
    first.await.unwrap().unwrap();
    settle().await;
    let last = [4, 5].map(|key| queue.ask(request([key]), later(), None));
    gate.open.add_permits(20);
    for answer in others.into_iter().chain(last) {
        answer.await.unwrap().unwrap();
    }
    let keys: Vec<Vec<u8>> = gate.calls.lock().unwrap().iter().map(|(keys, _)| keys.concat()).collect();
    assert_eq!(keys, [&b"0"[..], b"123", b"1", b"2", b"3", b"45", b"4", b"5"]);
}

#[tokio::test]
async fn one_that_is_never_found_in_one_place_keeps_nobody_waiting() {
    let gate = Gate::new(b'M');
    let queue = Queue::new(0, 1, Arc::clone(&gate), Handle::current());
    gate.open.add_permits(10_000);
    let moving = queue.ask(request([1, 2]), Instant::now() + Duration::from_millis(50), None);
    settle().await;
    queue.ask(request([3]), later(), None).await.unwrap().unwrap();
    assert!(matches!(moving.await.unwrap(), Err(Trouble::Late)));
}

#[tokio::test]
async fn charges_that_nobody_waits_for_go_with_what_is_waited_for() {
    let gate = Gate::new(b'A');
    let queue = Queue::new(0, 1, Arc::clone(&gate), Handle::current());
    let first = queue.ask(request([0]), later(), None);
    settle().await;
    for key in 0..MOST_REQUESTS {
        queue.charge_later(request([key]), later());
    }
    let second = queue.ask(request([1]), later(), None);
    gate.open.add_permits(3);
    first.await.unwrap().unwrap();
    second.await.unwrap().unwrap();
    settle().await;
    assert_eq!(sizes(&gate), [1, MOST_REQUESTS, 1]);
}

#[tokio::test]
async fn a_request_that_is_never_judged_ends() {
    for letter in [b'L', b'W'] {
        let gate = Gate::new(letter);
        gate.open.add_permits(100);
        let answer = queue(&gate).ask(request([0]), later(), None);
        assert!(matches!(answer.await.unwrap(), Err(Trouble::Late)));
        assert_eq!(gate.calls.lock().unwrap().len(), usize::from(MOST_TRIES) + 1);
        // What the caller says about its end is final.
        let answer = queue(&gate).ask(request([0]), later(), Some(Micros(5)));
        assert!(matches!(answer.await.unwrap(), Err(Trouble::Late)));
        assert_eq!(gate.calls.lock().unwrap().len(), usize::from(MOST_TRIES) + 2);
    }
    let gate = Gate::new(b'?');
    gate.open.add_permits(1);
    assert!(matches!(queue(&gate).ask(request([0]), later(), None).await.unwrap(), Err(Trouble::Reply)));
}
