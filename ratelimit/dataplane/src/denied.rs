//! What rules have counted of sources on the way to a ban: forgotten when a ban is ended, so that the next denied
//! packet does not make it again.

use ratelimit_common::{
    packet::{Address, Ports},
    table::{Key, Secret},
    time::Now,
    wire::CompiledRule,
};
use serde::{Deserialize, Serialize};

use super::buckets::BucketTable;
use crate::{
    compile::{BucketOwner, owners, source_mask},
    policy::{PacketRules, Prefix, PrefixList},
};

/// Where the denied packets of the sources of a rule are counted, by prefixes of one length for each IP version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeniedCount {
    /// The number of its buckets.
    pub number: u32,
    /// Bits of IPv4 and of IPv6 sources; 0 if the rule is not about them.
    pub bits: [u8; 2],
}

/// Those of all rules that ban; the owner at `i` has the number `numbers[i]`.
pub(super) fn counts(rules: &PacketRules, numbers: &[u32]) -> Vec<DeniedCount> {
    let count = |(owner, &number): (BucketOwner<'_>, &u32)| match owner {
        BucketOwner::Denied(_, part, _) => {
            Some(DeniedCount { number, bits: [part.ipv4, part.ipv6].map(Option::unwrap_or_default) })
        }
        _ => None,
    };
    owners(rules).zip(numbers).filter_map(count).collect()
}

/// Forgets what was counted of prefixes: of all sources inside them, and of the longer prefix that is counted as one
/// with them.
pub(super) fn forget(
    buckets: &BucketTable,
    secret: &Secret,
    counts: &[DeniedCount],
    prefixes: &[Prefix],
    now: Now,
) {
    let mut networks = Vec::new();
    for prefix in prefixes {
        let mine = counts.iter().filter(|count| count.bits[family(prefix)] != 0);
        let (alone, of_many): (Vec<_>, Vec<_>) =
            mine.partition(|count| prefix.len() >= count.bits[family(prefix)]);
        for count in alone {
            buckets.reset(&key(count, prefix, secret), now);
        }
        networks.extend((!of_many.is_empty()).then_some(*prefix));
    }
    if networks.is_empty() {
        return;
    }
    let networks = PrefixList::new(networks);
    buckets.reset_all(now, |key| {
        let count = counts.iter().find(|count| u64::from(count.number) == CompiledRule::number_of(key.tag()));
        count.is_some_and(|count| is_inside(key, count, &networks, secret))
    });
}

fn family(prefix: &Prefix) -> usize {
    prefix.address().is_ipv6().into()
}

fn key(count: &DeniedCount, prefix: &Prefix, secret: &Secret) -> Key {
    let family = family(prefix);
    let keyed = secret.keyed(CompiledRule::tag_of(count.number.into(), family as u64));
    let mask = source_mask(count.bits[family], keyed);
    mask.key(secret, Address::from(prefix.address()).bits, [0; 2], Ports(0))
}

/// Whether what a key counts is inside one of these prefixes. What is longer than 64 bits is hashed, so it can't be
/// told: then too much is forgotten rather than too little.
fn is_inside(key: &Key, count: &DeniedCount, networks: &PrefixList, secret: &Secret) -> bool {
    let family = u64::from(key.tag().number()) & 1;
    let bits = count.bits[family as usize];
    if bits > 64 {
        return networks.iter().any(|network| network.address().is_ipv6() && network.len() < bits);
    }
    let source = Address { bits: [secret.identity(key), 0], family }.to_ip();
    Prefix::around(source, bits).is_some_and(|source| networks.around(&source).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_tells_whether_its_source_is_inside() {
        let secret = Secret::new([0x1234_5678_9abc_def0, 0xdead_beef_cafe_f00d, 0x0bad_c0de_1357_9bdf, 77]);
        let prefix = |text: &str| text.parse::<Prefix>().unwrap();
        let networks = PrefixList::new(vec![prefix("10.1.0.0/16"), prefix("2001:db8::/48")]);
        for (source, bits, expected) in [
            ("10.1.7.7", [32, 64], true),
            ("10.2.7.7", [32, 64], false),
            ("10.1.7.0/24", [24, 64], true),
            ("2001:db8:0:9::/64", [32, 64], true),
            ("2001:db8:1::/64", [32, 64], false),
            ("2001:db8:1::1", [32, 128], true),
        ] {
            let count = DeniedCount { number: 5, bits };
            let key = key(&count, &prefix(source), &secret);
            assert_eq!(is_inside(&key, &count, &networks, &secret), expected, "{source}");
        }
    }
}
