//! The frames of HTTP/2, seen by their heads alone: whether the headers of a request have come in part, how often the
//! settings change, and which streams are open. hyper bounds the size of headers and not their time, does with each
//! change of settings what takes the longer the more requests there are, and lets go of an answer before the client has
//! taken the last of it.

use std::{collections::HashSet, io, time::Duration};

/// Bytes of a frame's head: its length, type, flags and stream.
const HEAD: usize = 9;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const CONTINUATION: u8 = 9;
/// A flag of SETTINGS.
const ACK: u8 = 1;
/// A flag of HEADERS and DATA.
const END_STREAM: u8 = 1;
/// A flag of HEADERS and CONTINUATION.
const END_HEADERS: u8 = 4;

/// How many changes of settings may come at once, and how long each takes to be forgotten. Clients that measure their
/// bandwidth make a few, each larger than the one before it.
const CHANGES: u32 = 100;
const FORGOTTEN: Duration = Duration::from_millis(100);

/// Streams that may be open at once. hyper answers far fewer, and refuses the others one by one; but those that come
/// behind its farewell it passes over.
const MOST_OPEN: usize = 1 << 14;

/// How far frames have come that are seen in pieces.
#[derive(Debug, Default)]
struct FrameReader {
    head: [u8; HEAD],
    /// Bytes of the head that have come.
    known: usize,
    /// Bytes of the frame that are still to come after its head.
    rest: usize,
}

/// What the next bytes show.
enum FramePart {
    /// A frame's head has come.
    Head(FrameHead),
    /// A frame has come whole.
    Whole(FrameHead),
}

#[derive(Clone, Copy)]
struct FrameHead {
    kind: u8,
    flags: u8,
    stream: u32,
}

impl FrameReader {
    /// The next part that ends within these bytes, which are cut off.
    fn next(&mut self, bytes: &mut &[u8]) -> Option<FramePart> {
        if self.known < HEAD {
            let (part, rest) = bytes.split_at(bytes.len().min(HEAD - self.known));
            self.head[self.known..][..part.len()].copy_from_slice(part);
            (self.known, *bytes) = (self.known + part.len(), rest);
            if self.known < HEAD {
                return None;
            }
            let [high, middle, low, ..] = self.head;
            self.rest = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
            return Some(FramePart::Head(self.head()));
        }
        let part = self.rest.min(bytes.len());
        (self.rest, *bytes) = (self.rest - part, &bytes[part..]);
        if self.rest > 0 {
            return None;
        }
        self.known = 0;
        Some(FramePart::Whole(self.head()))
    }

    fn head(&self) -> FrameHead {
        let [_, _, _, kind, flags, stream @ ..] = self.head;
        // The first bit is none of the number.
        FrameHead { kind, flags, stream: u32::from_be_bytes(stream) & !(1 << 31) }
    }
}

/// What comes from a client, and what is sent to it.
#[derive(Debug, Default)]
pub struct Frames {
    received: FrameReader,
    sent: FrameReader,
    /// Whether a request's headers have begun and not ended.
    in_headers: bool,
    /// When all changes of settings are forgotten, after the connection's start.
    forgotten: Duration,
    /// The last stream that the client has begun.
    last: u32,
    /// Streams that it has begun, and whose answers have not been sent to their end.
    open: HashSet<u32>,
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
    /// The settings change too often, or too many streams are open.
    pub fn read(&mut self, mut bytes: &[u8], now: Duration) -> io::Result<Seen> {
        let mut headers_ended = false;
        while let Some(part) = self.received.next(&mut bytes) {
            match part {
                FramePart::Head(head) => self.begin(head, now)?,
                FramePart::Whole(head) => headers_ended |= self.end(head),
            }
        }
        Ok(Seen { in_headers: self.in_headers, headers_ended })
    }

    /// Takes in what was sent.
    pub fn written(&mut self, mut bytes: &[u8]) {
        while let Some(part) = self.sent.next(&mut bytes) {
            if let FramePart::Whole(head) = part
                && head.ends_stream()
            {
                self.open.remove(&head.stream);
            }
        }
    }

    /// How many streams the client has begun whose answers have not been sent to their end.
    pub fn open(&self) -> usize {
        self.open.len()
    }

    /// A frame's head has come.
    fn begin(&mut self, head: FrameHead, now: Duration) -> io::Result<()> {
        if head.kind == HEADERS {
            self.in_headers = true;
            // Others are trailers, or come too late.
            if head.stream > self.last {
                self.last = head.stream;
                self.open.insert(head.stream);
                if self.open.len() > MOST_OPEN {
                    return Err(io::Error::other("too many streams of HTTP/2 are open"));
                }
            }
        }
        if head.kind == SETTINGS && head.flags & ACK == 0 {
            self.forgotten = self.forgotten.max(now) + FORGOTTEN;
            if self.forgotten > now + FORGOTTEN * CHANGES {
                return Err(io::Error::other("the settings of HTTP/2 change too often"));
            }
        }
        Ok(())
    }

    /// A frame has come whole; whether it ends headers.
    fn end(&mut self, head: FrameHead) -> bool {
        if head.kind == RST_STREAM {
            self.open.remove(&head.stream);
        }
        let ends = head.ends_headers() && self.in_headers;
        self.in_headers &= !ends;
        ends
    }
}

impl FrameHead {
    const fn ends_headers(self) -> bool {
        matches!(self.kind, HEADERS | CONTINUATION) && self.flags & END_HEADERS != 0
    }

    /// Whether its sender says nothing more on the stream.
    const fn ends_stream(self) -> bool {
        match self.kind {
            DATA | HEADERS => self.flags & END_STREAM != 0,
            kind => kind == RST_STREAM,
        }
    }
}

#[cfg(test)]
mod tests {
    //! Frames in pieces of any size.

    use super::*;

    fn frame(kind: u8, flags: u8, length: u8) -> Vec<u8> {
        on(1, kind, flags, length)
    }

    fn on(stream: u8, kind: u8, flags: u8, length: u8) -> Vec<u8> {
        [&[0, 0, length, kind, flags, 0, 0, 0, stream][..], &vec![0xff; length.into()]].concat()
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

    #[test]
    fn streams_that_nobody_answers_are_not_kept_without_end() {
        let mut frames = Frames::default();
        let begun = |place: usize| {
            let stream = u32::try_from(2 * place + 1).unwrap().to_be_bytes();
            [&[0, 0, 0, HEADERS, END_HEADERS][..], &stream].concat()
        };
        for place in 0..MOST_OPEN {
            frames.read(&begun(place), Duration::ZERO).unwrap();
        }
        assert_eq!(frames.open(), MOST_OPEN);
        assert!(frames.read(&begun(MOST_OPEN), Duration::ZERO).is_err());
    }

    #[test]
    fn a_stream_is_open_until_the_last_byte_of_its_answer_was_sent_or_it_was_taken_back() {
        for size in [1, 2, 7, 9, 300] {
            let mut frames = Frames::default();
            let begun = [1, 3, 5, 7].map(|stream| on(stream, HEADERS, END_HEADERS, 3)).concat();
            // Data and trailers of one that is open begin no other.
            let more = [on(5, DATA, END_STREAM, 30), on(7, HEADERS, END_HEADERS | END_STREAM, 3)].concat();
            for piece in [begun, more].concat().chunks(size) {
                frames.read(piece, Duration::ZERO).unwrap();
            }
            assert_eq!(frames.open(), 4);
            for (sent, open) in [
                (on(1, HEADERS, END_HEADERS, 20), 4),
                (on(1, DATA, 0, 200), 4),
                (on(1, DATA, END_STREAM, 0), 3),
                (on(1, RST_STREAM, 0, 4), 3),
                (on(3, RST_STREAM, 0, 4), 2),
                (on(5, HEADERS, END_HEADERS | END_STREAM, 20), 1),
                (on(7, DATA, 0, 200), 1),
            ] {
                let (begin, last) = sent.split_at(sent.len() - 1);
                let before = frames.open();
                begin.chunks(size).for_each(|piece| frames.written(piece));
                assert_eq!(frames.open(), before);
                frames.written(last);
                assert_eq!(frames.open(), open);
            }
            frames.read(&on(7, RST_STREAM, 0, 4), Duration::ZERO).unwrap();
            // It is over, and does not begin again.
            frames.read(&on(7, HEADERS, END_HEADERS, 3), Duration::ZERO).unwrap();
            assert_eq!(frames.open(), 0);
        }
    }
}
