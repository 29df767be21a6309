//! The client's address as a key.

use std::net::{IpAddr, SocketAddr};

use http::Request;

use super::KeyExtractor;
use crate::{client_address, prefix::Prefix};

/// The address of the client behind trusted proxies, or the network around it.
///
/// It needs to know who is connected: with axum serve `into_make_service_with_connect_info::<SocketAddr>()`; tonic's
/// own server says so itself; any other server puts a `SocketAddr` into the requests' extensions. All requests whose
/// client can't be told share one key, `None`: those for which nobody says the peer's address, as on a Unix socket, and
/// those for which the trusted proxies name no address.
///
/// ```
/// use ratelimit_limiter::tower::ClientAddress;
/// # use ratelimit_limiter::{Limiter, tower::RateLimitLayer};
/// # fn layer(limiter: Limiter) {
///
/// // Behind one proxy, and with a bucket for each /24 of IPv4.
/// let client = ClientAddress { trusted_hops: 1, ipv4: 24, ..ClientAddress::default() };
/// let layer = RateLimitLayer::by_key(limiter, client);
/// # let _ = layer;
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientAddress {
    /// How many proxies in front add the address of who speaks to them.
    pub trusted_hops: u8,
    /// How many bits of an IPv4 address count.
    pub ipv4: u8,
    /// How many bits of an IPv6 address count.
    pub ipv6: u8,
}

impl Default for ClientAddress {
    /// Without proxies; whole IPv4 addresses, and IPv6 by /64, which one client usually has to itself.
    fn default() -> Self {
        Self { trusted_hops: 0, ipv4: 32, ipv6: 64 }
    }
}

impl<B> KeyExtractor<B> for ClientAddress {
    type Key = Option<Prefix>;

    fn key(&self, request: &Request<B>) -> Option<Option<Prefix>> {
        let around = |address: IpAddr| {
            Prefix::around(address, if address.is_ipv4() { self.ipv4.min(32) } else { self.ipv6.min(128) })
        };
        Some(client_address::client(request.headers(), peer(request), self.trusted_hops).and_then(around))
    }
}

fn peer<B>(request: &Request<B>) -> Option<IpAddr> {
    let extensions = request.extensions();
    #[cfg(feature = "axum")]
    if let Some(axum::extract::ConnectInfo(address)) =
        extensions.get::<axum::extract::ConnectInfo<SocketAddr>>()
    {
        return Some(address.ip());
    }
    #[cfg(feature = "tonic")]
    if let Some(connected) = extensions.get::<tonic::transport::server::TcpConnectInfo>() {
        return connected.remote_addr().map(|address| address.ip());
    }
    extensions.get::<SocketAddr>().map(SocketAddr::ip)
}
