//! What a bucket belongs to.

use std::{fmt, num::NonZeroU32};

/// What has a bucket of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PacketKey {
    /// A prefix of the source address.
    Source(PrefixLengths),
    /// A prefix of the destination address.
    Destination(PrefixLengths),
    /// A prefix of the source and one of the destination, of the same length.
    SourceDestination(PrefixLengths),
    /// Both addresses, both ports and the protocol.
    Flow,
    /// All packets together.
    Global,
}

impl PacketKey {
    /// The prefix lengths, if it has any.
    #[must_use]
    pub const fn lengths(&self) -> Option<&PrefixLengths> {
        match self {
            Self::Source(lengths) | Self::Destination(lengths) | Self::SourceDestination(lengths) => {
                Some(lengths)
            }
            Self::Flow | Self::Global => None,
        }
    }

    /// What has buckets of its own: for each prefix length its bits and its factor. One entry for both families where
    /// these have the same factors; `None` where it is about the other family. A key without lengths has one.
    #[must_use]
    pub fn parts(&self) -> Vec<KeyPart> {
        let Some(lengths) = self.lengths() else {
            return vec![KeyPart { ipv4: Some(0), ipv6: Some(0), factor: NonZeroU32::MIN }];
        };
        let (ipv4, ipv6) = (lengths.ipv4(), lengths.ipv6());
        if ipv4.iter().map(|length| length.factor).eq(ipv6.iter().map(|length| length.factor)) {
            let part = |(v4, v6): (&PrefixLength, &PrefixLength)| KeyPart {
                ipv4: Some(v4.bits),
                ipv6: Some(v6.bits),
                factor: v4.factor,
            };
            return ipv4.iter().zip(ipv6).map(part).collect();
        }
        let ipv4 = ipv4.iter().map(|v4| KeyPart { ipv4: Some(v4.bits), ipv6: None, factor: v4.factor });
        let ipv6 = ipv6.iter().map(|v6| KeyPart { ipv4: None, ipv6: Some(v6.bits), factor: v6.factor });
        ipv4.chain(ipv6).collect()
    }

    /// The word a configuration has for it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Source(_) => "source",
            Self::Destination(_) => "destination",
            Self::SourceDestination(_) => "source_destination",
            Self::Flow => "flow",
            Self::Global => "global",
        }
    }
}

impl fmt::Display for PacketKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        let Some(lengths) = self.lengths() else { return Ok(()) };
        for (family, lengths) in [("v4", lengths.ipv4()), ("v6", lengths.ipv6())] {
            write!(f, " {family}")?;
            for length in lengths {
                write!(f, "/{}", length.bits)?;
                if length.factor.get() != 1 {
                    write!(f, "x{}", length.factor)?;
                }
            }
        }
        Ok(())
    }
}

impl Default for PacketKey {
    fn default() -> Self {
        Self::Source(PrefixLengths::default())
    }
}

/// One kind of bucket that a key has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyPart {
    /// Bits of an IPv4 address; `None` if it is not about IPv4.
    pub ipv4: Option<u8>,
    /// Bits of an IPv6 address; `None` if it is not about IPv6.
    pub ipv6: Option<u8>,
    /// How many times the limit it has.
    pub factor: NonZeroU32,
}

/// A prefix length, and how many times the limit a prefix of this length has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefixLength {
    /// Bits of the address that count.
    pub bits: u8,
    /// At least 1.
    pub factor: NonZeroU32,
}

impl From<u8> for PrefixLength {
    fn from(bits: u8) -> Self {
        Self { bits, factor: NonZeroU32::MIN }
    }
}

/// How much of an address makes a key: one length, or several at once, the longest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrefixLengths {
    ipv4: Vec<PrefixLength>,
    ipv6: Vec<PrefixLength>,
}

impl PrefixLengths {
    /// Bits of an IPv4 address at most.
    pub const MOST_IPV4: u8 = 32;
    /// Bits of an IPv6 address at most.
    pub const MOST_IPV6: u8 = 128;
    /// Those of an IPv4 address that count unless somebody says otherwise: all.
    pub const DEFAULT_IPV4: u8 = 32;
    /// Those of an IPv6 address: one client usually has a /64 to itself.
    pub const DEFAULT_IPV6: u8 = 64;

    /// `None` if there is no length for a family, or if one is 0 (which would be one bucket for all), longer than the
    /// address or there twice.
    #[must_use]
    pub fn new(
        ipv4: impl IntoIterator<Item = PrefixLength>,
        ipv6: impl IntoIterator<Item = PrefixLength>,
    ) -> Option<Self> {
        let ipv4 = sorted(ipv4.into_iter().collect(), Self::MOST_IPV4)?;
        let ipv6 = sorted(ipv6.into_iter().collect(), Self::MOST_IPV6)?;
        Some(Self { ipv4, ipv6 })
    }

    /// The lengths for IPv4 addresses.
    #[must_use]
    pub fn ipv4(&self) -> &[PrefixLength] {
        &self.ipv4
    }

    /// The lengths for IPv6 addresses.
    #[must_use]
    pub fn ipv6(&self) -> &[PrefixLength] {
        &self.ipv6
    }
}

impl Default for PrefixLengths {
    /// A host, which in IPv6 has a whole /64 to take addresses from.
    fn default() -> Self {
        Self { ipv4: vec![Self::DEFAULT_IPV4.into()], ipv6: vec![Self::DEFAULT_IPV6.into()] }
    }
}

fn sorted(mut lengths: Vec<PrefixLength>, most: u8) -> Option<Vec<PrefixLength>> {
    lengths.sort_unstable_by_key(|length| u8::MAX - length.bits);
    let fit = lengths.iter().all(|length| (1..=most).contains(&length.bits));
    let differ = lengths.windows(2).all(|pair| pair[0].bits != pair[1].bits);
    (fit && differ && !lengths.is_empty()).then_some(lengths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_lengths_fit_their_addresses() {
        let new = |ipv4: &[u8], ipv6: &[u8]| {
            PrefixLengths::new(ipv4.iter().map(|&bits| bits.into()), ipv6.iter().map(|&bits| bits.into()))
        };
        assert!(new(&[1], &[1]).is_some() && new(&[32], &[128]).is_some());
        for (ipv4, ipv6) in
            [(&[0][..], &[64][..]), (&[32], &[0]), (&[33], &[64]), (&[32], &[129]), (&[], &[64])]
        {
            assert_eq!(new(ipv4, ipv6), None);
        }
        assert_eq!(new(&[24, 24], &[64]), None);
        assert_eq!(new(&[16, 32, 24], &[64]), new(&[32, 24, 16], &[64]));
    }

    #[test]
    fn families_share_buckets_where_the_factors_agree() {
        let lengths = |list: &[(u8, u32)]| -> Vec<PrefixLength> {
            let length = |&(bits, factor)| PrefixLength { bits, factor: NonZeroU32::new(factor).unwrap() };
            list.iter().map(length).collect()
        };
        let parts = |ipv4: &[(u8, u32)], ipv6: &[(u8, u32)]| -> Vec<_> {
            let key = PacketKey::Source(PrefixLengths::new(lengths(ipv4), lengths(ipv6)).unwrap());
            key.parts().iter().map(|part| (part.ipv4, part.ipv6, part.factor.get())).collect()
        };
        assert_eq!(parts(&[(32, 1)], &[(64, 1)]), [(Some(32), Some(64), 1)]);
        assert_eq!(
            parts(&[(24, 32), (32, 1)], &[(64, 1), (48, 32)]),
            [(Some(32), Some(64), 1), (Some(24), Some(48), 32)]
        );
        assert_eq!(
            parts(&[(32, 1), (24, 32)], &[(64, 1)]),
            [(Some(32), None, 1), (Some(24), None, 32), (None, Some(64), 1)]
        );
    }

    #[test]
    fn a_key_is_shown_with_its_lengths() {
        let factor = |bits, factor| PrefixLength { bits, factor: NonZeroU32::new(factor).unwrap() };
        let lengths = PrefixLengths::new([factor(24, 32), factor(32, 1)], [factor(64, 1)]).unwrap();
        assert_eq!(PacketKey::Source(lengths).to_string(), "source v4/32/24x32 v6/64");
        assert_eq!(PacketKey::Global.to_string(), "global");
    }
}
