//! Numbers of protocols and IPv6 extension headers, as IANA assigns them.

pub const HOP_BY_HOP: u64 = 0;
pub const ICMP: u64 = 1;
pub const TCP: u64 = 6;
pub const UDP: u64 = 17;
pub const DCCP: u64 = 33;
pub const ROUTING: u64 = 43;
pub const FRAGMENT: u64 = 44;
pub const GRE: u64 = 47;
pub const AUTHENTICATION: u64 = 51;
pub const ICMPV6: u64 = 58;
pub const DESTINATION: u64 = 60;
pub const SCTP: u64 = 132;
pub const UDP_LITE: u64 = 136;
