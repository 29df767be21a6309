//! The stream of a connection, of which is noted what is read and written.

use std::{
    io,
    pin::Pin,
    sync::{Arc, atomic::Ordering::Relaxed},
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{super::frames::Frames, Activity};

/// A stream whose reads and writes are noted.
#[derive(Debug)]
pub struct Noted<I> {
    stream: I,
    activity: Arc<Activity>,
    frames: Frames,
}

impl<I> Drop for Noted<I> {
    fn drop(&mut self) {
        // All its streams are over.
        self.activity.are_open(0);
    }
}

impl<I> Noted<I> {
    pub fn new(stream: I, activity: Arc<Activity>) -> Self {
        Self { stream, activity, frames: Frames::default() }
    }

    fn read(&mut self, bytes: &[u8]) -> io::Result<()> {
        let frames = self.activity.read(bytes);
        if !frames.is_empty() {
            let seen = self.frames.read(frames, self.activity.start.elapsed())?;
            self.activity.headers(seen.in_headers, seen.headers_ended);
            self.activity.are_open(self.frames.open());
        }
        Ok(())
    }

    /// Whether the client takes what there is for it.
    fn takes(&self, takes: bool) {
        if takes {
            self.activity.blocked.store(0, Relaxed);
        } else if !self.activity.is_blocked() {
            self.activity.blocked.store(self.activity.now(), Relaxed);
        }
    }

    fn written(
        &mut self,
        written: Poll<io::Result<usize>>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.takes(written.is_ready());
        if let Poll::Ready(Ok(bytes)) = written {
            self.activity.written();
            self.sent(bytes, slices);
        }
        written
    }

    /// So many bytes of these were sent.
    fn sent(&mut self, mut bytes: usize, slices: &[io::IoSlice<'_>]) {
        // What comes before the client has said that it speaks HTTP/2 ends no stream, and is sent as a whole.
        if !self.activity.is_multiplexed.load(Relaxed) {
            return;
        }
        for slice in slices {
            let sent = slice.get(..bytes).unwrap_or(slice);
            bytes -= sent.len();
            self.frames.written(sent);
        }
        self.activity.are_open(self.frames.open());
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
        Poll::Ready(match buffer.filled().get(before..) {
            None | Some([]) => Ok(()),
            Some(bytes) => self.read(bytes),
        })
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Noted<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.written(written, &[io::IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.written(written, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.takes(flushed.is_ready());
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
