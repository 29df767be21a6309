//! Servers behind the proxy that show every byte of what they get.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
        mpsc::{Receiver, Sender, channel},
    },
    thread,
    time::Duration,
};

use super::support::PATIENCE;

/// What most servers answer.
pub const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// A server that notes what it gets, whole requests in order.
pub struct Recorder {
    pub address: SocketAddr,
    pub connections: Arc<AtomicUsize>,
    received: Receiver<Vec<u8>>,
}

impl Recorder {
    /// One that answers each request with these bytes.
    pub fn answering(answer: impl Into<Vec<u8>>) -> Self {
        let answer = answer.into();
        Self::new(move |stream, _| stream.write_all(&answer).is_ok())
    }

    /// One that does this with each request, and goes on with the connection if that says so.
    pub fn new(answer: impl Fn(&mut TcpStream, &[u8]) -> bool + Clone + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, received) = channel();
        let connections = Arc::<AtomicUsize>::default();
        let count = Arc::clone(&connections);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                count.fetch_add(1, Relaxed);
                let (sender, answer) = (sender.clone(), answer.clone());
                thread::spawn(move || serve(stream, &sender, &answer));
            }
        });
        Self { address, connections, received }
    }

    /// The next request, as it came.
    pub fn next(&self) -> String {
        String::from_utf8_lossy(&self.received.recv_timeout(PATIENCE).unwrap()).into_owned()
    }

    /// The same with its header lines in order.
    pub fn next_sorted(&self) -> Vec<String> {
        sorted(&self.next())
    }

    /// What has come, or comes soon, if anything does.
    pub fn try_next(&self) -> Option<String> {
        let received = self.received.recv_timeout(Duration::from_millis(300)).ok()?;
        Some(String::from_utf8_lossy(&received).into_owned())
    }

    /// Whether there is no other request.
    pub fn has_nothing(&self) -> bool {
        self.received.try_recv().is_err()
    }
}

/// A request by its lines: the first one, the headers in order, the body.
pub fn sorted(request: &str) -> Vec<String> {
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    let mut lines: Vec<String> = head.split("\r\n").map(str::to_owned).collect();
    lines[1..].sort();
    lines.push(body.to_owned());
    lines
}

fn serve(mut stream: TcpStream, sender: &Sender<Vec<u8>>, answer: &impl Fn(&mut TcpStream, &[u8]) -> bool) {
    let mut received = Vec::new();
    loop {
        let mut buffer = [0; 4096];
        match stream.read(&mut buffer) {
            Ok(length) if length > 0 => received.extend_from_slice(&buffer[..length]),
            // What is no whole request is shown, too.
            _ if !received.is_empty() => return drop(sender.send(received)),
            _ => return,
        }
        while let Some(length) = whole(&received) {
            let request: Vec<u8> = received.drain(..length).collect();
            let _ = sender.send(request.clone());
            if !answer(&mut stream, &request) {
                return;
            }
        }
    }
}

/// The bytes of the request that is there whole.
fn whole(bytes: &[u8]) -> Option<usize> {
    let text = String::from_utf8_lossy(bytes);
    let head = text.find("\r\n\r\n")? + 4;
    let line = |name: &str| {
        let lines = text[..head].split("\r\n");
        lines
            .filter_map(|line| line.split_once(": "))
            .find(|(other, _)| *other == name)
            .map(|(_, value)| value)
    };
    if line("transfer-encoding").is_some() {
        let end = text[head..].find("0\r\n")?;
        return Some(head + end + text[head + end..].find("\r\n\r\n")? + 4);
    }
    let length = head + line("content-length").map_or(0, |length| length.parse().unwrap());
    (bytes.len() >= length).then_some(length)
}
