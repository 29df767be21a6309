//! Connections that begin with whom they come from: HAProxy's PROXY protocol, version 1 and 2, as balancers in front
//! write it.
//!
//! It is read strictly. What is not it, or comes from who may not say it, ends the connection: otherwise clients could
//! name others as themselves, or a health check of the protocol be taken for a request.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::connection::PeerAddress;
use crate::policy::Prefix;

/// What version 2 begins with.
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// The longest line of version 1, with its end.
const LONGEST_LINE: usize = 107;
/// Bytes behind the addresses of version 2 at most: those of a few certificates.
const LONGEST_REST: usize = 4096;

/// Who may say whom a connection comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Announcers {
    /// Whoever connects.
    All,
    /// Those in these networks, and whoever is on a Unix socket.
    Networks(Vec<Prefix>),
}

impl Announcers {
    fn has(&self, peer: PeerAddress) -> bool {
        match (self, peer.0) {
            (Self::All, _) | (_, None) => true,
            (Self::Networks(networks), Some(address)) => {
                Prefix::around(address, if address.is_ipv4() { 32 } else { 128 })
                    .is_some_and(|alone| networks.iter().any(|network| network.contains(&alone)))
            }
        }
    }

    /// Reads whom a connection of `peer` comes from; `None` if it is not to be served.
    pub(super) async fn client(
        &self,
        stream: &mut (impl AsyncRead + Unpin),
        peer: PeerAddress,
    ) -> Option<PeerAddress> {
        if !self.has(peer) {
            return None;
        }
        match read(stream).await {
            Ok(Announced::Client(client)) => Some(PeerAddress(Some(client.to_canonical()))),
            // As a balancer's health checks.
            Ok(Announced::Itself) => Some(peer),
            Err(_) => None,
        }
    }
}

/// What is said of a connection.
#[derive(Debug, PartialEq, Eq)]
enum Announced {
    /// It comes from there.
    Client(IpAddr),
    /// It comes from who speaks, or from whom is not known.
    Itself,
}

fn wrong() -> io::Error {
    io::ErrorKind::InvalidData.into()
}

async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Announced> {
    let mut start = [0; SIGNATURE.len()];
    // Neither version is shorter.
    stream.read_exact(&mut start).await?;
    if start == SIGNATURE {
        return read_binary(stream).await;
    }
    let mut line = start.to_vec();
    if !line.starts_with(b"PROXY ") {
        return Err(wrong());
    }
    // What follows the line is for others, so it is not read.
    while !line.ends_with(b"\r\n") {
        if line.len() >= LONGEST_LINE {
            return Err(wrong());
        }
        line.push(stream.read_u8().await?);
    }
    let line = line.strip_suffix(b"\r\n").and_then(|line| str::from_utf8(line).ok()).ok_or_else(wrong)?;
    of_line(line).ok_or_else(wrong)
}

fn of_line(line: &str) -> Option<Announced> {
    let mut words = line.split(' ');
    let (_, family) = (words.next()?, words.next()?);
    if family == "UNKNOWN" {
        return Some(Announced::Itself);
    }
    let (source, destination) = (words.next()?, words.next()?);
    let ports = [words.next()?, words.next()?];
    let is_port = |port: &&str| port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok();
    if words.next().is_some() || !ports.iter().all(is_port) {
        return None;
    }
    let address = |text: &str| -> Option<IpAddr> {
        match family {
            "TCP4" => text.parse::<Ipv4Addr>().ok().map(IpAddr::from),
            "TCP6" => text.parse::<Ipv6Addr>().ok().map(IpAddr::from),
            _ => None,
        }
    };
    let (source, _) = (address(source)?, address(destination)?);
    Some(Announced::Client(source))
}

async fn read_binary(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Announced> {
    let mut head = [0; 4];
    stream.read_exact(&mut head).await?;
    let [command, family, length @ ..] = head;
    let mut rest = vec![0; usize::from(u16::from_be_bytes(length)).min(LONGEST_REST + 1)];
    if rest.len() > LONGEST_REST {
        return Err(wrong());
    }
    stream.read_exact(&mut rest).await?;
    match (command, family) {
        (0x20, _) | (0x21, 0x00) => Ok(Announced::Itself),
        (0x21, 0x11) if rest.len() >= 12 => rest
            .first_chunk()
            .map(|source: &[u8; 4]| Announced::Client(IpAddr::from(*source)))
            .ok_or_else(wrong),
        (0x21, 0x21) if rest.len() >= 36 => rest
            .first_chunk()
            .map(|source: &[u8; 16]| Announced::Client(IpAddr::from(*source)))
            .ok_or_else(wrong),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    //! What is taken for it, what not, and that nothing behind it is read.

    use super::*;

    async fn announced(bytes: &[u8]) -> Result<(Announced, Vec<u8>), io::ErrorKind> {
        let mut stream = bytes;
        let announced = read(&mut stream).await.map_err(|error| error.kind())?;
        Ok((announced, stream.to_vec()))
    }

    fn binary(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let length = u16::try_from(rest.len()).unwrap().to_be_bytes();
        [&SIGNATURE[..], &[command, family], &length, rest].concat()
    }

    #[tokio::test]
    async fn both_versions_say_whom_a_connection_comes_from() {
        let client = |address: &str| Announced::Client(address.parse().unwrap());
        let ipv4 = [192, 0, 2, 7, 127, 0, 0, 1, 1, 1, 2, 2];
        let ipv6 = [&[0x20, 1, 0xd, 0xb8][..], &[0; 11], &[9], &[0; 16], &[1, 1, 2, 2]].concat();
        for (bytes, expected) in [
            (b"PROXY TCP4 192.0.2.7 127.0.0.1 5000 80\r\n".to_vec(), client("192.0.2.7")),
            (b"PROXY TCP6 2001:db8::9 ::1 5000 80\r\n".to_vec(), client("2001:db8::9")),
            (b"PROXY UNKNOWN\r\n".to_vec(), Announced::Itself),
            (b"PROXY UNKNOWN ff:: ff:: 1 2\r\n".to_vec(), Announced::Itself),
            ([b"PROXY UNKNOWN ".to_vec(), vec![b'x'; 91], b"\r\n".to_vec()].concat(), Announced::Itself),
            (binary(0x21, 0x11, &ipv4), client("192.0.2.7")),
            (binary(0x21, 0x11, &[&ipv4[..], &[3, 0, 1, 9]].concat()), client("192.0.2.7")),
            (binary(0x21, 0x21, &ipv6), client("2001:db8::9")),
            (binary(0x20, 0x00, &[]), Announced::Itself),
            (binary(0x21, 0x00, &[1, 2]), Announced::Itself),
        ] {
            let rest = b"GET / HTTP/1.1\r\n";
            let read = announced(&[&bytes, &rest[..]].concat()).await;
            assert_eq!(read, Ok((expected, rest.to_vec())), "{}", String::from_utf8_lossy(&bytes));
        }
    }

    #[tokio::test]
    async fn what_is_something_else_is_refused() {
        for bytes in [
            b"GET / HTTP/1.1\r\nhost: x\r\n\r\n".to_vec(),
            b"proxy TCP4 192.0.2.7 127.0.0.1 5000 80\r\n".to_vec(),
            b"PROXY TCP4 2001:db8::9 127.0.0.1 5000 80\r\n".to_vec(),
            b"PROXY TCP4 192.0.2.7 127.0.0.1 5000 99999\r\n".to_vec(),
            b"PROXY TCP4 192.0.2.7 127.0.0.1 5000 +80\r\n".to_vec(),
            b"PROXY TCP4 192.0.2.7 127.0.0.1 5000\r\n".to_vec(),
            b"PROXY TCP4 192.0.2.7 127.0.0.1 5000 80 1\r\n".to_vec(),
            b"PROXY TCP4  192.0.2.7 127.0.0.1 5000 80\r\n".to_vec(),
            b"PROXY TCP4 192.0.2.7 127.0.0.1 5000 80\n".to_vec(),
            [b"PROXY UNKNOWN ".to_vec(), vec![b'x'; 92], b"\r\n".to_vec()].concat(),
            binary(0x21, 0x11, &[1; 11]),
            binary(0x21, 0x21, &[1; 35]),
            binary(0x21, 0x31, &[1; 216]),
            binary(0x31, 0x11, &[1; 12]),
            binary(0x21, 0x11, &[1; LONGEST_REST + 1]),
            b"PROXY".to_vec(),
        ] {
            assert!(announced(&bytes).await.is_err(), "{}", String::from_utf8_lossy(&bytes));
        }
    }

    #[tokio::test]
    async fn only_those_are_believed_who_may_say_it() {
        let announcers = Announcers::Networks(vec!["10.0.0.0/8".parse().unwrap()]);
        for (from, expected) in [(Some("10.1.2.3"), true), (Some("192.0.2.1"), false), (None, true)] {
            let peer = PeerAddress(from.map(|address| address.parse().unwrap()));
            let mut stream = &b"PROXY TCP4 192.0.2.7 127.0.0.1 5000 80\r\n"[..];
            let client = announcers.client(&mut stream, peer).await;
            assert_eq!(client.and_then(|client| client.0).is_some(), expected, "{from:?}");
        }
    }
}
