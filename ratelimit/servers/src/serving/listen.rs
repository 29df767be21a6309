//! Listeners: binding them without threads, taking connections from them, and what becomes of those that are too many.

use std::{
    fs, io,
    net::{IpAddr, SocketAddr},
    os::unix::fs::PermissionsExt as _,
    sync::Arc,
    time::{Duration, Instant},
};

use nix::sys::socket::{Backlog, listen};
use tokio::{
    net::{TcpListener, UnixListener},
    time::timeout,
};
use tracing::warn;

use super::{
    activity::Activity,
    announced::Announcers,
    bounds::HANDSHAKE_TIME,
    connection::{self, Client, Endpoint, Exchange, PeerAddress, Phase, Stream},
    overload::{ConnectionLimit, ConnectionPermit, Served},
};
use crate::{policy::application::ListenAddress, socket::ControlSocket, tls::Certificates};

/// How many clients may wait to be taken.
const BACKLOG: i32 = 1024;
/// After an error that does not go away by itself, such as too many open files.
const PAUSE: Duration = Duration::from_millis(100);
/// How often it is said at most that connections are refused.
const SAY_AGAIN: Duration = Duration::from_secs(60);

/// Where clients come in: a listening socket, and its certificates if it speaks TLS.
#[derive(Debug)]
pub struct Listener {
    bound: BoundSocket,
    /// Who says whom a connection comes from, if anybody does.
    proxies: Option<Arc<Announcers>>,
    tls: Option<Arc<Certificates>>,
    address: ListenAddress,
    /// A Unix socket's file, which is removed when this is dropped.
    _file: Option<ControlSocket>,
}

/// Bound without a runtime, so that there need not be threads before all listeners are.
#[derive(Debug)]
enum BoundSocket {
    Tcp(std::net::TcpListener),
    Unix(std::os::unix::net::UnixListener),
}

enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    /// At a port; clients wait until it runs.
    ///
    /// # Errors
    /// The address can't be had.
    pub fn tcp(address: SocketAddr) -> io::Result<Self> {
        let bound = bind_tcp(address)?;
        // With its real port, if any was asked for.
        let address = ListenAddress::Tcp(bound.local_addr()?);
        Ok(Self { bound: BoundSocket::Tcp(bound), proxies: None, tls: None, address, _file: None })
    }

    /// At a socket that its owner alone may open, and whose file is for whoever has made it.
    ///
    /// # Errors
    /// There is no descriptor for it.
    pub fn private(socket: &ControlSocket) -> io::Result<Self> {
        let (bound, address) =
            (socket.listener().try_clone()?, ListenAddress::Unix(socket.path().to_owned()));
        Ok(Self { bound: BoundSocket::Unix(bound), proxies: None, tls: None, address, _file: None })
    }

    /// At a socket that any user of this host may open, as a port on loopback; who may not is for its directory to say.
    ///
    /// # Errors
    /// The file's mode can't be changed.
    pub fn open_to_all(socket: ControlSocket) -> io::Result<Self> {
        fs::set_permissions(socket.path(), fs::Permissions::from_mode(0o666))?;
        let listener = Self::private(&socket)?;
        Ok(Self { _file: Some(socket), ..listener })
    }

    /// With TLS, if there are certificates.
    #[must_use]
    pub fn with_tls(self, tls: Option<Arc<Certificates>>) -> Self {
        Self { tls, ..self }
    }

    /// Where connections begin with whom they come from.
    #[must_use]
    pub fn with_announcers(self, announcers: Option<Announcers>) -> Self {
        Self { proxies: announcers.map(Arc::new), ..self }
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> &ListenAddress {
        &self.address
    }

    /// Its certificates, if it speaks TLS.
    #[must_use]
    pub const fn certificates(&self) -> Option<&Arc<Certificates>> {
        self.tls.as_ref()
    }

    /// Takes connections until whoever serves leaves; then those that were connected before.
    ///
    /// # Errors
    /// The runtime has no place for it.
    pub async fn run<E: Exchange>(self, room: Arc<ConnectionLimit>, endpoint: Endpoint<E>) -> io::Result<()> {
        let Self { bound, proxies, tls, address, _file } = self;
        let socket = bound.taken()?;
        let mut phase = endpoint.phase.clone();
        let (tls, proxies) = (tls.as_ref(), proxies.as_ref());
        let mut taking =
            Taking { address: &address, proxies, tls, room: &room, endpoint: &endpoint, said: None };
        loop {
            let accepted = tokio::select! {
                accepted = async { (room.wait().await, socket.accept().await) } => accepted,
                _ = phase.wait_for(|phase| *phase > Phase::Serving) => break,
            };
            match accepted {
                (place, Ok((stream, peer))) => taking.take(stream, peer, place).await,
                (_, Err(error)) if is_of_one_client(&error) => {}
                (_, Err(error)) => {
                    taking.say(&format_args!("can't take connections: {error}"));
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
        while let Some(Ok((stream, peer))) = socket.accept_waiting().await {
            taking.take(stream, peer, None).await;
        }
        Ok(())
    }
}

/// What a listener takes connections with.
struct Taking<'l, E> {
    address: &'l ListenAddress,
    proxies: Option<&'l Arc<Announcers>>,
    tls: Option<&'l Arc<Certificates>>,
    room: &'l ConnectionLimit,
    endpoint: &'l Endpoint<E>,
    /// When it was said last that something is wrong.
    said: Option<Instant>,
}

impl<E: Exchange> Taking<'_, E> {
    async fn take(&mut self, stream: Box<dyn Stream>, peer: PeerAddress, place: Option<ConnectionPermit>) {
        let place = if place.is_some() { place } else { self.room.admit(peer.0).await };
        let Some(place) = place else {
            self.endpoint.exchange.refused();
            return self.say(&"too many connections; new ones are refused");
        };
        let (tls, proxies, endpoint) = (self.tls.cloned(), self.proxies.cloned(), self.endpoint.clone());
        let (open, activity) = (Open::new(&endpoint.exchange), Activity::new(&endpoint.bounds.times));
        let noted = Arc::clone(&activity);
        let task = tokio::spawn(async move {
            let _held = (place, open);
            let Some((stream, peer)) = announced(proxies, stream, peer).await else { return };
            let is_tls = tls.is_some();
            let stream = match tls {
                None => stream,
                Some(tls) => match handshake(&tls, stream, &endpoint).await {
                    Some(stream) => stream,
                    None => return,
                },
            };
            connection::serve(stream, Client::new(peer, is_tls), activity, endpoint).await;
        });
        self.room.note(Served { from: peer.0, task: task.abort_handle(), activity: noted });
    }

    fn say(&mut self, what: &dyn std::fmt::Display) {
        if self.said.is_none_or(|said| said.elapsed() >= SAY_AGAIN) {
            self.said = Some(Instant::now());
            warn!(address = %self.address, "{what}");
        }
    }
}

/// A connection and whom it comes from, if it says so as it has to; else it is not served.
async fn announced(
    announcers: Option<Arc<Announcers>>,
    mut stream: Box<dyn Stream>,
    peer: PeerAddress,
) -> Option<(Box<dyn Stream>, PeerAddress)> {
    let Some(announcers) = announcers else { return Some((stream, peer)) };
    let announced = timeout(HANDSHAKE_TIME, announcers.client(&mut stream, peer)).await;
    Some((stream, announced.ok()??))
}

/// What is said over TLS; `None` if a client does not get through the handshake, which it finds out by itself.
async fn handshake<E>(
    tls: &Arc<Certificates>,
    stream: Box<dyn Stream>,
    endpoint: &Endpoint<E>,
) -> Option<Box<dyn Stream>> {
    let handshake = async { tls.acceptor().await.accept(stream).await };
    let accepted = tokio::select! {
        biased;
        accepted = timeout(HANDSHAKE_TIME, handshake) => accepted,
        // Nothing has been asked before TLS.
        () = endpoint.ending() => return None,
    };
    Some(Box::new(accepted.ok()?.ok()?))
}

/// A connection that is counted as open.
struct Open<E: Exchange>(E);

impl<E: Exchange> Open<E> {
    fn new(exchange: &E) -> Self {
        exchange.opened();
        Self(exchange.clone())
    }
}

impl<E: Exchange> Drop for Open<E> {
    fn drop(&mut self) {
        self.0.closed();
    }
}

impl BoundSocket {
    /// In the runtime that it is called in.
    fn taken(&self) -> io::Result<Socket> {
        match self {
            Self::Tcp(listener) => Ok(Socket::Tcp(TcpListener::from_std(listener.try_clone()?)?)),
            Self::Unix(listener) => Ok(Socket::Unix(UnixListener::from_std(listener.try_clone()?)?)),
        }
    }
}

impl Socket {
    async fn accept(&self) -> io::Result<(Box<dyn Stream>, PeerAddress)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                // It only makes answers late if it fails.
                let _ = stream.set_nodelay(true);
                Ok((Box::new(stream), PeerAddress(Some(address_of(peer)))))
            }
            Self::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                Ok((Box::new(stream), PeerAddress(None)))
            }
        }
    }

    /// A connection that waits already.
    async fn accept_waiting(&self) -> Option<io::Result<(Box<dyn Stream>, PeerAddress)>> {
        tokio::select! {
            biased;
            accepted = self.accept() => Some(accepted),
            () = std::future::ready(()) => None,
        }
    }
}

fn address_of(peer: SocketAddr) -> IpAddr {
    peer.ip().to_canonical()
}

/// Whether the error is about a client that is gone, and says nothing of the next.
fn is_of_one_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

fn bind_tcp(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let listener = std::net::TcpListener::bind(address)?;
    // Once more, with room for more to wait.
    listen(&listener, Backlog::new(BACKLOG)?)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}
