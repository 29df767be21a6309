//! The demo's traffic: two clients that send UDP packets at their own pace, and a server that counts what arrives.
//!
//! Each packet carries the second in which it was sent, and is counted there by both sides, however late it arrives.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use nix::sys::socket::{setsockopt, sockopt};

use super::lab::{SERVER, enter_clients_namespace};
use super::{FLOOD_BEGINS, FLOOD_ENDS, SECONDS};

const PORT: u16 = 9;

/// A packet's payload.
const PAYLOAD_BYTES: usize = 64;

/// How often a client looks at what is due.
const PACE: Duration = Duration::from_millis(1);

/// A client that falls further behind than this leaves packets out.
const MOST_BEHIND: Duration = Duration::from_millis(100);

/// A client.
pub struct Client {
    /// Its own address.
    pub address: Ipv4Addr,
    /// Packets a second.
    pub rate: u64,
    /// The seconds in which it sends.
    pub active: Range<usize>,
}

/// The well-behaved one, then the flooding one.
pub const CLIENTS: [Client; 2] = [
    Client { address: Ipv4Addr::new(192, 0, 2, 10), rate: 200, active: 0..SECONDS },
    Client { address: Ipv4Addr::new(192, 0, 2, 66), rate: 50_000, active: FLOOD_BEGINS..FLOOD_ENDS },
];

/// What became of one client's packets.
#[derive(Clone, Copy, Default)]
pub struct Count {
    /// Packets that left the client.
    pub sent: u64,
    /// Packets that the server received.
    pub arrived: u64,
}

impl Count {
    /// Packets that left and did not arrive.
    pub const fn dropped(self) -> u64 {
        self.sent.saturating_sub(self.arrived)
    }
}

/// For each client and second, what was sent and what arrived.
#[derive(Default)]
struct Tally([[(AtomicU64, AtomicU64); SECONDS]; CLIENTS.len()]);

/// The traffic, which goes on until it is stopped.
pub struct Traffic {
    started: Instant,
    tally: Arc<Tally>,
    stop: Arc<AtomicBool>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Traffic {
    /// Starts the server, then the clients.
    pub fn start() -> Result<Self> {
        let (tally, stop) = (Arc::new(Tally::default()), Arc::new(AtomicBool::new(false)));
        let server = server_socket()?;
        let sockets = [client_socket(&CLIENTS[0])?, client_socket(&CLIENTS[1])?];
        let started = Instant::now();
        let mut threads = Vec::new();
        for (index, socket) in sockets.into_iter().enumerate() {
            let (tally, stop) = (Arc::clone(&tally), Arc::clone(&stop));
            threads.push(thread::spawn(move || send(index, &socket, started, &tally, &stop)));
        }
        let (received, stopped) = (Arc::clone(&tally), Arc::clone(&stop));
        threads.push(thread::spawn(move || receive(&server, &received, &stopped)));
        Ok(Self { started, tally, stop, threads })
    }

    /// When the first second began.
    pub const fn started(&self) -> Instant {
        self.started
    }

    /// What became of the packets of one second, by client.
    pub fn second(&self, second: usize) -> [Count; CLIENTS.len()] {
        [0, 1].map(|client| {
            let (sent, arrived) = &self.tally.0[client][second];
            Count { sent: sent.load(Ordering::Relaxed), arrived: arrived.load(Ordering::Relaxed) }
        })
    }

    /// Whether anything was sent in a second.
    pub fn has_sent(&self, second: usize) -> bool {
        self.second(second).iter().any(|count| count.sent > 0)
    }

    /// What became of the packets of these seconds, by client.
    pub fn total(&self, seconds: Range<usize>) -> [Count; CLIENTS.len()] {
        let mut total = [Count::default(); CLIENTS.len()];
        for second in seconds {
            for (sum, count) in total.iter_mut().zip(self.second(second)) {
                sum.sent += count.sent;
                sum.arrived += count.arrived;
            }
        }
        total
    }

    /// Ends all clients, then the server, when nothing comes any more.
    pub fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

/// Made in a thread of its own, because it leaves the server's namespace for good; the socket stays where it was made.
fn client_socket(client: &'static Client) -> Result<UdpSocket> {
    let (sender, made) = mpsc::channel();
    thread::spawn(move || {
        let socket = enter_clients_namespace().and_then(|()| {
            let socket = UdpSocket::bind((client.address, 0)).context("making a client's socket")?;
            socket.connect((SERVER, PORT)).context("addressing the server")?;
            Ok(socket)
        });
        // The receiver waits for it.
        let _ = sender.send(socket);
    });
    made.recv().context("making a client's socket")?
}

fn server_socket() -> Result<UdpSocket> {
    const BUFFER: usize = 8 << 20;
    let socket = UdpSocket::bind((SERVER, PORT)).context("making the server's socket")?;
    setsockopt(&socket, sockopt::RcvBufForce, &BUFFER).context("enlarging the server's buffer")?;
    socket.set_read_timeout(Some(Duration::from_millis(200))).context("setting a timeout")?;
    Ok(socket)
}

fn send(index: usize, socket: &UdpSocket, started: Instant, tally: &Tally, stop: &AtomicBool) {
    let Client { rate, ref active, .. } = CLIENTS[index];
    let due_after = |time: Duration| (time.as_nanos() * u128::from(rate) / 1_000_000_000) as u64;
    let most_behind = due_after(MOST_BEHIND);
    let mut done = 0;
    while !stop.load(Ordering::Relaxed) {
        let elapsed = started.elapsed();
        let second = elapsed.as_secs() as usize;
        if second >= active.end {
            break;
        }
        let begins = Duration::from_secs(active.start as u64);
        // The first one is due at once.
        let due = elapsed.checked_sub(begins).map_or(0, |active| due_after(active) + 1);
        done = due.min(done.max(due.saturating_sub(most_behind)));
        let sent = (done..due).filter(|_| socket.send(&[second as u8; PAYLOAD_BYTES]).is_ok()).count();
        tally.0[index][second].0.fetch_add(sent as u64, Ordering::Relaxed);
        done = due;
        thread::sleep(PACE);
    }
}

fn receive(socket: &UdpSocket, tally: &Tally, stop: &AtomicBool) {
    let mut packet = [0; PAYLOAD_BYTES];
    loop {
        match socket.recv_from(&mut packet) {
            Ok((_, SocketAddr::V4(from))) => {
                let client = CLIENTS.iter().position(|client| client.address == *from.ip());
                let second = client.and_then(|client| tally.0[client].get(usize::from(packet[0])));
                if let Some((_, arrived)) = second {
                    arrived.fetch_add(1, Ordering::Relaxed);
                }
            }
            // Nothing came for a while.
            _ if stop.load(Ordering::Relaxed) => return,
            _ => {}
        }
    }
}
