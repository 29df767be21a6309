//! The daemon's memory: idle, and with a million keys.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
};

use super::{
    ask::is_whole,
    process::{Kind, Server},
};

const KEYS: u64 = 1_000_000;
/// Questions in one request.
const AT_ONCE: u64 = 1000;

pub fn report() {
    let server = Server::start(Kind::Limiter);
    let mega = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    println!("{:<34} {:>12.1} MiB", "resident, idle", mega(server.memory()));
    let mut stream = TcpStream::connect(server.http).expect("a connection");
    for first in (0..KEYS).step_by(AT_ONCE as usize) {
        let question = |key: u64| {
            format!(
                r#"{{"domain":"bench","descriptors":[{{"entries":[{{"key":"kept","value":"many-{key}"}}]}}]}}"#
            )
        };
        let questions: Vec<String> = (first..first + AT_ONCE).map(question).collect();
        let body = format!(r#"{{"requests":[{}]}}"#, questions.join(","));
        let head =
            format!("POST /v1/check HTTP/1.1\r\nhost: bench\r\ncontent-length: {}\r\n\r\n", body.len());
        stream
            .write_all(head.as_bytes())
            .and_then(|()| stream.write_all(body.as_bytes()))
            .expect("a question");
        read_answer(&mut stream);
    }
    println!("{:<34} {:>12.1} MiB", "resident, 1,000,000 keys", mega(server.memory()));
}

fn read_answer(stream: &mut TcpStream) {
    let mut answer = Vec::new();
    let mut chunk = vec![0; 1 << 16];
    while !is_whole(&answer) {
        let read = stream.read(&mut chunk).expect("an answer");
        assert!(read > 0, "an answer");
        answer.extend_from_slice(&chunk[..read]);
    }
    assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
}
