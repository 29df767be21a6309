//! More at once than the reverse proxy has room for, of everything that a client can make it hold: bodies that no
//! server reads, answers that no client reads, and streams. Who asks for too much is told so, all others are served,
//! and memory is bounded.

use std::{
    convert::Infallible,
    io::Write as _,
    net::{SocketAddr, TcpStream},
};

use axum::{
    Router,
    body::Body,
    routing::{get, post},
};
use tempfile::TempDir;
use tokio::{net::TcpSocket, runtime::Runtime};

use crate::{
    http::{Answer, request},
    process::{Process, free_address, get as ask, until, without_rights},
    proxy::{UNLIMITED, start_proxy_with},
    proxy_load::{memory, piece},
};

/// Files that the daemon may have open; 256 of them are not for clients.
const FILES: usize = 2_756;
/// Requests that are passed on at once then: a fifth of the rest.
const ROOM: usize = 500;
/// Pieces of 64 KiB in an answer and in a body: more than all buffers on the way take.
const PIECES: usize = 1_600;
/// Clients that want a lot, too.
const OTHERS: u8 = 3;
/// Requests on a connection over HTTP/2.
const STREAMS: usize = 25;

struct Flooded {
    address: SocketAddr,
    metrics: SocketAddr,
    daemon: Process,
    runtime: Runtime,
    _directory: TempDir,
}

impl Flooded {
    fn start() -> Self {
        let runtime = Runtime::new().unwrap();
        let large = || async {
            Body::from_stream(tokio_stream::iter(
                (0..PIECES).map(|number| Ok::<_, Infallible>(piece(number))),
            ))
        };
        // It takes the body, and never reads it.
        let hold = |body: Body| async {
            std::future::pending::<()>().await;
            drop(body);
        };
        let app = Router::new()
            .route("/", get(|| async { "a page" }))
            .route("/large", get(large))
            .route("/hold", post(hold));
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let server = listener.local_addr().unwrap();
        runtime.spawn(async move { axum::serve(listener, app).await });
        let (directory, metrics) = (tempfile::tempdir().unwrap(), free_address());
        let mut command = without_rights("prlimit");
        command.arg(format!("--nofile={FILES}")).arg(env!("CARGO_BIN_EXE_ratelimit"));
        let config = format!("metrics: {{listen: '{metrics}'}}\n{UNLIMITED}");
        let (address, daemon) = start_proxy_with(command, &directory, server, &config);
        Self { address, metrics, daemon, runtime, _directory: directory }
    }

    /// A connection of a client of its own.
    fn connect(&self, client: u8) -> TcpStream {
        let stream = self.runtime.block_on(async {
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind(SocketAddr::from(([127, 0, 0, client], 0))).unwrap();
            socket.connect(self.address).await.unwrap().into_std().unwrap()
        });
        stream.set_nonblocking(false).unwrap();
        stream
    }

    /// As many requests of each kind, none of which comes to an end.
    fn flood(&self, client: u8, each: usize) -> Vec<TcpStream> {
        let all = (0..each).flat_map(|_| [self.upload(client), self.download(client)]);
        all.chain((0..each / STREAMS).map(|_| self.streams(client))).collect()
    }

    fn upload(&self, client: u8) -> TcpStream {
        let mut stream = self.connect(client);
        let length = PIECES << 16;
        write!(stream, "POST /hold HTTP/1.1\r\nhost: shop\r\ncontent-length: {length}\r\n\r\n").unwrap();
        stream.set_nonblocking(true).unwrap();
        // As much as is taken at once; one that is turned away may be closed meanwhile.
        for number in 0..PIECES {
            if stream.write(&piece(number)).is_err() {
                break;
            }
        }
        stream
    }

    fn download(&self, client: u8) -> TcpStream {
        let mut stream = self.connect(client);
        stream.write_all(b"GET /large HTTP/1.1\r\nhost: shop\r\n\r\n").unwrap();
        stream
    }

    /// Requests over HTTP/2, and nothing is taken of any answer: the windows have no room.
    fn streams(&self, client: u8) -> TcpStream {
        let mut stream = self.connect(client);
        let mut all = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\x06\x04\0\0\0\0\0\0\x04\0\0\0\0".to_vec();
        for number in 0..STREAMS {
            let stream = u32::try_from(2 * number + 1).unwrap().to_be_bytes();
            // `GET /large` of `shop`.
            all.extend([&b"\0\0\x10\x01\x05"[..], &stream, b"\x82\x86\x04\x06/large\x01\x04shop"].concat());
        }
        stream.write_all(&all).unwrap();
        stream
    }

    /// Requests on their way, and those that there was no room for.
    fn counts(&self) -> (usize, usize) {
        let text = ask(self.metrics, "/metrics", &[]).body;
        let count = |name: &str, label: &str| {
            let line = text.lines().find(|line| line.starts_with(name) && line.contains(label)).unwrap();
            line.rsplit(' ').next().unwrap().parse::<f64>().unwrap() as usize
        };
        (count("ratelimit_proxy_in_flight", ""), count("ratelimit_proxy_turned_away_total", "busy"))
    }

    /// Requests on their way, when so many have either gone on theirs or been turned away.
    fn in_flight_of(&self, all: usize) -> usize {
        let mut counts = (0, 0);
        until("all requests", || {
            counts = self.counts();
            counts.0 + counts.1 >= all
        });
        counts.0
    }

    /// Whether this client gets all that it asks for, one after the other.
    fn serves(&self, client: u8) -> bool {
        let answers = (0..20).map(|_| Answer::read(self.connect(client), &request("GET", "/", &[], b"")));
        answers.into_iter().all(|answer| answer.status == 200 && answer.body == "a page")
    }
}

#[test]
fn whoever_asks_for_more_than_there_is_room_for_hurts_nobody_else() {
    let proxy = Flooded::start();
    let before = memory(proxy.daemon.id(), "VmHWM:");
    // One client alone wants half as much again as there is, and gets half of it.
    let each = ROOM / 2;
    let mut held = vec![proxy.flood(2, each)];
    let in_flight = proxy.in_flight_of(3 * each);
    assert!((ROOM / 2 - 20..=ROOM / 2 + 20).contains(&in_flight), "{in_flight} of {ROOM}");
    assert!(proxy.serves(3), "a neighbour is served");
    // Each of those who come then gets as much as is left at most.
    held.extend((10..10 + OTHERS).map(|client| proxy.flood(client, STREAMS)));
    let in_flight = proxy.in_flight_of(3 * each + usize::from(OTHERS) * 3 * STREAMS);
    assert!((ROOM / 2..ROOM).contains(&in_flight), "{in_flight} of {ROOM}");
    assert!(proxy.serves(4), "a newcomer is served");
    let grown = memory(proxy.daemon.id(), "VmHWM:") - before;
    assert!(grown < 200, "{grown} MiB for {in_flight} requests");
    // When they are gone, so is what they asked for, but for bodies that the server still has time to read.
    drop(held);
    let bodies = ROOM / 4 + usize::from(OTHERS) * STREAMS;
    until("the end of all answers and streams", || proxy.counts().0 <= bodies);
    assert!(proxy.serves(2));
}
