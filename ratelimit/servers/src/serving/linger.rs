//! The end of a connection whose client is still sending: what comes is read for a moment, and thrown away. A socket
//! that is closed with bytes unread resets the connection, and the answer that says why is lost; a proxy that has got
//! no answer may let the request pass that it has asked about.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

use super::activity::Activity;

/// How long it is read at most.
const LINGER: Duration = Duration::from_secs(1);
/// Bytes that are read at most: more than proxies take of a request's headers.
const MOST: usize = 4 << 20;

/// A stream that reads on for a moment when it is shut down.
#[derive(Debug)]
pub struct Lingering<I> {
    stream: I,
    activity: Arc<Activity>,
    is_shut: bool,
    /// What was read and thrown away.
    unread: usize,
    timer: Option<Pin<Box<Sleep>>>,
}

impl<I> Lingering<I> {
    pub const fn new(stream: I, activity: Arc<Activity>) -> Self {
        Self { stream, activity, is_shut: false, unread: 0, timer: None }
    }

    /// Whether the client is likely to be sending still.
    fn is_sending(&self) -> bool {
        self.unread > 0 || self.activity.is_reading_headers()
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for Lingering<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<I: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Lingering<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if !this.is_shut {
            ready!(Pin::new(&mut this.stream).poll_shutdown(context))?;
            this.is_shut = true;
        }
        while this.unread < MOST {
            let mut bytes = [0; 4096];
            let mut buffer = ReadBuf::new(&mut bytes);
            match Pin::new(&mut this.stream).poll_read(context, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => this.unread += buffer.filled().len(),
                // The client has heard it, or is gone.
                Poll::Ready(_) => break,
                Poll::Pending if !this.is_sending() => break,
                Poll::Pending => {
                    let timer = this.timer.get_or_insert_with(|| Box::pin(sleep(LINGER)));
                    return timer.as_mut().poll(context).map(Ok);
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}
