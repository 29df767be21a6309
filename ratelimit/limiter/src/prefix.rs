//! An IPv4 or IPv6 network: an address whose bits beyond the prefix length are zero.

mod range;

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

pub use range::RangeError;

/// A network. Ordered by family, address and length, so that a prefix comes directly before those inside it.
///
/// As a key it gives all addresses of a network one bucket, which an IPv6 client's /64 should have:
///
/// ```
/// use std::net::IpAddr;
///
/// use ratelimit_limiter::prefix::Prefix;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let client: IpAddr = "2001:db8::17:4".parse()?;
/// let network = Prefix::around(client, 64);
/// assert_eq!(network, Some("2001:db8::/64".parse()?));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    address: IpAddr,
    length: u8,
}

/// Why a text or a pair of address and length is not a network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrefixError {
    /// What stands before the slash.
    #[error("not an IP address or prefix; write 192.0.2.1, 192.0.2.0/24 or 2001:db8::/32")]
    Address,
    /// What stands after it.
    #[error("the prefix length is not a number; write 0 to {most}")]
    LengthNotANumber {
        /// Bits of the address.
        most: u8,
    },
    /// A length beyond the address.
    #[error("prefix length {length} is too long; {family} has {most} bits")]
    TooLong {
        /// The length.
        length: u64,
        /// IPv4 or IPv6.
        family: &'static str,
        /// Bits of the address.
        most: u8,
    },
    /// An address inside the network.
    #[error("has bits set beyond the prefix length; did you mean {network} or {address}?")]
    HostBits {
        /// The network.
        network: Prefix,
        /// The address alone.
        address: IpAddr,
    },
    /// An IPv4 network in the form that only sockets use.
    #[error("no packet has an IPv4-mapped address; did you mean {network}?")]
    Mapped {
        /// The network as packets have it.
        network: Prefix,
    },
}

impl Prefix {
    /// Bits of any IPv4-mapped IPv6 address that come before the IPv4 address.
    const MAPPED_BITS: u8 = 96;

    /// The network of that address and length.
    ///
    /// # Errors
    /// The length is beyond the address, or the address has bits set beyond the length.
    pub fn new(address: IpAddr, length: u8) -> Result<Self, PrefixError> {
        let most = bits(address);
        if length > most {
            let family = if address.is_ipv4() { "IPv4" } else { "IPv6" };
            return Err(PrefixError::TooLong { length: length.into(), family, most });
        }
        let network = Self { address: masked(address, length), length };
        if network.address != address {
            return Err(PrefixError::HostBits { network, address });
        }
        match address {
            IpAddr::V6(v6) if length >= Self::MAPPED_BITS => match v6.to_ipv4_mapped() {
                Some(v4) => Err(PrefixError::Mapped {
                    network: Self { address: v4.into(), length: length - Self::MAPPED_BITS },
                }),
                None => Ok(network),
            },
            _ => Ok(network),
        }
    }

    /// The network of that length around an address; `None` if the length is beyond it.
    #[must_use]
    pub fn around(address: IpAddr, length: u8) -> Option<Self> {
        (length <= bits(address)).then(|| Self { address: masked(address, length), length })
    }

    /// The first address; `octets` of it are in network byte order.
    #[must_use]
    pub const fn address(&self) -> IpAddr {
        self.address
    }

    /// How many leading bits all its addresses share.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "the length of a prefix; an empty prefix is 0.0.0.0/0")]
    pub const fn len(&self) -> u8 {
        self.length
    }

    /// Whether all of `other` is inside it.
    #[must_use]
    pub fn contains(&self, other: &Self) -> bool {
        self.address.is_ipv4() == other.address.is_ipv4()
            && self.length <= other.length
            && masked(other.address, self.length) == self.address
    }
}

impl From<IpAddr> for Prefix {
    /// The address alone.
    fn from(address: IpAddr) -> Self {
        Self { address, length: bits(address) }
    }
}

fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// `length` is at most the address's bits.
fn masked(address: IpAddr, length: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
            Ipv4Addr::from_bits(v4.to_bits() & mask).into()
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
            Ipv6Addr::from_bits(v6.to_bits() & mask).into()
        }
    }
}

impl FromStr for Prefix {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Self, PrefixError> {
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| PrefixError::Address)?;
        match length {
            None => Self::new(address, bits(address)),
            Some(length) => Self::new(address, parse_length(length, address)?),
        }
    }
}

fn parse_length(text: &str, address: IpAddr) -> Result<u8, PrefixError> {
    let most = bits(address);
    // `parse` alone would take `+8`.
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(PrefixError::LengthNotANumber { most });
    }
    let length: u64 = text.parse().unwrap_or(u64::MAX);
    let family = if address.is_ipv4() { "IPv4" } else { "IPv6" };
    u8::try_from(length).map_err(|_| PrefixError::TooLong { length, family, most })
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}/{}", self.address, self.length))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn prefixes_that_are_accepted() {
        let cases = [
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("192.0.2.1", "192.0.2.1/32"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("255.255.255.255/32", "255.255.255.255/32"),
            ("fe80::/10", "fe80::/10"),
            ("::/0", "::/0"),
            ("2001:DB8:0::1", "2001:db8::1/128"),
            ("::/96", "::/96"),
        ];
        for (text, expected) in cases {
            let shown = text.parse::<Prefix>().map(|prefix| prefix.to_string()).unwrap_or_default();
            assert_eq!(shown, expected, "{text}");
        }
    }

    #[test]
    fn prefixes_that_are_refused_say_why() {
        let cases = [
            ("10.0.0.1/8", "did you mean 10.0.0.0/8 or 10.0.0.1?"),
            ("fe80::1/10", "did you mean fe80::/10 or fe80::1?"),
            ("1.2.3.4/0", "did you mean 0.0.0.0/0 or 1.2.3.4?"),
            ("10.0.0.0/33", "prefix length 33 is too long; IPv4 has 32 bits"),
            ("2001:db8::/129", "prefix length 129 is too long; IPv6 has 128 bits"),
            ("10.0.0.0/256", "prefix length 256 is too long"),
            ("10.0.0.0/99999999999999999999", "is too long"),
            ("10.0.0.0/", "not a number; write 0 to 32"),
            ("10.0.0.0/+8", "not a number"),
            ("10.0.0.0/8/8", "not a number"),
            ("::/x", "write 0 to 128"),
            ("10/8", "not an IP address"),
            ("010.0.0.0/8", "not an IP address"),
            ("fe80::1%eth0", "not an IP address"),
            ("localhost", "not an IP address"),
            ("", "not an IP address"),
            ("::ffff:10.0.0.0/104", "did you mean 10.0.0.0/8?"),
        ];
        for (text, expected) in cases {
            let message = text.parse::<Prefix>().unwrap_err().to_string();
            assert!(message.contains(expected), "{text}: {message}");
        }
    }

    #[test]
    fn containment() {
        let prefix = |text: &str| text.parse::<Prefix>().unwrap();
        assert!(prefix("10.0.0.0/8").contains(&prefix("10.1.2.0/24")));
        assert!(prefix("10.0.0.0/8").contains(&prefix("10.0.0.0/8")));
        assert!(!prefix("10.1.2.0/24").contains(&prefix("10.0.0.0/8")));
        assert!(!prefix("10.0.0.0/8").contains(&prefix("11.0.0.0/24")));
        assert!(prefix("0.0.0.0/0").contains(&prefix("255.0.0.0/8")));
        assert!(!prefix("0.0.0.0/0").contains(&prefix("::/0")));
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_back(address: IpAddr, length in 0_u8..=128) {
            let address = masked(address, length.min(bits(address)));
            if let Ok(prefix) = Prefix::new(address, length) {
                prop_assert_eq!(prefix.to_string().parse::<Prefix>(), Ok(prefix));
            }
        }

        #[test]
        fn any_text_is_a_prefix_or_an_error(text in "\\PC*|[0-9a-f.:/]{0,50}") {
            let _ = text.parse::<Prefix>();
        }
    }
}
