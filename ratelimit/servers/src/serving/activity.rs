//! When a connection was last heard of, and until when it has to be heard of again.
//!
//! Each request moves that time, so it is a number that is written down: a timer is set to it only once, and looks at
//! the number when it fires. It also sees clients that begin a request and do not finish its headers, those that do not
//! take their answers, and those that change the settings of HTTP/2 again and again.

use std::{
    collections::VecDeque,
    mem,
    pin::pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    task::{Poll, ready},
    time::Duration,
};

use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

use super::{bounds::ConnectionTimeouts, budget::Share};

mod noted;

pub use self::noted::Noted;

/// How HTTP/2 begins, and no request over HTTP/1 does.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Later than any connection lives.
const NEVER: Duration = Duration::from_secs(30 * 365 * 86_400);
/// There is nothing more to compare with it.
const TOLD: usize = usize::MAX;

/// What is known of a connection, for its stream, for who answers, and for who ends it. Times are nanoseconds after the
/// start.
#[derive(Debug)]
pub struct Activity {
    times: ConnectionTimeouts,
    start: Instant,
    /// When anything was read or written.
    last: AtomicU64,
    /// When the first bytes of a request came whose headers are not whole; 0 if there are none.
    begun: AtomicU64,
    /// How many bytes of the preface have come.
    preface: AtomicUsize,
    /// Whether requests come side by side, as in HTTP/2.
    is_multiplexed: AtomicBool,
    /// Requests that are being answered, and have something to say.
    answering: AtomicU32,
    /// Streams that have nothing to say for now.
    resting: AtomicU32,
    /// When one of these began while none was before, ended, or a piece of its answer was taken.
    moved: AtomicU64,
    /// Since when the client has taken nothing of what was to be written; 0 if it takes all.
    blocked: AtomicU64,
    /// Told when the connection is to end at once.
    ends: Notify,
    /// The streams of HTTP/2.
    streams: Mutex<Streams>,
}

/// Which streams of HTTP/2 are not over.
#[derive(Debug, Default)]
struct Streams {
    /// Those that have begun, and whose answers have not been sent to their end.
    open: usize,
    /// What answers hold of which who answers has let go, and the client may have yet to take the last.
    untaken: VecDeque<Arc<Share>>,
}

/// A request that is being answered, until this is dropped.
#[derive(Debug)]
pub struct AnswerGuard {
    activity: Arc<Activity>,
    is_resting: bool,
    /// What the request holds until then, and over HTTP/2 until the client has taken the last of its answer.
    share: Option<Arc<Share>>,
}

impl AnswerGuard {
    /// When what was last read of the request came.
    pub fn since(&self) -> Instant {
        self.activity.at(&self.activity.last)
    }

    /// What the request holds until the client has taken its answer. All requests of a connection over HTTP/2 have to
    /// hold as much, from the moment on at which they are looked at.
    pub fn holds(&mut self, share: Arc<Share>) {
        self.share = Some(share);
    }

    /// Ends the connection, with all that is being answered.
    pub fn end_connection(&self) {
        self.activity.ends.notify_one();
    }

    /// A piece of the answer was taken, at the time of what was last read or written.
    pub fn goes_on(&mut self) {
        self.activity.moved.store(self.activity.last.load(Relaxed), Relaxed);
        if mem::take(&mut self.is_resting) {
            self.activity.resting.fetch_sub(1, Relaxed);
            self.activity.answering.fetch_add(1, Relaxed);
        }
    }

    /// All that there is of the answer was taken.
    pub fn rests(&mut self) {
        if !mem::replace(&mut self.is_resting, true) {
            self.activity.answering.fetch_sub(1, Relaxed);
            self.activity.resting.fetch_add(1, Relaxed);
        }
    }
}

impl Drop for AnswerGuard {
    fn drop(&mut self) {
        self.activity.moved.store(self.activity.last.load(Relaxed), Relaxed);
        let counted = if self.is_resting { &self.activity.resting } else { &self.activity.answering };
        counted.fetch_sub(1, Relaxed);
        if let Some(share) = self.share.take()
            && self.activity.is_multiplexed.load(Relaxed)
        {
            self.activity.streams(|streams| streams.untaken.push_back(share));
        }
    }
}

impl Activity {
    /// The activity of a connection that begins. Its first bytes tell whether it is HTTP/2.
    pub fn new(times: &ConnectionTimeouts) -> Arc<Self> {
        Arc::new(Self {
            times: *times,
            start: Instant::now(),
            last: AtomicU64::new(0),
            begun: AtomicU64::new(0),
            preface: AtomicUsize::new(0),
            is_multiplexed: AtomicBool::new(false),
            answering: AtomicU32::new(0),
            resting: AtomicU32::new(0),
            moved: AtomicU64::new(0),
            blocked: AtomicU64::new(0),
            ends: Notify::new(),
            streams: Mutex::default(),
        })
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).map_or(u64::MAX, |nanos| nanos.max(1))
    }

    fn at(&self, nanos: &AtomicU64) -> Instant {
        self.start + Duration::from_nanos(nanos.load(Relaxed))
    }

    /// A request has come whole but for its body.
    pub fn answer(self: &Arc<Self>) -> AnswerGuard {
        // Others may be coming over HTTP/2.
        if !self.is_multiplexed.load(Relaxed) {
            self.begun.store(0, Relaxed);
        }
        if self.answering.fetch_add(1, Relaxed) == 0 {
            self.moved.store(self.last.load(Relaxed), Relaxed);
        }
        AnswerGuard { activity: Arc::clone(self), is_resting: false, share: None }
    }

    /// Returns when the connection is to end at once.
    pub async fn is_to_end(&self) {
        self.ends.notified().await;
    }

    fn is_blocked(&self) -> bool {
        self.blocked.load(Relaxed) != 0
    }

    /// Whether a part of a request's headers has come over HTTP/1, so that nothing else can be said meanwhile.
    pub fn is_reading_headers(&self) -> bool {
        self.has_begun() && !self.is_multiplexed.load(Relaxed)
    }

    fn has_begun(&self) -> bool {
        self.begun.load(Relaxed) != 0
    }

    /// Whether somebody waits for an answer, or for the rest of one.
    pub fn is_awaited(&self) -> bool {
        self.answering.load(Relaxed) > 0 || self.is_blocked()
    }

    /// Whether what happens next is for its client to do: to ask, or to take its answer.
    pub fn waits_for_client(&self) -> bool {
        self.answering.load(Relaxed) == 0 || self.is_blocked()
    }

    /// Takes in what was read; what of it are frames of HTTP/2 is returned.
    fn read<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        let now = self.now();
        if self.is_multiplexed.load(Relaxed) {
            self.last.store(now, Relaxed);
            return bytes;
        }
        let is_answering = self.answering.load(Relaxed) > 0 || self.resting.load(Relaxed) > 0;
        let is_empty = bytes.iter().all(|byte| matches!(byte, b'\r' | b'\n'));
        if !is_answering && is_empty && !self.has_begun() {
            // Empty lines between requests are no part of any, and keep no connection.
            return &[];
        }
        self.last.store(now, Relaxed);
        if is_answering {
            return &[];
        }
        if let Some(frames) = self.after_preface(bytes) {
            return frames;
        }
        if !self.has_begun() {
            self.begun.store(now, Relaxed);
        }
        &[]
    }

    /// Notes whether the headers of a request over HTTP/2 have come in part; `is_new` if others have come whole since.
    fn headers(&self, are_coming: bool, is_new: bool) {
        if !are_coming {
            self.begun.store(0, Relaxed);
        } else if is_new || !self.has_begun() {
            self.begun.store(self.now(), Relaxed);
        }
    }

    /// What follows the preface of HTTP/2, if it ends in these bytes.
    fn after_preface<'b>(&self, bytes: &'b [u8]) -> Option<&'b [u8]> {
        let before = self.preface.load(Relaxed);
        let rest = PREFACE.get(before..)?;
        let common = rest.len().min(bytes.len());
        if rest[..common] != bytes[..common] {
            self.preface.store(TOLD, Relaxed);
            return None;
        }
        let is_whole = common == rest.len();
        self.preface.store(if is_whole { TOLD } else { before + common }, Relaxed);
        if !is_whole {
            return None;
        }
        self.begun.store(0, Relaxed);
        self.is_multiplexed.store(true, Relaxed);
        bytes.get(common..)
    }

    /// So many streams of HTTP/2 have begun, and their answers have not been sent to their end.
    fn are_open(&self, open: usize) {
        self.streams(|streams| streams.open = open);
    }

    /// Notes what has become of streams, and lets go of what was held for answers that have been taken. Nobody says
    /// whose they are; but there can't be more untaken ones than streams that are open and not being answered.
    fn streams(&self, change: impl FnOnce(&mut Streams)) {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut streams);
        let answered = self.answering.load(Relaxed) + self.resting.load(Relaxed);
        let untaken = streams.open.saturating_sub(answered as usize);
        let taken = streams.untaken.len().saturating_sub(untaken);
        streams.untaken.drain(..taken);
    }

    fn written(&self) {
        self.last.store(self.now(), Relaxed);
    }

    /// When the connection's time is over, by what is known now.
    fn end(&self) -> Instant {
        let ConnectionTimeouts { headers, idle, answer, silence, lifetime, .. } = self.times;
        let is_answering = self.answering.load(Relaxed) > 0;
        let mut end = match answer {
            Some(time) if is_answering => self.at(&self.moved) + time,
            _ if is_answering || self.resting.load(Relaxed) > 0 => {
                silence.map_or(self.start + NEVER, |silence| self.at(&self.last) + silence)
            }
            _ => self.at(&self.last) + idle,
        };
        if self.has_begun() {
            end = end.min(self.at(&self.begun) + headers);
        }
        if let Some(time) = answer.filter(|_| self.is_blocked()) {
            end = end.min(self.at(&self.blocked) + time);
        }
        lifetime.map_or(end, |lifetime| end.min(self.start + lifetime))
    }
}

/// Waits for a future, as long as the connection is heard of; `None` if it is not.
pub async fn within<F: Future>(activity: &Activity, future: F) -> Option<F::Output> {
    let (mut future, mut timer) = (pin!(future), pin!(sleep_until(activity.end())));
    std::future::poll_fn(|context| {
        if let Poll::Ready(output) = future.as_mut().poll(context) {
            return Poll::Ready(Some(output));
        }
        loop {
            let end = activity.end();
            if end < timer.deadline() {
                timer.as_mut().reset(end);
            }
            ready!(timer.as_mut().poll(context));
            if end <= Instant::now() {
                return Poll::Ready(None);
            }
            timer.as_mut().reset(end);
        }
    })
    .await
}

#[cfg(test)]
pub mod tests;
