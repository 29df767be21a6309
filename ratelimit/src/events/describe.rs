//! An event in words: as JSON, which the daemon sends, and as a line, which people read.

use std::{
    fmt,
    net::IpAddr,
    time::{Duration, SystemTime},
};

use ratelimit_common::{
    packet::{Address, NO_PORT},
    wire::{DropEvent, Reason},
};
use serde::{Deserialize, Serialize};

use crate::{config::numbers, dataplane};

/// A packet that was dropped, or would have been; what it does not have, or what could not be read, is null.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Description {
    /// Seconds since the Unix epoch.
    pub time: f64,
    /// `drop`, or `observe` if it passed because the rule only observes.
    pub verdict: String,
    /// The reason; `limited` if a rule denied it.
    pub reason: String,
    /// The first rule that denied it.
    pub rule: Option<String>,
    /// The interface that it came on.
    pub interface: Option<String>,
    /// Where it came from.
    pub source: Option<IpAddr>,
    /// Where it was to go.
    pub destination: Option<IpAddr>,
    /// The transport: its number.
    pub protocol: Option<u8>,
    /// The source port.
    pub source_port: Option<u16>,
    /// The destination port.
    pub destination_port: Option<u16>,
    /// Its bytes on the wire: Ethernet header included, check sequence not.
    pub length: u64,
}

impl Description {
    /// Describes an event. `rules` are numbers and names of rules.
    #[must_use]
    pub fn new(event: &DropEvent, rules: &[(u32, String)]) -> Self {
        let reason = Reason::of(event.reason.into()).unwrap_or(Reason::Limited);
        let is_drop = reason.is_drop();
        let ports = event.ports;
        let address = |bits| Address { bits, family: ports.family() }.to_ip();
        let read = event.is_ip != 0;
        let name = rules.iter().find(|(number, _)| *number == event.rule).map(|(_, name)| name.clone());
        let unix = event.time.saturating_add(dataplane::unix_offset().unwrap_or_default());
        Self {
            time: unix as f64 / 1e9,
            verdict: if is_drop { "drop" } else { "observe" }.to_owned(),
            reason: if is_drop { reason } else { Reason::Limited }.name().to_owned(),
            rule: name,
            interface: dataplane::interface_name(event.interface),
            source: read.then(|| address(event.source)),
            destination: read.then(|| address(event.destination)),
            protocol: u8::try_from(ports.protocol()).ok().filter(|_| read),
            source_port: port(ports.source(), read),
            destination_port: port(ports.destination(), read),
            length: event.bytes,
        }
    }
}

fn port(port: u64, read: bool) -> Option<u16> {
    u16::try_from(port).ok().filter(|_| read && port < u64::from(NO_PORT))
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = Duration::try_from_secs_f64(self.time).unwrap_or_default();
        let time = humantime::format_rfc3339_millis(SystemTime::UNIX_EPOCH + time);
        let verdict = if self.verdict == "drop" { "dropped" } else { "would drop" };
        write!(f, "{time} {verdict}")?;
        if let Some(interface) = &self.interface {
            write!(f, " {interface}")?;
        }
        match self.protocol.map(|number| (number, numbers::protocol_name(number))) {
            Some((_, Some(name))) => write!(f, " {name}")?,
            Some((number, None)) => write!(f, " protocol {number}")?,
            None => {}
        }
        if let (Some(source), Some(destination)) = (self.source, self.destination) {
            let (from, to) =
                (AddressPort(source, self.source_port), AddressPort(destination, self.destination_port));
            write!(f, " {from} > {to}")?;
        }
        write!(f, ", {} bytes: ", self.length)?;
        match &self.rule {
            Some(rule) => write!(f, "rule `{rule}`"),
            None => write!(f, "{}", self.reason),
        }
    }
}

/// An address and its port.
struct AddressPort(IpAddr, Option<u16>);

impl fmt::Display for AddressPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0, self.1) {
            (address, None) => write!(f, "{address}"),
            (IpAddr::V4(address), Some(port)) => write!(f, "{address}:{port}"),
            (IpAddr::V6(address), Some(port)) => write!(f, "[{address}]:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use ratelimit_common::packet::Ports;

    use super::*;

    fn event(reason: Reason) -> DropEvent {
        DropEvent {
            time: 0,
            source: [0xc000_0201 << 32, 0],
            destination: [0x0a01_0001 << 32, 0],
            ports: Ports(4_096 << 40 | 53 << 16 | 17),
            bytes: 58,
            interface: u32::MAX,
            reason: reason as u32,
            rule: 3,
            is_ip: 1,
        }
    }

    #[test]
    fn lines_say_what_happened_to_whom() {
        let rules = [(2, "other".to_owned()), (3, "every".to_owned())];
        let v6 = DropEvent {
            source: [0x2001_0db8 << 32, 1],
            ports: Ports(1 << 63 | u64::from(NO_PORT) << 40 | u64::from(NO_PORT) << 16 | 200),
            ..event(Reason::Passed)
        };
        let hidden = DropEvent { is_ip: 0, rule: 0, ..event(Reason::MalformedDropped) };
        for (event, expected) in [
            (event(Reason::Limited), "dropped udp 192.0.2.1:4096 > 10.1.0.1:53, 58 bytes: rule `every`"),
            (v6, "would drop protocol 200 2001:db8::1 > a01:1::, 58 bytes: rule `every`"),
            (hidden, "dropped, 58 bytes: malformed_dropped"),
        ] {
            let line = Description::new(&event, &rules).to_string();
            assert_eq!(line.split_once(' ').unwrap().1, expected);
        }
    }

    #[test]
    fn what_a_packet_does_not_have_is_null() {
        let icmp = DropEvent {
            ports: Ports(u64::from(NO_PORT) << 40 | u64::from(NO_PORT) << 16 | 1),
            ..event(Reason::Limited)
        };
        let json = serde_json::json!(Description::new(&icmp, &[]));
        for key in ["rule", "interface", "source_port", "destination_port"] {
            assert!(json[key].is_null(), "{key}: {json}");
        }
        assert_eq!((&json["protocol"], &json["source"]), (&1.into(), &"192.0.2.1".into()));
    }
}
