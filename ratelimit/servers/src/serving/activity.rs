//! When a connection was last heard of, and until when it has to be heard of again.
//!
//! Each request moves that time, so it is a number that is written down: a timer is set to it only once, and looks at the
//! number when it fires. It also sees clients that begin a request over HTTP/1 and do not finish its headers, and those that
//! do not take their answers.

use std::{
    io, mem,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, sleep_until},
};

use super::bounds::Times;

/// How HTTP/2 begins, and no request over HTTP/1 does.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Later than any connection lives.
const NEVER: Duration = Duration::from_secs(30 * 365 * 86_400);
/// There is nothing more to compare with it.
const TOLD: usize = usize::MAX;

/// What is known of a connection, for its stream, for who answers, and for who ends it. Times are nanoseconds after the start.
#[derive(Debug)]
pub struct Activity {
    times: Times,
    start: Instant,
    /// When anything was read or written.
    last: AtomicU64,
    /// When the first bytes of a request came whose headers are not whole; 0 if there are none.
    begun: AtomicU64,
    /// How many bytes of the preface have come.
    preface: AtomicUsize,
    /// Whether requests come side by side, as in HTTP/2, which has means of its own against slow ones.
    is_multiplexed: AtomicBool,
    /// Requests that are being answered, and have something to say.
    answering: AtomicU32,
    /// Streams that have nothing to say for now.
    resting: AtomicU32,
    /// When one of these began while none was before, ended, or a piece of its answer was taken.
    moved: AtomicU64,
    /// Whether the client has yet to take what was last written.
    is_blocked: AtomicBool,
}

/// A request that is being answered, until this is dropped.
#[derive(Debug)]
pub struct Answering {
    activity: Arc<Activity>,
    is_resting: bool,
}

impl Answering {
    /// When what was last read of the request came.
    pub fn since(&self) -> Instant {
        self.activity.at(&self.activity.last)
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

impl Drop for Answering {
    fn drop(&mut self) {
        self.activity.moved.store(self.activity.last.load(Relaxed), Relaxed);
        let counted = if self.is_resting { &self.activity.resting } else { &self.activity.answering };
        counted.fetch_sub(1, Relaxed);
    }
}

impl Activity {
    /// Of a connection that begins. Its first bytes tell whether it is HTTP/2.
    pub fn new(times: &Times) -> Arc<Self> {
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
            is_blocked: AtomicBool::new(false),
        })
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).map_or(u64::MAX, |nanos| nanos.max(1))
    }

    fn at(&self, nanos: &AtomicU64) -> Instant {
        self.start + Duration::from_nanos(nanos.load(Relaxed))
    }

    /// A request has come whole but for its body.
    pub fn answer(self: &Arc<Self>) -> Answering {
        self.begun.store(0, Relaxed);
        if self.answering.fetch_add(1, Relaxed) == 0 {
            self.moved.store(self.last.load(Relaxed), Relaxed);
        }
        Answering { activity: Arc::clone(self), is_resting: false }
    }

    /// Whether a part of a request's headers has come.
    pub fn is_reading_headers(&self) -> bool {
        self.begun.load(Relaxed) != 0
    }

    /// Whether somebody waits for an answer, or for the rest of one.
    pub fn is_awaited(&self) -> bool {
        self.answering.load(Relaxed) > 0 || self.is_blocked.load(Relaxed)
    }

    /// Whether what happens next is for its client to do: to ask, or to take its answer.
    pub fn waits_for_client(&self) -> bool {
        self.answering.load(Relaxed) == 0 || self.is_blocked.load(Relaxed)
    }

    fn read(&self, bytes: &[u8]) {
        let now = self.now();
        let is_answering = || self.answering.load(Relaxed) > 0 || self.resting.load(Relaxed) > 0;
        let may_be_head = !self.is_multiplexed.load(Relaxed) && !is_answering();
        if may_be_head && bytes.iter().all(|byte| matches!(byte, b'\r' | b'\n')) && !self.is_reading_headers()
        {
            // Empty lines between requests are no part of any, and keep no connection.
            return;
        }
        self.last.store(now, Relaxed);
        if may_be_head && !self.is_preface(bytes) && !self.is_reading_headers() {
            self.begun.store(now, Relaxed);
        }
    }

    /// Whether these bytes end the preface of HTTP/2.
    fn is_preface(&self, bytes: &[u8]) -> bool {
        let before = self.preface.load(Relaxed);
        let Some(rest) = PREFACE.get(before..) else { return false };
        let common = rest.len().min(bytes.len());
        if rest[..common] != bytes[..common] {
            self.preface.store(TOLD, Relaxed);
            return false;
        }
        let is_whole = common == rest.len();
        self.preface.store(if is_whole { TOLD } else { before + common }, Relaxed);
        if is_whole {
            self.begun.store(0, Relaxed);
            self.is_multiplexed.store(true, Relaxed);
        }
        is_whole
    }

    fn written(&self) {
        self.last.store(self.now(), Relaxed);
    }

    /// When the connection's time is over, by what is known now.
    fn end(&self) -> Instant {
        let Times { headers, idle, answer, silence, lifetime, .. } = self.times;
        let is_answering = self.answering.load(Relaxed) > 0;
        let mut end = match answer {
            Some(time) if is_answering => self.at(&self.moved) + time,
            _ if is_answering || self.resting.load(Relaxed) > 0 => {
                silence.map_or(self.start + NEVER, |silence| self.at(&self.last) + silence)
            }
            _ => self.at(&self.last) + idle,
        };
        if self.is_reading_headers() {
            end = end.min(self.at(&self.begun) + headers);
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

/// A stream whose reads and writes are noted.
#[derive(Debug)]
pub struct Noted<I> {
    stream: I,
    activity: Arc<Activity>,
}

impl<I> Noted<I> {
    pub const fn new(stream: I, activity: Arc<Activity>) -> Self {
        Self { stream, activity }
    }

    fn written(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        self.activity.is_blocked.store(written.is_pending(), Relaxed);
        if matches!(written, Poll::Ready(Ok(_))) {
            self.activity.written();
        }
        written
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for Noted<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        match buffer.filled().get(before..) {
            None | Some([]) => {}
            Some(bytes) => self.activity.read(bytes),
        }
        Poll::Ready(Ok(()))
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Noted<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.written(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.written(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.activity.is_blocked.store(flushed.is_pending(), Relaxed);
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
pub mod tests;
