//! Who a request comes from: the address of the client behind the proxies that are trusted.
//!
//! Proxies write the address of whom they talk to at the right end of `X-Forwarded-For` or `Forwarded`; what stands
//! further to the left than the trusted proxies wrote may be a lie. So hops are counted from the right, and never is
//! the leftmost taken because it is the leftmost.

mod forwarded;

use std::net::IpAddr;

use http::{HeaderMap, HeaderName, HeaderValue};

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED: HeaderName = http::header::FORWARDED;

/// The client of a request that came from `peer` with these headers, through `trusted_hops` proxies, the peer included.
///
/// `None` if it can't be told: if there are fewer hops in the headers, if the one that counts is no address, or if both
/// headers are there and name different clients, since the proxies write one of them, and whoever sent the other one
/// means to deceive. The peer is not taken for the client then, since it is a proxy, whose address may have more rights
/// than a client's. Without proxies the client is the peer, which has no address on a Unix socket. An IPv4 address is
/// never in the form that IPv6 has for it, and an IPv6 address has no zone.
///
/// ```
/// use std::net::IpAddr;
///
/// use http::{HeaderMap, HeaderValue};
/// use ratelimit_limiter::client_address::client;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let peer: IpAddr = "10.0.0.1".parse()?;
/// let mut headers = HeaderMap::new();
/// // The client has claimed to be 192.0.2.1; the proxy that it came through wrote who it really is.
/// headers.insert("x-forwarded-for", HeaderValue::from_static("192.0.2.1, 198.51.100.7"));
/// assert_eq!(client(&headers, Some(peer), 1), Some("198.51.100.7".parse()?));
/// // Without a proxy nothing is believed.
/// assert_eq!(client(&headers, Some(peer), 0), Some(peer));
/// # Ok(())
/// # }
/// ```
#[must_use]
pub fn client(headers: &HeaderMap, peer: Option<IpAddr>, trusted_hops: u8) -> Option<IpAddr> {
    let by_peer = peer.map(|address| address.to_canonical());
    let Some(from_right) = usize::from(trusted_hops).checked_sub(1) else { return by_peer };
    let x_forwarded_for = headers.contains_key(X_FORWARDED_FOR).then(|| hop_of_list(headers, from_right));
    let forwarded = headers.contains_key(FORWARDED).then(|| forwarded::hop(headers, from_right));
    match (x_forwarded_for, forwarded) {
        (Some(one), Some(other)) if one == other => one,
        (Some(one), None) | (None, Some(one)) => one,
        _ => None,
    }
}

/// The hop of `X-Forwarded-For` that is so many from the right, over all its lines.
fn hop_of_list(headers: &HeaderMap, from_right: usize) -> Option<IpAddr> {
    let lines: Vec<&[u8]> = headers.get_all(X_FORWARDED_FOR).iter().map(HeaderValue::as_bytes).collect();
    // What is no text further left is a stranger's, and must not hide what a proxy wrote.
    let hops = lines.iter().rev().flat_map(|line| line.rsplit(|byte| *byte == b',')).map(<[u8]>::trim_ascii);
    node(str::from_utf8(hops.filter(|hop| !hop.is_empty()).nth(from_right)?).ok()?)
}

/// The address that a proxy writes, maybe with a port, which may be hidden behind a name (`[::1]:_port`).
fn node(text: &str) -> Option<IpAddr> {
    let address = match text.strip_prefix('[') {
        Some(rest) => rest.split_once(']').filter(|(_, port)| port.is_empty() || port.starts_with(':'))?.0,
        None if text.matches(':').count() == 1 => text.split_once(':')?.0,
        None => text,
    };
    let address = match address.split_once('%') {
        // Which link of its proxy's a client is on tells nothing, and is written in many ways.
        Some((address, zone)) if address.contains(':') && !zone.is_empty() => address,
        _ => address,
    };
    address.parse().ok().map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
mod tests;
