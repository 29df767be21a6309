//! Listeners: making them, taking connections from them, and refusing those that are too many.

use std::{
    fs, io,
    net::{IpAddr, SocketAddr},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use nix::sys::socket::{Backlog, listen};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, UnixListener},
    sync::Semaphore,
};
use tracing::warn;

use super::{
    ServerError,
    connection::{self, PeerAddress, Phase, Protocol, Site},
    limits,
    tls::Certificates,
};
use crate::{
    policy::application::{ListenAddress, Listener},
    socket::ControlSocket,
};

/// How many clients may wait to be taken.
const BACKLOG: i32 = 1024;
/// After an error that does not go away by itself, such as too many open files.
const PAUSE: Duration = Duration::from_millis(100);
/// How often it is said at most that connections are refused.
const SAY_AGAIN: Duration = Duration::from_secs(60);

/// Where clients come in: a listening socket, and what is spoken there.
#[derive(Debug)]
pub struct Door {
    bound: Bound,
    tls: Option<Arc<Certificates>>,
    address: ListenAddress,
    /// Of a Unix socket: removed when this is dropped.
    _file: Option<ControlSocket>,
}

/// Bound without a runtime, so that there need not be threads before all listeners are.
#[derive(Debug)]
enum Bound {
    Tcp(std::net::TcpListener),
    Unix(std::os::unix::net::UnixListener),
}

enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

impl Door {
    /// Binds it; clients wait until it runs.
    ///
    /// # Errors
    /// The address can't be had, or a certificate not be used.
    pub fn bind(listener: &Listener, protocol: Protocol) -> Result<Self, ServerError> {
        let tls = listener
            .tls
            .clone()
            .map(|files| Certificates::load(files, protocol.alpn()).map(Arc::new))
            .transpose()?;
        let failed = |source| ServerError::Bind { address: listener.address.to_string(), source };
        let (bound, file) = match &listener.address {
            ListenAddress::Tcp(address) => (Bound::Tcp(bind_tcp(*address).map_err(failed)?), None),
            ListenAddress::Unix(path) => {
                let file = ControlSocket::bind(path)
                    .map_err(|error| ServerError::of_socket(&listener.address, error))?;
                (Bound::Unix(open_to_all(&file, path).map_err(failed)?), Some(file))
            }
        };
        let address = match &bound {
            // With its real port, if any was asked for.
            Bound::Tcp(listener) => ListenAddress::Tcp(listener.local_addr().map_err(failed)?),
            Bound::Unix(_) => listener.address.clone(),
        };
        Ok(Self { bound, tls, address, _file: file })
    }

    /// Where it listens.
    pub const fn address(&self) -> &ListenAddress {
        &self.address
    }

    /// Its certificates, if it speaks TLS.
    pub const fn certificates(&self) -> Option<&Arc<Certificates>> {
        self.tls.as_ref()
    }

    /// Takes connections until the servers leave; then those that were connected before.
    pub async fn run(self, room: Arc<Semaphore>, mut site: Site) {
        let mut said = None;
        let socket = match self.bound.taken() {
            Ok(socket) => socket,
            Err(error) => return self.say(&mut said, &format_args!("can't take connections: {error}")),
        };
        loop {
            let accepted = tokio::select! {
                accepted = socket.accept() => accepted,
                _ = site.phase.wait_for(|phase| *phase > Phase::Serving) => break,
            };
            match accepted {
                Ok((stream, peer)) => self.take(stream, peer, &room, &site, &mut said),
                Err(error) if is_of_one_client(&error) => {}
                Err(error) => {
                    self.say(&mut said, &format_args!("can't take connections: {error}"));
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
        while let Some(Ok((stream, peer))) = socket.accept_waiting().await {
            self.take(stream, peer, &room, &site, &mut said);
        }
    }

    fn take(
        &self,
        stream: Box<dyn Stream>,
        peer: PeerAddress,
        room: &Arc<Semaphore>,
        site: &Site,
        said: &mut Option<Instant>,
    ) {
        let Ok(permit) = Arc::clone(room).try_acquire_owned() else {
            site.stats.refused_one();
            return self.say(said, &"too many connections; new ones are refused");
        };
        let (tls, site, held) = (self.tls.clone(), site.clone(), (permit, site.stats.opened()));
        tokio::spawn(async move {
            let _held = held;
            let Some(tls) = tls else { return connection::serve(stream, peer, site).await };
            let handshake = async { tls.acceptor().await.accept(stream).await };
            let accepted = tokio::select! {
                biased;
                accepted = tokio::time::timeout(limits::HANDSHAKE_TIME, handshake) => accepted,
                // Nothing has been asked before TLS.
                () = site.ending() => return,
            };
            // A client that does not get through it finds out by itself.
            if let Ok(Ok(stream)) = accepted {
                connection::serve(stream, peer, site).await;
            }
        });
    }

    fn say(&self, said: &mut Option<Instant>, what: &dyn std::fmt::Display) {
        if said.is_none_or(|said| said.elapsed() >= SAY_AGAIN) {
            *said = Some(Instant::now());
            warn!(address = %self.address, "{what}");
        }
    }
}

impl Bound {
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

/// Any user of this host may connect, as to a port on loopback; who may not is for its directory to say.
fn open_to_all(file: &ControlSocket, path: &Path) -> io::Result<std::os::unix::net::UnixListener> {
    fs::set_permissions(path, fs::Permissions::from_mode(0o666))?;
    file.listener().try_clone()
}
