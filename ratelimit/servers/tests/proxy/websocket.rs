//! WebSockets over HTTP/1.1.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    time::{Duration, Instant},
};

use super::{
    server::Recorder,
    support::{Proxy, status},
};

const SWITCHED: &str = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n";
const ASK: &str = "GET /chat HTTP/1.1\r\nHost: shop\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n\
                   Sec-WebSocket-Key: k\r\nSec-WebSocket-Version: 13\r\n\r\n";

/// A server that agrees, and then sends back what it gets.
fn echo() -> Recorder {
    Recorder::new(|stream, _| {
        stream.write_all(SWITCHED.as_bytes()).unwrap();
        let _ = std::io::copy(&mut stream.try_clone().unwrap(), stream);
        false
    })
}

/// A connection that is a WebSocket, and the lines of the answer that made it one.
fn open(proxy: &Proxy) -> (BufReader<TcpStream>, Vec<String>) {
    let mut stream = BufReader::new(proxy.connect());
    stream.get_mut().write_all(ASK.as_bytes()).unwrap();
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        match line.trim_end() {
            "" => return (stream, lines),
            line => lines.push(line.to_ascii_lowercase()),
        }
    }
}

#[test]
fn both_sides_get_what_the_other_says() {
    let server = echo();
    let proxy = Proxy::before(server.address);
    let (mut stream, lines) = open(&proxy);
    assert!(lines[0].starts_with("http/1.1 101"), "{lines:?}");
    for expected in ["upgrade: websocket", "connection: upgrade", "sec-websocket-accept: x"] {
        assert!(lines.iter().any(|line| line == expected), "{lines:?}");
    }
    let got = server.next();
    for expected in ["upgrade: websocket\r\n", "connection: upgrade\r\n", "sec-websocket-key: k\r\n"] {
        assert!(got.contains(expected), "{got}");
    }
    for message in [&b"hello"[..], &[0, 255, 13, 10], &[7; 100_000]] {
        stream.get_mut().write_all(message).unwrap();
        let mut back = vec![0; message.len()];
        stream.read_exact(&mut back).unwrap();
        assert!(back == message);
    }
    // That one side has said all is passed on, too.
    stream.get_mut().shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0);
}

#[test]
fn a_server_that_does_not_agree_answers_as_always() {
    let server = Recorder::answering("HTTP/1.1 403 Forbidden\r\ncontent-length: 2\r\n\r\nno");
    let proxy = Proxy::before(server.address);
    let answer = proxy.send(ASK.replace("keep-alive, Upgrade", "close, Upgrade"));
    assert_eq!(status(&answer), 403);
}

#[test]
fn a_silent_websocket_ends() {
    let server = echo();
    let proxy =
        Proxy::new(&format!("routes: [{{timeouts: {{idle: 1s}}, upstreams: 'http://{}'}}]", server.address));
    let (mut stream, _) = open(&proxy);
    stream.get_mut().write_all(b"x").unwrap();
    stream.read_exact(&mut [0; 1]).unwrap();
    assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0);
}

#[tokio::test]
async fn a_stop_ends_websockets() {
    let server = echo();
    let proxy = Proxy::before(server.address);
    let (mut stream, _) = open(&proxy);
    let start = Instant::now();
    proxy.servers.drain().await;
    // Those who wait for an answer would have had ten seconds.
    assert!(start.elapsed() < Duration::from_secs(9), "{:?}", start.elapsed());
    assert_eq!(stream.read(&mut [0; 1]).unwrap_or(0), 0);
}
