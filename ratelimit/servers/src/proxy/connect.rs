//! Connecting to a server: its addresses, TCP, TLS, and what is spoken then.

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, lookup_host},
    time::timeout,
};
use tokio_rustls::{
    TlsConnector,
    rustls::{ClientConfig, pki_types::ServerName},
};

use super::{
    body::Upload,
    failure::UpstreamFailure,
    pool::{Alone, Shared},
};
use crate::policy::application::{Scheme, UpstreamUrl};

/// How long a name's addresses are believed, and how long at least if connecting fails.
const BELIEVED: Duration = Duration::from_secs(30);
const DOUBTED_AFTER: Duration = Duration::from_secs(1);
/// Bytes of an answer's headers, and of what is read at once of its body.
const BUFFER: usize = 64 << 10;
/// What a server may send of one answer over HTTP/2 before it is passed on, and of all of them.
const WINDOWS: (u32, u32) = (64 << 10, 1 << 20);
/// How often a server over HTTP/2 is asked whether it is still there, and how long its answer may take.
const PING: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(10));

/// A new connection.
pub enum Connection {
    /// Over HTTP/1.
    Alone(Alone),
    /// Over HTTP/2.
    Shared(Shared),
}

/// Where a server is, as far as that is known.
#[derive(Debug, Default)]
pub struct UpstreamAddresses {
    known: Mutex<KnownAddresses>,
}

#[derive(Debug, Default)]
struct KnownAddresses {
    /// When they were found; `None` if they are not believed any more.
    since: Option<Instant>,
    addresses: Vec<SocketAddr>,
}

impl UpstreamAddresses {
    fn fresh(&self) -> Option<Vec<SocketAddr>> {
        let known = self.lock();
        let is_fresh = known.since.is_some_and(|since| since.elapsed() < BELIEVED);
        is_fresh.then(|| known.addresses.clone())
    }

    /// Lets them be looked up again.
    fn doubt(&self) {
        self.lock().since.take_if(|since| since.elapsed() >= DOUBTED_AFTER);
    }

    /// Those that were found last.
    pub fn known(&self) -> Vec<SocketAddr> {
        self.lock().addresses.clone()
    }

    fn lock(&self) -> MutexGuard<'_, KnownAddresses> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn find(&self, url: &UpstreamUrl) -> Result<Vec<SocketAddr>, UpstreamFailure> {
        if let Some(addresses) = self.fresh() {
            return Ok(addresses);
        }
        let found = lookup_host((url.host.as_str(), url.port)).await.map_err(|_| UpstreamFailure::Name)?;
        let addresses: Vec<SocketAddr> = found.collect();
        if addresses.is_empty() {
            return Err(UpstreamFailure::Name);
        }
        *self.lock() = KnownAddresses { since: Some(Instant::now()), addresses: addresses.clone() };
        Ok(addresses)
    }
}

/// TLS with a server.
#[derive(Clone, Debug)]
pub struct TlsTo {
    /// HTTP/2 if the server speaks it, else HTTP/1.
    pub any: Arc<ClientConfig>,
    /// HTTP/1 alone, as for WebSockets.
    pub http1: Arc<ClientConfig>,
    /// The name that its certificate has to have.
    pub name: ServerName<'static>,
}

/// Connects to one of a server's addresses, within a time.
///
/// # Errors
/// Why that fails. Nothing was sent of a request then.
pub async fn connect(
    url: &UpstreamUrl,
    addresses: &UpstreamAddresses,
    tls: Option<&TlsTo>,
    is_upgrade: bool,
    time: Duration,
) -> Result<Connection, UpstreamFailure> {
    let connecting = async {
        let stream = reach(&addresses.find(url).await?)
            .await
            .map_err(|error| UpstreamFailure::of_connecting(&error))?;
        match (url.scheme, tls) {
            (Scheme::H2c, _) => speak_http2(stream).await,
            (Scheme::Https, Some(tls)) => over_tls(stream, tls, is_upgrade).await,
            (Scheme::Https, None) => Err(UpstreamFailure::Tls),
            (Scheme::Http, _) => speak_http1(stream).await,
        }
    };
    let connected = timeout(time, connecting).await.unwrap_or(Err(UpstreamFailure::ConnectTimeout));
    if connected.is_err() {
        addresses.doubt();
    }
    connected
}

async fn reach(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let mut failed = io::ErrorKind::AddrNotAvailable.into();
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => {
                // It only makes requests late if it fails.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

async fn over_tls(stream: TcpStream, tls: &TlsTo, is_upgrade: bool) -> Result<Connection, UpstreamFailure> {
    let config = Arc::clone(if is_upgrade { &tls.http1 } else { &tls.any });
    let stream = TlsConnector::from(config)
        .connect(tls.name.clone(), stream)
        .await
        .map_err(|_| UpstreamFailure::Tls)?;
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    if is_http2 { speak_http2(stream).await } else { speak_http1(stream).await }
}

async fn speak_http1<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
    stream: S,
) -> Result<Connection, UpstreamFailure> {
    let mut builder = http1::Builder::new();
    // Requests are short: one piece of memory is sent faster than two.
    builder.max_buf_size(BUFFER).writev(false);
    let (sender, connection) =
        builder.handshake::<_, Upload>(TokioIo::new(stream)).await.map_err(|_| UpstreamFailure::Closed)?;
    // What it ends with, the request on it hears.
    tokio::spawn(async move { drop(connection.with_upgrades().await) });
    Ok(Connection::Alone(sender))
}

async fn speak_http2<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
    stream: S,
) -> Result<Connection, UpstreamFailure> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_header_list_size(BUFFER as u32)
        .initial_stream_window_size(WINDOWS.0)
        .initial_connection_window_size(WINDOWS.1)
        .keep_alive_interval(PING.0)
        .keep_alive_timeout(PING.1);
    let (sender, connection) =
        builder.handshake::<_, Upload>(TokioIo::new(stream)).await.map_err(|_| UpstreamFailure::Closed)?;
    tokio::spawn(async move { drop(connection.await) });
    Ok(Connection::Shared(sender))
}

#[cfg(test)]
mod tests {
    //! How long a name's addresses are believed.

    use super::*;

    fn known_since(age: Duration) -> UpstreamAddresses {
        let since = Instant::now().checked_sub(age);
        let addresses = vec![([192, 0, 2, 1], 80).into()];
        UpstreamAddresses { known: Mutex::new(KnownAddresses { since, addresses }) }
    }

    async fn is_loopback(addresses: &UpstreamAddresses) -> bool {
        let url = UpstreamUrl { scheme: Scheme::Http, host: "localhost".to_owned(), port: 80 };
        let found = addresses.find(&url).await.unwrap_or_default();
        found.iter().all(|address| address.ip().is_loopback()) && !found.is_empty()
    }

    #[tokio::test]
    async fn names_are_looked_up_again() {
        let fresh = known_since(BELIEVED / 2);
        assert!(!is_loopback(&fresh).await, "it is believed still");
        assert!(is_loopback(&known_since(BELIEVED)).await);
        // Nobody answers at that address.
        fresh.doubt();
        assert!(!fresh.known().is_empty(), "it is the last that is known");
        assert!(is_loopback(&fresh).await);
        fresh.doubt();
        assert!(fresh.fresh().is_some(), "what was just found is not doubted");
    }
}
