//! Rules on requests: domains, descriptors and their limits.

use std::{collections::HashSet, fmt};

use serde_json::Value;

use super::{Networks, OnStoreError, RequestBan, RequestRate};

/// The rules of all files. No domain is there twice, and no descriptor twice at one place.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RuleSet {
    domains: Vec<Domain>,
}

/// The rules of one domain.
#[derive(Clone, Debug, PartialEq)]
pub struct Domain {
    /// Its name.
    pub name: String,
    /// What stands at its top, in file order.
    pub descriptors: Vec<DescriptorRule>,
    /// What is done with its requests while the store that several processes share does not answer; `None` for what
    /// [`ServicePolicy::on_store_error`](super::ServicePolicy::on_store_error) says.
    pub on_store_error: Option<OnStoreError>,
}

/// A descriptor that requests may have, with a limit or with others below it.
///
/// ```
/// # use ratelimit_limiter::application::{DescriptorRule, Quantity, RequestLimit, RequestRate, TimeUnit};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // Each client's logins: descriptors with the entries `path=/login` and `client`, in this order.
/// let quantity = Quantity::Limited(RequestRate::window(5, TimeUnit::Minute.length())?);
/// let limit = RequestLimit { name: None, replaces: Vec::new(), quantity, ban: None };
/// let client = DescriptorRule { limit: Some(limit), ..DescriptorRule::new("client", None) };
/// let login = DescriptorRule { children: vec![client], ..DescriptorRule::new("path", Some("/login".into())) };
/// # let _ = login;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct DescriptorRule {
    /// The entry's key; `*` stands for any text.
    pub key: String,
    /// The entry's value, likewise; `None` means any.
    pub value: Option<String>,
    /// Networks that the entry's value, an address or a network, is in; then there is no `value`.
    pub networks: Option<Networks>,
    /// Whether all that the pattern matches share a bucket.
    pub share_threshold: bool,
    /// Whether the limit counts, but never denies.
    pub shadow_mode: bool,
    /// Whether the limit denies only together with all others in this mode.
    pub quota_mode: bool,
    /// Whether metrics have the whole descriptor as label.
    pub detailed_metric: bool,
    /// Whether metrics have the entry's value as label.
    pub value_to_metric: bool,
    /// What is passed on to whoever asked.
    pub metadata: Option<Value>,
    /// The limit of descriptors that end here.
    pub limit: Option<RequestLimit>,
    /// What may come below.
    pub children: Vec<DescriptorRule>,
}

/// A limit on requests.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestLimit {
    /// Its name, by which others replace it.
    pub name: Option<String>,
    /// Names of limits that do not apply to requests that this one applies to.
    pub replaces: Vec<String>,
    /// How many requests there may be.
    pub quantity: Quantity,
    /// Who is banned for exceeding it again and again.
    pub ban: Option<RequestBan>,
}

/// How many requests there may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Quantity {
    /// Any number.
    Unlimited,
    /// So many.
    Limited(RequestRate),
}

/// Why a set of rules is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleSetError {
    /// A second file about a domain.
    #[error("duplicate domain `{0}`; with `merge_domains: true` several files may be about one")]
    DuplicateDomain(String),
    /// Two files about one domain say different things.
    #[error("another file about this domain has a different `on_store_error`; write it in one of them")]
    OnStoreErrorDiffers,
    /// A descriptor is there already: its index among those given.
    #[error("duplicate composite key `{key}`")]
    DuplicateDescriptor {
        /// Its index at the top of its domain.
        index: usize,
        /// The keys and values on the way.
        key: String,
    },
}

impl RuleSet {
    /// The domains, in the order in which files named them first.
    #[must_use]
    pub fn domains(&self) -> &[Domain] {
        &self.domains
    }

    /// Adds a file's domain, whose own descriptors differ. If the domain is there already, its descriptors are put
    /// behind those that are, if `merge` says so.
    ///
    /// # Errors
    /// The domain is there and `merge` says no, or a descriptor is. Nothing was added then.
    pub fn add(&mut self, domain: Domain, merge: bool) -> Result<(), RuleSetError> {
        let Some(present) = self.domains.iter_mut().find(|present| present.name == domain.name) else {
            self.domains.push(domain);
            return Ok(());
        };
        if !merge {
            return Err(RuleSetError::DuplicateDomain(domain.name));
        }
        let there: HashSet<_> = present.descriptors.iter().map(DescriptorRule::identity).collect();
        let is_there = |new: &DescriptorRule| there.contains(&new.identity());
        if let Some((index, twice)) = domain.descriptors.iter().enumerate().find(|(_, new)| is_there(new)) {
            let key = composite_key(&domain.name, [twice]);
            return Err(RuleSetError::DuplicateDescriptor { index, key });
        }
        if matches!((present.on_store_error, domain.on_store_error), (Some(one), Some(other)) if one != other)
        {
            return Err(RuleSetError::OnStoreErrorDiffers);
        }
        present.descriptors.extend(domain.descriptors);
        present.on_store_error = present.on_store_error.or(domain.on_store_error);
        Ok(())
    }

    /// How many limits there are.
    #[must_use]
    pub fn limits(&self) -> usize {
        self.domains.iter().map(Domain::limits).sum()
    }
}

impl Domain {
    /// A domain with these descriptors.
    #[must_use]
    pub fn new(name: impl Into<String>, descriptors: Vec<DescriptorRule>) -> Self {
        Self { name: name.into(), descriptors, on_store_error: None }
    }

    /// How many limits there are.
    #[must_use]
    pub fn limits(&self) -> usize {
        fn count(descriptors: &[DescriptorRule]) -> usize {
            let own = |rule: &DescriptorRule| usize::from(rule.limit.is_some()) + count(&rule.children);
            descriptors.iter().map(own).sum()
        }
        count(&self.descriptors)
    }
}

impl DescriptorRule {
    /// A descriptor of this key and value, without a limit.
    #[must_use]
    pub fn new(key: impl Into<String>, value: Option<String>) -> Self {
        Self {
            key: key.into(),
            value,
            networks: None,
            share_threshold: false,
            shadow_mode: false,
            quota_mode: false,
            detailed_metric: false,
            value_to_metric: false,
            metadata: None,
            limit: None,
            children: Vec::new(),
        }
    }

    /// What no other descriptor at the same place has.
    #[must_use]
    pub fn identity(&self) -> Identity<'_> {
        Identity {
            key: &self.key,
            value: self.value.as_deref(),
            networks: self.networks.as_ref().map(Networks::name),
        }
    }

    /// Key and value in one, for people.
    #[must_use]
    pub fn label(&self) -> String {
        match (&self.value, &self.networks) {
            (Some(value), _) => format!("{}_{value}", self.key),
            (None, Some(networks)) => format!("{}_{}", self.key, shortened(networks.name())),
            (None, None) => self.key.clone(),
        }
    }
}

/// What tells a descriptor from others at its place.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity<'d> {
    key: &'d str,
    value: Option<&'d str>,
    networks: Option<&'d str>,
}

/// Buckets go by it, those of a saved state too.
impl fmt::Debug for Identity<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, value, networks } = self;
        match networks {
            None => (key, value).fmt(f),
            Some(networks) => (key, "in", networks).fmt(f),
        }
    }
}

/// Characters of networks that a label shows.
const LONGEST_NETWORKS: usize = 60;

fn shortened(name: &str) -> String {
    match name.char_indices().nth(LONGEST_NETWORKS) {
        Some((end, _)) => format!("{}...", name.get(..end).unwrap_or_default()),
        None => name.to_owned(),
    }
}

/// The way to a rule as metrics show it: two ways may look the same.
pub fn metric_label<'d>(path: impl IntoIterator<Item = &'d DescriptorRule>) -> String {
    let key = composite_key("", path);
    key.strip_prefix('.').unwrap_or(&key).to_owned()
}

/// Under which label metrics show the limits that requests bring along.
pub const LIMITS_OF_REQUESTS: &str = "(limits of requests)";

/// The way to a descriptor in one text, for people: two ways may look the same.
pub fn composite_key<'d>(domain: &str, path: impl IntoIterator<Item = &'d DescriptorRule>) -> String {
    path.into_iter().fold(domain.to_owned(), |key, rule| format!("{key}.{}", rule.label()))
}
