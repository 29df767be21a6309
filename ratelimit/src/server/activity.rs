//! When a connection was last heard of, and until when it has to be heard of again.
//!
//! Each request moves that time, so it is a number that is written down: a timer is set to it only once, and looks at the
//! number when it fires. It also sees a client that begins a request over HTTP/1 and does not finish its headers.

use std::{
    io,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, sleep_until},
};

use super::{connection::Protocol, limits};

/// How HTTP/2 begins, and no request over HTTP/1 does.
const PREFACE: &[u8] = b"PRI";

/// What is known of a connection, for its stream, for who answers, and for who ends it.
#[derive(Debug)]
pub struct Activity {
    start: Instant,
    /// When anything was read or written; all times are nanoseconds after the start.
    last: AtomicU64,
    /// When the first bytes of a request came whose headers are not whole; 0 if there are none.
    begun: AtomicU64,
    answering: AtomicBool,
    /// Whether requests come side by side, as in HTTP/2, which has means of its own against slow ones.
    is_multiplexed: AtomicBool,
}

impl Activity {
    /// Of a connection that begins. Over HTTP, its first bytes tell which version is spoken.
    pub fn new(protocol: Protocol) -> Arc<Self> {
        Arc::new(Self {
            start: Instant::now(),
            last: AtomicU64::new(0),
            begun: AtomicU64::new(0),
            answering: AtomicBool::new(false),
            is_multiplexed: AtomicBool::new(protocol == Protocol::Grpc),
        })
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).map_or(u64::MAX, |nanos| nanos.max(1))
    }

    /// A request has come whole but for its body.
    pub fn begin_answer(&self) {
        self.answering.store(true, Relaxed);
        self.begun.store(0, Relaxed);
    }

    /// It has been answered.
    pub fn end_answer(&self) {
        self.answering.store(false, Relaxed);
    }

    fn read(&self, bytes: &[u8]) {
        let now = self.now();
        if self.last.swap(now, Relaxed) == 0 && bytes.starts_with(PREFACE) {
            self.is_multiplexed.store(true, Relaxed);
        }
        let is_head = !self.answering.load(Relaxed) && !self.is_multiplexed.load(Relaxed);
        if is_head && self.begun.load(Relaxed) == 0 {
            self.begun.store(now, Relaxed);
        }
    }

    fn written(&self) {
        self.last.store(self.now(), Relaxed);
    }

    /// When the connection's time is over, by what is known now.
    fn end(&self) -> Instant {
        let at = |nanos: u64, time: Duration| self.start + Duration::from_nanos(nanos) + time;
        let idle = at(self.last.load(Relaxed), limits::IDLE_TIME);
        match self.begun.load(Relaxed) {
            0 => idle,
            begun => idle.min(at(begun, limits::HEADER_TIME)),
        }
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
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    //! When a connection's time is over, by what has come.

    use super::*;

    /// The time that a connection still has which began so long ago.
    fn rest(activity: &Activity) -> Duration {
        activity.end().saturating_duration_since(Instant::now())
    }

    fn is_about(rest: Duration, expected: Duration) -> bool {
        (expected.saturating_sub(Duration::from_secs(5))..=expected).contains(&rest)
    }

    /// One that began a while ago.
    fn activity(protocol: Protocol) -> Activity {
        let start = Instant::now().checked_sub(limits::IDLE_TIME).unwrap();
        Activity { start, ..Arc::into_inner(Activity::new(protocol)).unwrap() }
    }

    #[test]
    fn anything_that_comes_or_goes_gives_time() {
        let activity = activity(Protocol::Grpc);
        assert_eq!(rest(&activity), Duration::ZERO);
        activity.read(b"\0");
        assert!(is_about(rest(&activity), limits::IDLE_TIME));
        let activity = self::activity(Protocol::Grpc);
        activity.written();
        assert!(is_about(rest(&activity), limits::IDLE_TIME));
    }

    #[test]
    fn headers_have_less_time_than_bodies_and_rests() {
        let activity = activity(Protocol::Http);
        for bytes in [&b"G"[..], b"ET / HTTP/1.1\r\n"] {
            activity.read(bytes);
            assert!(is_about(rest(&activity), limits::HEADER_TIME));
        }
        activity.begin_answer();
        assert!(is_about(rest(&activity), limits::IDLE_TIME));
        activity.read(b"a body");
        assert!(is_about(rest(&activity), limits::IDLE_TIME));
        activity.end_answer();
        assert!(is_about(rest(&activity), limits::IDLE_TIME));
        activity.read(b"G");
        assert!(is_about(rest(&activity), limits::HEADER_TIME));
    }

    #[test]
    fn http2_is_told_by_its_first_bytes() {
        let activity = activity(Protocol::Http);
        activity.read(b"PRI * HTTP/2.0\r\n");
        assert!(is_about(rest(&activity), limits::IDLE_TIME));
    }

    #[tokio::test]
    async fn who_waits_hears_of_the_end_and_not_before() {
        let activity = activity(Protocol::Http);
        assert_eq!(within(&activity, std::future::pending::<()>()).await, None);
        // The timer is set for a moment that is over; what comes in between counts.
        let mut polls = 0;
        let answered = std::future::poll_fn(|context| {
            polls += 1;
            activity.read(b"G");
            context.waker().wake_by_ref();
            if polls == 3 { Poll::Ready(polls) } else { Poll::Pending }
        });
        assert_eq!(within(&activity, answered).await, Some(3));
    }
}
