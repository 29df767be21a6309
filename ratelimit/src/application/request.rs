//! What is asked: a domain, descriptors, and what the request costs. And what of it is refused.

use crate::policy::application::TimeUnit;

/// Descriptors of a request at most.
pub const MOST_DESCRIPTORS: usize = 100;

/// Entries of a descriptor at most.
pub const MOST_ENTRIES: usize = 32;

/// Bytes of all keys and values of a request at most, the domain included.
pub const MOST_BYTES: usize = 64 << 10;

/// Hits of a descriptor at most.
pub const MOST_HITS: u64 = 1_000_000_000;

/// A question: may this request go on?
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Whose rules are asked.
    pub domain: String,
    /// What the request is, in several ways; each may have a limit.
    pub descriptors: Vec<Descriptor>,
    /// What it takes of each limit, unless the descriptor says otherwise; 0 means 1.
    pub hits_addend: u32,
}

/// One way to see a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Descriptor {
    /// Keys with their values, in order.
    pub entries: Vec<(String, String)>,
    /// A limit that takes the place of the rules'.
    pub limit: Option<LimitOverride>,
    /// What it takes; 0 only asks.
    pub hits_addend: Option<u64>,
    /// Whether it gives back instead of taking: to a limit that does not count denied requests only if the request passes.
    pub is_negative_hits: bool,
}

/// A limit that a request brings along: a fixed window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitOverride {
    /// How many requests; 0 denies all.
    pub requests_per_unit: u32,
    /// In which time; `None` if the request named none, or one that is not known, which is an error.
    pub unit: Option<TimeUnit>,
}

/// Why a request can't be answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// No domain.
    #[error("rate limit domain must not be empty")]
    EmptyDomain,
    /// Nothing to look up.
    #[error("rate limit descriptor list must not be empty")]
    NoDescriptors,
    /// More descriptors than are looked at.
    #[error("{count} descriptors; at most {MOST_DESCRIPTORS} are accepted")]
    TooManyDescriptors {
        /// How many.
        count: usize,
    },
    /// A descriptor with more entries than are looked at.
    #[error("descriptor {descriptor} has {count} entries; at most {MOST_ENTRIES} are accepted")]
    TooManyEntries {
        /// Which descriptor, from 0.
        descriptor: usize,
        /// How many.
        count: usize,
    },
    /// A descriptor without an entry.
    #[error("descriptor {descriptor} has no entry")]
    NoEntries {
        /// Which descriptor, from 0.
        descriptor: usize,
    },
    /// An entry without a key.
    #[error("descriptor {descriptor} has an entry with an empty key")]
    EmptyKey {
        /// Which descriptor, from 0.
        descriptor: usize,
    },
    /// More text than is looked at.
    #[error("keys and values have more than {MOST_BYTES} bytes in all")]
    TooLong,
    /// More hits than the protocol allows.
    #[error("descriptor {descriptor} has {hits} hits; at most {MOST_HITS} are accepted")]
    TooManyHits {
        /// Which descriptor, from 0.
        descriptor: usize,
        /// How many.
        hits: u64,
    },
    /// A limit of its own in a unit that is not known.
    #[error(
        "descriptor {descriptor} brings a limit with an unknown unit; \
         accepted: SECOND, MINUTE, HOUR, DAY, WEEK, MONTH, YEAR"
    )]
    UnknownUnit {
        /// Which descriptor, from 0.
        descriptor: usize,
    },
}

impl Request {
    /// Refuses what can't be answered, before anything is counted.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self) -> Result<(), RequestError> {
        if self.domain.is_empty() {
            return Err(RequestError::EmptyDomain);
        }
        if self.descriptors.is_empty() {
            return Err(RequestError::NoDescriptors);
        }
        if self.descriptors.len() > MOST_DESCRIPTORS {
            return Err(RequestError::TooManyDescriptors { count: self.descriptors.len() });
        }
        let mut bytes = self.domain.len();
        for (index, descriptor) in self.descriptors.iter().enumerate() {
            descriptor.check(index, self.hits_addend)?;
            let entries = descriptor.entries.iter();
            bytes += entries.map(|(key, value)| key.len() + value.len()).sum::<usize>();
        }
        if bytes > MOST_BYTES { Err(RequestError::TooLong) } else { Ok(()) }
    }
}

impl Descriptor {
    /// A descriptor of these entries and nothing else.
    pub fn of<K: Into<String>, V: Into<String>>(entries: impl IntoIterator<Item = (K, V)>) -> Self {
        let entries = entries.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        Self { entries, ..Self::default() }
    }

    /// What it takes, or gives back.
    #[must_use]
    pub fn hits(&self, of_request: u32) -> u64 {
        self.hits_addend.unwrap_or_else(|| of_request.max(1).into())
    }

    fn check(&self, descriptor: usize, hits_of_request: u32) -> Result<(), RequestError> {
        let (count, hits) = (self.entries.len(), self.hits(hits_of_request));
        match self.limit {
            _ if count == 0 => Err(RequestError::NoEntries { descriptor }),
            _ if count > MOST_ENTRIES => Err(RequestError::TooManyEntries { descriptor, count }),
            _ if self.entries.iter().any(|(key, _)| key.is_empty()) => {
                Err(RequestError::EmptyKey { descriptor })
            }
            _ if hits > MOST_HITS => Err(RequestError::TooManyHits { descriptor, hits }),
            Some(LimitOverride { unit: None, .. }) => Err(RequestError::UnknownUnit { descriptor }),
            _ => Ok(()),
        }
    }
}
