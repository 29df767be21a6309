//! What buckets are called in the store. Lengths stand before texts, so whatever these contain, two buckets never have
//! the same key; long texts are keyed hashes, whose secret all processes share.

use std::{hash::Hasher as _, io::Write as _};

use ratelimit_common::limit::StateKind;
use ratelimit_limiter::store::remote::BucketKey;
use siphasher::{
    sip::SipHasher24,
    sip128::{Hasher128 as _, SipHasher24 as SipHasher128},
};

/// The version of keys, of the states under them, and of what the script makes of both. Processes that differ in it go
/// by different buckets.
const VERSION: &str = "1";

/// A longer text is hashed.
const LONGEST_TEXT: usize = 64;

/// What long texts and shards are hashed with.
pub(crate) type Secret = [u8; 16];

/// How keys are made.
#[derive(Clone, Debug)]
pub(crate) struct KeyFormat {
    prefix: String,
    /// How many hash tags there are; `None` if keys have none.
    shards: Option<u16>,
}

/// A bucket's key, and the shard that it lies in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoreKey {
    pub(crate) shard: u16,
    pub(crate) name: Vec<u8>,
}

impl KeyFormat {
    /// Keys that begin with a prefix, which has no braces: with shards, the first ones tell a server the slot.
    pub(crate) fn new(prefix: &str, shards: Option<u16>) -> Self {
        Self { prefix: prefix.to_owned(), shards: shards.map(|shards| shards.max(1)) }
    }

    /// How many shards there are.
    pub(crate) fn shards(&self) -> u16 {
        self.shards.unwrap_or(1)
    }

    /// Where the secret is kept.
    pub(crate) fn of_secret(&self) -> Vec<u8> {
        format!("{}:{VERSION}:secret", self.prefix).into_bytes()
    }

    /// A bucket's key.
    pub(crate) fn of(&self, secret: &Secret, bucket: &BucketKey<'_>) -> StoreKey {
        let mut name = Vec::with_capacity(64);
        name.extend_from_slice(self.prefix.as_bytes());
        name.push(b':');
        name.extend_from_slice(VERSION.as_bytes());
        let shard = self.shards.map_or(0, |shards| shard(secret, bucket, shards));
        if self.shards.is_some() {
            let _ = write!(name, "{{{shard:x}}}");
        }
        name.push(letter(bucket.kind));
        if bucket.window.0 > 0 {
            let _ = write!(name, "{}", bucket.window.0);
        }
        name.push(b';');
        let entries = bucket.entries.iter().flat_map(|&(key, value)| [key, value]);
        for text in [bucket.account, bucket.domain].into_iter().chain(entries) {
            push(&mut name, secret, text);
        }
        StoreKey { shard, name }
    }
}

/// The layout of its states. A wide sliding counter's are those of another one.
const fn letter(kind: StateKind) -> u8 {
    match kind {
        StateKind::ArrivalTime => b'a',
        StateKind::Interval => b'i',
        StateKind::Window => b'w',
        StateKind::SlidingCounter | StateKind::WideSlidingCounter => b's',
        StateKind::Log => b'l',
    }
}

fn push(name: &mut Vec<u8>, secret: &Secret, text: &str) {
    if text.len() <= LONGEST_TEXT {
        let _ = write!(name, "{}:", text.len());
        name.extend_from_slice(text.as_bytes());
    } else {
        let mut hasher = SipHasher128::new_with_key(secret);
        hasher.write(text.as_bytes());
        name.push(b'#');
        name.extend_from_slice(&hasher.finish128().as_bytes());
    }
}

/// Buckets of one domain and first entry lie together, so that most requests are about one shard.
fn shard(secret: &Secret, bucket: &BucketKey<'_>, shards: u16) -> u16 {
    let mut hasher = SipHasher24::new_with_key(secret);
    let (key, value) = bucket.entries.first().copied().unwrap_or_default();
    for text in [bucket.domain, key, value] {
        hasher.write(&(text.len() as u64).to_le_bytes());
        hasher.write(text.as_bytes());
    }
    // Below `shards`, which are 16 bits.
    (hasher.finish() % u64::from(shards)) as u16
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use ratelimit_common::time::Nanos;

    use super::*;

    const SECRET: Secret = [7; 16];

    fn bucket<'k>(domain: &'k str, entries: &'k [(&'k str, &'k str)]) -> BucketKey<'k> {
        BucketKey {
            domain,
            account: "requests",
            kind: StateKind::Window,
            window: Nanos(60_000_000_000),
            entries,
        }
    }

    #[test]
    fn a_key_says_what_it_is_the_key_of() {
        let keys = KeyFormat::new("rl", None);
        let name = keys.of(&SECRET, &bucket("api", &[("client", "10.0.0.1")])).name;
        assert_eq!(String::from_utf8(name).unwrap(), "rl:1w60000000000;8:requests3:api6:client8:10.0.0.1");
        let name = KeyFormat::new("rl", Some(64)).of(&SECRET, &bucket("api", &[("a", "}{")])).name;
        assert!(
            name.starts_with(b"rl:1{") && name.ends_with(b"}w60000000000;8:requests3:api1:a2:}{"),
            "{name:?}"
        );
    }

    #[test]
    fn no_two_buckets_have_one_key_whatever_their_texts_contain() {
        let long = "x".repeat(65);
        let longer = "x".repeat(66);
        let lists: [&[(&str, &str)]; 14] = [
            &[],
            &[("", "")],
            &[("", ""), ("", "")],
            &[("a", "b")],
            &[("ab", "")],
            &[("", "ab")],
            &[("a", "1:b")],
            &[("a1:b", "")],
            &[("a", "{1}")],
            &[("a", "\0")],
            &[("a", "\0\0")],
            &[("a", &long)],
            &[("a", &longer)],
            &[(&long, "a")],
        ];
        for shards in [None, Some(1), Some(64)] {
            let keys = KeyFormat::new("rl", shards);
            let mut seen = HashSet::new();
            for domain in ["", "a", "a1:b", ":", ";"] {
                for entries in lists {
                    let key = keys.of(&SECRET, &bucket(domain, entries));
                    assert!(key.name.len() < 300 && key.shard < keys.shards());
                    assert!(seen.insert(key.name), "{domain:?} {entries:?}");
                }
            }
            let other = BucketKey { kind: StateKind::Interval, ..bucket("a", &[]) };
            assert!(seen.insert(keys.of(&SECRET, &other).name));
        }
    }

    #[test]
    fn a_long_text_takes_as_much_room_as_its_hash_and_nobody_knows_it_without_the_secret() {
        let long = "x".repeat(5_000);
        let entries = [("key", &*long)];
        let keys = KeyFormat::new("rl", None);
        let name = |secret| keys.of(secret, &bucket("d", &entries)).name;
        assert!(name(&SECRET).len() < 60);
        assert_eq!(name(&SECRET), name(&SECRET));
        assert_ne!(name(&SECRET), name(&[8; 16]));
    }

    #[test]
    fn buckets_of_a_domain_and_first_entry_lie_in_one_shard_and_all_shards_are_used() {
        let keys = KeyFormat::new("rl", Some(64));
        let of = |value: &str, rest: &str| {
            keys.of(&SECRET, &bucket("d", &[("client", value), ("path", rest)])).shard
        };
        assert_eq!(of("one", "/a"), of("one", "/b"));
        let used: HashSet<u16> = (0..2_000).map(|value| of(&value.to_string(), "/")).collect();
        assert_eq!(used.len(), 64);
    }
}
