//! What the reverse proxy holds of large bodies: in a process of its own, so that nobody else's memory counts.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that can not go on has failed")]

#[expect(dead_code, reason = "other tests use the rest")]
#[path = "proxy/support.rs"]
mod support;

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    thread,
};

use support::Proxy;

const MEGABYTE: usize = 1 << 20;

/// Bytes that tell where they are.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|place| (place / 251 + place % 251) as u8).collect()
}

/// Memory of this process, in bytes.
fn memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap();
    status.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[test]
fn a_hundred_megabytes_pass_through_both_ways_and_none_stay() {
    const LENGTH: usize = 100 * MEGABYTE;
    // A server that sends back what it gets while it gets it.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = Proxy::before(listener.local_addr().unwrap());
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {LENGTH}\r\n\r\n").unwrap();
        std::io::copy(&mut stream.try_clone().unwrap(), &mut stream).unwrap();
    });
    let piece = pattern(MEGABYTE);
    let mut stream = proxy.connect();
    write!(stream, "POST / HTTP/1.1\r\nHost: shop\r\nContent-Length: {LENGTH}\r\n\r\n").unwrap();
    let mut sending = stream.try_clone().unwrap();
    let sent = piece.clone();
    let sender =
        thread::spawn(move || (0..LENGTH / MEGABYTE).for_each(|_| sending.write_all(&sent).unwrap()));
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        stream.read_line(&mut line).unwrap();
    }
    let before = memory();
    let (mut got, mut most) = (vec![0; MEGABYTE], 0);
    for _ in 0..LENGTH / MEGABYTE {
        stream.read_exact(&mut got).unwrap();
        assert!(got == piece, "other bytes");
        most = most.max(memory().saturating_sub(before));
    }
    sender.join().unwrap();
    assert!(most < 10 * MEGABYTE, "{most} bytes more");
}
