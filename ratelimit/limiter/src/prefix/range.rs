//! Ranges of addresses, as the fewest prefixes that have the same addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{Prefix, bits};

/// Why two addresses are no range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RangeError {
    /// What stands before or behind the hyphen.
    #[error("a range has an IP address at each end; write 192.0.2.1-192.0.2.9")]
    Address,
    /// One end is an IPv4 address, the other an IPv6 address.
    #[error("one end is an IPv4 address and the other an IPv6 address")]
    Families,
    /// The last address comes before the first.
    #[error("ends before it begins; did you mean {last}-{first}?")]
    Backwards {
        /// What was given as the first.
        first: IpAddr,
        /// What was given as the last.
        last: IpAddr,
    },
    /// IPv4 addresses in the form that only sockets use.
    #[error("no packet has an IPv4-mapped address; did you mean {first}-{last}?")]
    Mapped {
        /// The first as packets have it.
        first: Ipv4Addr,
        /// The last as packets have it.
        last: Ipv4Addr,
    },
}

impl Prefix {
    /// The fewest prefixes that have exactly the addresses from `first` to `last`: at most 62 of IPv4, 254 of IPv6.
    ///
    /// # Errors
    /// They are no range of addresses that packets can have.
    pub fn range(first: IpAddr, last: IpAddr) -> Result<Vec<Self>, RangeError> {
        match (first, last) {
            (IpAddr::V4(_), IpAddr::V4(_)) | (IpAddr::V6(_), IpAddr::V6(_)) if first > last => {
                Err(RangeError::Backwards { first, last })
            }
            (IpAddr::V4(low), IpAddr::V4(high)) => {
                let address = |number: u128| Ipv4Addr::from_bits(number as u32).into();
                Ok(fewest(low.to_bits().into(), high.to_bits().into(), bits(first), address))
            }
            (IpAddr::V6(low), IpAddr::V6(high)) => match (low.to_ipv4_mapped(), high.to_ipv4_mapped()) {
                (Some(first), Some(last)) => Err(RangeError::Mapped { first, last }),
                _ => Ok(fewest(low.to_bits(), high.to_bits(), bits(first), |number| {
                    Ipv6Addr::from_bits(number).into()
                })),
            },
            _ => Err(RangeError::Families),
        }
    }
}

/// From the first address on, always the largest prefix that begins there and does not go beyond the last one.
fn fewest(first: u128, last: u128, bits: u8, address: impl Fn(u128) -> IpAddr) -> Vec<Prefix> {
    let mut found = Vec::new();
    let mut next = first;
    loop {
        let aligned = next.trailing_zeros().min(bits.into());
        // All addresses there are have a number that does not fit.
        let fitting = (last - next).checked_add(1).map_or(u128::BITS, u128::ilog2);
        let free = aligned.min(fitting);
        found.push(Prefix { address: address(next), length: bits - free as u8 });
        let end = next | u128::MAX.checked_shr(u128::BITS - free).unwrap_or_default();
        if end >= last {
            return found;
        }
        next = end + 1;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn range(first: &str, last: &str) -> Result<Vec<String>, RangeError> {
        let found = Prefix::range(first.parse().unwrap(), last.parse().unwrap())?;
        Ok(found.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn ranges_are_the_fewest_prefixes() {
        let cases = [
            ("192.0.2.7", "192.0.2.7", "192.0.2.7/32"),
            ("192.0.2.0", "192.0.2.255", "192.0.2.0/24"),
            ("192.0.2.1", "192.0.2.6", "192.0.2.1/32 192.0.2.2/31 192.0.2.4/31 192.0.2.6/32"),
            ("0.0.0.0", "255.255.255.255", "0.0.0.0/0"),
            ("255.255.255.254", "255.255.255.255", "255.255.255.254/31"),
            ("::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "::/0"),
            ("2001:db8::", "2001:db8::ffff", "2001:db8::/112"),
            ("2001:db8::", "2001:db8:1:ffff:ffff:ffff:ffff:ffff", "2001:db8::/47"),
        ];
        for (first, last, expected) in cases {
            assert_eq!(range(first, last).unwrap().join(" "), expected, "{first}-{last}");
        }
        assert_eq!(range("0.0.0.1", "255.255.255.254").unwrap().len(), 62);
        assert_eq!(range("::1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe").unwrap().len(), 254);
    }

    #[test]
    fn what_is_no_range_says_why() {
        let cases = [
            ("192.0.2.9", "192.0.2.1", "did you mean 192.0.2.1-192.0.2.9?"),
            ("192.0.2.9", "2001:db8::", "one end is an IPv4 address"),
            ("::ffff:192.0.2.1", "::ffff:192.0.2.9", "did you mean 192.0.2.1-192.0.2.9?"),
        ];
        for (first, last, expected) in cases {
            let message = range(first, last).unwrap_err().to_string();
            assert!(message.contains(expected), "{first}-{last}: {message}");
        }
    }

    proptest! {
        #[test]
        fn a_range_has_its_addresses_and_no_others(one: u128, other: u128, narrow in 0_u32..128) {
            // Narrow ones too.
            let other = one ^ (other >> narrow);
            let (first, last) = (one.min(other), one.max(other));
            let found = fewest(first, last, 128, |number| Ipv6Addr::from_bits(number).into());
            let mut next = Some(first);
            for prefix in &found {
                let IpAddr::V6(address) = prefix.address() else { unreachable!() };
                prop_assert_eq!(Some(address.to_bits()), next);
                let end = address.to_bits() | u128::MAX.checked_shr(prefix.len().into()).unwrap_or_default();
                prop_assert!(end <= last);
                next = end.checked_add(1);
            }
            prop_assert_eq!(next, last.checked_add(1));
            // Two halves of one prefix would be one too many.
            for pair in found.windows(2) {
                let around = pair[0].len().checked_sub(1).and_then(|len| Prefix::around(pair[0].address(), len));
                let is_one = pair[0].len() == pair[1].len()
                    && around.is_some_and(|around| around.contains(&pair[1]));
                prop_assert!(!is_one);
            }
        }
    }
}
