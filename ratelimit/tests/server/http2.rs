//! HTTP/2 frame by frame, for what no client library does.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
};

use crate::support::{Fixture, PATIENCE};

/// How HTTP/2 begins, with no settings.
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// The headers of `GET /healthcheck`, as one frame.
pub const HEALTHCHECK: &[u8] = b"\0\0\x16\x01\x05\0\0\0\x01\x82\x86\x04\x0c/healthcheck\x01\x04test";
/// Types of frames, and a flag.
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const ACK: u8 = 1;

/// The next frame: its type, its flags and what is in it.
pub fn frame(stream: &mut TcpStream) -> (u8, u8, Vec<u8>) {
    let mut head = [0; 9];
    stream.read_exact(&mut head).unwrap();
    let [high, middle, low, kind, flags, ..] = head;
    let mut payload = vec![0; u32::from_be_bytes([0, high, middle, low]) as usize];
    stream.read_exact(&mut payload).unwrap();
    (kind, flags, payload)
}

/// A frame, on that stream.
pub fn on(stream: u32, frame: &[u8]) -> Vec<u8> {
    [&frame[..5], &stream.to_be_bytes(), &frame[9..]].concat()
}

#[test]
fn requests_that_are_taken_back_end_no_others() {
    const CANCEL: &[u8] = &[0, 0, 4, RST_STREAM, 0, 0, 0, 0, 0, 0, 0, 0, 8];
    let fixture = Fixture::new("");
    let mut stream = TcpStream::connect(fixture.http()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // As of a proxy whose requests all time out, as many as it may have at once, again and again.
    let taken_back =
        (0..900).flat_map(|number| [on(2 * number + 1, HEALTHCHECK), on(2 * number + 1, CANCEL)]);
    let all = [PREFACE.to_vec()].into_iter().chain(taken_back).chain([on(1801, HEALTHCHECK)]);
    stream.write_all(&all.collect::<Vec<_>>().concat()).unwrap();
    loop {
        let (kind, _, payload) = frame(&mut stream);
        assert_ne!(kind, GOAWAY, "{payload:?}");
        if kind == HEADERS {
            return;
        }
    }
}
