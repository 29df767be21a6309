//! The frames of HTTP/2 that a client sends, seen by their heads alone: whether the headers of a request have come in part, and
//! how often the settings change. hyper bounds the size of headers and not their time, and does with each change of settings
//! what takes the longer the more requests there are.

use std::{io, time::Duration};

/// Bytes of a frame's head: its length, type, flags and stream.
const HEAD: usize = 9;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const CONTINUATION: u8 = 9;
/// A flag of SETTINGS.
const ACK: u8 = 1;
/// A flag of HEADERS and CONTINUATION.
const END_HEADERS: u8 = 4;

/// How many changes of settings may come at once, and how long each takes to be forgotten. Clients that measure their
/// bandwidth make a few, each larger than the one before it.
const CHANGES: u32 = 100;
const FORGOTTEN: Duration = Duration::from_millis(100);

/// Where in a frame the last bytes were, and what came before.
#[derive(Debug, Default)]
pub struct Frames {
    head: [u8; HEAD],
    /// Bytes of the head that have come.
    known: usize,
    /// Bytes of the frame that are still to come after its head.
    rest: usize,
    /// Whether a request's headers have begun and not ended.
    in_headers: bool,
    /// When all changes of settings are forgotten, after the connection's start.
    forgotten: Duration,
}

/// What some bytes have shown.
#[derive(Debug, PartialEq, Eq)]
pub struct Seen {
    /// A request's headers have begun and not ended.
    pub in_headers: bool,
    /// A request's headers have ended.
    pub headers_ended: bool,
}

impl Frames {
    /// Takes in what came so long after the connection's start.
    ///
    /// # Errors
    /// The settings change too often.
    pub fn read(&mut self, mut bytes: &[u8], now: Duration) -> io::Result<Seen> {
        let mut headers_ended = false;
        while !bytes.is_empty() {
            if self.known < HEAD {
                let (part, rest) = bytes.split_at(bytes.len().min(HEAD - self.known));
                self.head[self.known..][..part.len()].copy_from_slice(part);
                self.known += part.len();
                bytes = rest;
                if self.known < HEAD {
                    break;
                }
                self.begin(now)?;
            }
            let part = self.rest.min(bytes.len());
            bytes = &bytes[part..];
            self.rest -= part;
            if self.rest == 0 {
                self.known = 0;
                headers_ended |= self.end();
            }
        }
        Ok(Seen { in_headers: self.in_headers, headers_ended })
    }

    /// A frame's head has come.
    fn begin(&mut self, now: Duration) -> io::Result<()> {
        let [high, middle, low, kind, flags, ..] = self.head;
        self.rest = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        if kind == HEADERS {
            self.in_headers = true;
        }
        if kind == SETTINGS && flags & ACK == 0 {
            self.forgotten = self.forgotten.max(now) + FORGOTTEN;
            if self.forgotten > now + FORGOTTEN * CHANGES {
                return Err(io::Error::other("the settings of HTTP/2 change too often"));
            }
        }
        Ok(())
    }

    /// A frame has come whole; whether it ends headers.
    fn end(&mut self) -> bool {
        let [_, _, _, kind, flags, ..] = self.head;
        let ends = matches!(kind, HEADERS | CONTINUATION) && flags & END_HEADERS != 0 && self.in_headers;
        self.in_headers &= !ends;
        ends
    }
}

#[cfg(test)]
mod tests {
    //! Frames in pieces of any size.

    use super::*;

    fn frame(kind: u8, flags: u8, length: u8) -> Vec<u8> {
        [&[0, 0, length, kind, flags, 0, 0, 0, 1][..], &vec![0xff; length.into()]].concat()
    }

    fn seen(in_headers: bool, headers_ended: bool) -> Seen {
        Seen { in_headers, headers_ended }
    }

    #[test]
    fn headers_end_with_the_last_byte_of_the_frame_that_says_so() {
        let frames = [
            frame(SETTINGS, 0, 6),
            frame(HEADERS, 0, 3),
            frame(CONTINUATION, 0, 0),
            frame(CONTINUATION, END_HEADERS, 20),
            frame(0, END_HEADERS, 200),
        ]
        .concat();
        let (begin, end) = (15 + 9, 15 + 12 + 9 + 29);
        for size in [1, 2, 7, 9, 300] {
            let (mut of_frames, mut read, mut ended) = (Frames::default(), 0, 0);
            for piece in frames.chunks(size) {
                let found = of_frames.read(piece, Duration::ZERO).unwrap();
                read += piece.len();
                ended += usize::from(found.headers_ended);
                assert_eq!(found.in_headers, (begin..end).contains(&read), "{size} {read}");
            }
            assert_eq!(ended, 1, "{size}");
        }
    }

    #[test]
    fn headers_that_begin_after_others_are_new() {
        let mut frames = Frames::default();
        let both = [frame(HEADERS, END_HEADERS, 3), frame(HEADERS, 0, 3)].concat();
        assert_eq!(frames.read(&both, Duration::ZERO).unwrap(), seen(true, true));
        assert_eq!(frames.read(&frame(CONTINUATION, 0, 3), Duration::ZERO).unwrap(), seen(true, false));
    }

    #[test]
    fn settings_may_change_now_and_then_and_not_all_the_time() {
        let mut frames = Frames::default();
        let (change, answer) = (frame(SETTINGS, 0, 6), frame(SETTINGS, ACK, 0));
        let mut now = Duration::ZERO;
        for _ in 0..CHANGES {
            frames.read(&change, now).unwrap();
        }
        assert!(frames.read(&answer, now).is_ok());
        assert!(frames.read(&change, now).is_err());
        let mut frames = Frames::default();
        for _ in 0..10 * CHANGES {
            now += FORGOTTEN;
            frames.read(&change, now).unwrap();
        }
    }
}
