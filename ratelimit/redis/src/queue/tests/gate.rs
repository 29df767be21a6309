//! A transport that waits for the test.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicI64, AtomicUsize, Ordering::SeqCst},
};

use ratelimit_limiter::store::remote::RemoteHealth;
use redis::Value;
use tokio::sync::Semaphore;

use crate::transport::{Applied, Call, Failure, FailureKind, Transport};

/// Answers when it is allowed to, and remembers what it was asked.
pub(super) struct Gate {
    pub(super) open: Semaphore,
    pub(super) on_way: AtomicUsize,
    pub(super) most_on_way: AtomicUsize,
    /// For each call with requests its keys, and how many requests it had.
    pub(super) calls: Mutex<Vec<(Vec<Vec<u8>>, usize)>>,
    /// The keys of calls that only ask what time it is, which are answered at once.
    pub(super) asked_time: Mutex<Vec<Vec<Vec<u8>>>>,
    /// What it says of each request; `M` if keys are moving, so that only one alone is found.
    letter: u8,
    /// What its clock says.
    pub(super) now: AtomicI64,
}

impl Gate {
    pub(super) fn new(letter: u8) -> Arc<Self> {
        Arc::new(Self {
            open: Semaphore::new(0),
            on_way: AtomicUsize::new(0),
            most_on_way: AtomicUsize::new(0),
            calls: Mutex::default(),
            asked_time: Mutex::default(),
            letter,
            now: AtomicI64::new(1),
        })
    }

    fn reply(&self, requests: usize, texts: Vec<u8>) -> Value {
        let letter = if self.letter == b'M' { b'A' } else { self.letter };
        let letters = Value::BulkString(vec![letter; requests]);
        Value::Array(vec![Value::Int(self.now.load(SeqCst)), letters, Value::BulkString(texts)])
    }
}

impl Transport for Gate {
    async fn call(&self, call: Call) -> Result<Value, Failure> {
        let number = |place: usize| {
            let bytes = call.args[0].get(place * 8..place * 8 + 8).unwrap();
            f64::from_le_bytes(bytes.try_into().unwrap()) as usize
        };
        let requests = number(2);
        if requests == 0 {
            self.asked_time.lock().unwrap().push(call.keys);
            return Ok(self.reply(0, Vec::new()));
        }
        self.calls.lock().unwrap().push((call.keys.clone(), requests));
        let on_way = self.on_way.fetch_add(1, SeqCst) + 1;
        self.most_on_way.fetch_max(on_way, SeqCst);
        self.open.acquire().await.unwrap().forget();
        self.on_way.fetch_sub(1, SeqCst);
        if self.letter == b'M' && call.keys.len() > 1 {
            return Err(Failure { applied: Applied::No, kind: FailureKind::Moving });
        }
        let texts = match self.letter {
            b'A' | b'M' => b"0:".repeat(call.keys.len().max(requests)),
            // The last key is the first request's.
            b'F' => (1..=requests).rev().flat_map(|key| format!("1:{key}").into_bytes()).collect(),
            _ => Vec::new(),
        };
        Ok(self.reply(requests, texts))
    }

    fn health(&self) -> RemoteHealth {
        RemoteHealth::default()
    }
}
