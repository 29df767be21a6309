//! Numbers of protocols and IPv6 extension headers, as IANA assigns them.

pub const HOP_BY_HOP: u32 = 0;
pub const ICMP: u32 = 1;
pub const TCP: u32 = 6;
pub const UDP: u32 = 17;
pub const DCCP: u32 = 33;
pub const ROUTING: u32 = 43;
pub const FRAGMENT: u32 = 44;
pub const GRE: u32 = 47;
pub const AUTHENTICATION: u32 = 51;
pub const ICMPV6: u32 = 58;
pub const DESTINATION: u32 = 60;
pub const SCTP: u32 = 132;
pub const UDP_LITE: u32 = 136;
