//! What the daemon answers about requests, and where: the validated `application` section with the rules that its files
//! hold.

mod listen;
mod rules;
pub mod target;
mod template;
mod unit;

use std::path::PathBuf;

pub use listen::{Listen, ListenAddress, Listener, Tls};
pub use rules::{
    DescriptorRule, Domain, LIMITS_OF_REQUESTS, Quantity, RateOptions, RequestLimit, RequestLimitError,
    RequestRate, RuleSet, RuleSetError, SoftLimit, composite_key, metric_label,
};
pub use template::{Auth, DescriptorTemplate, Fact, Facts, Template, TemplateError, UNKNOWN_CLIENT};
pub use unit::{NoTimeUnit, TimeUnit};

use crate::store::memory::DEFAULT_MAX_KEYS;

/// What is answered about requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Application {
    /// The rules of all files.
    pub rules: RuleSet,
    /// Where they came from.
    pub sources: RuleSources,
    /// Whether a request is let through whatever the limits say; they still count.
    pub shadow_mode: bool,
    /// Whether every limit is in quota mode.
    pub quota_mode: bool,
    /// Above which share of a limit use counts as near it.
    pub near_limit_ratio: NearLimitRatio,
    /// How many proxies in front add the address of who speaks to them.
    pub trusted_hops: u8,
    /// Which headers answers have.
    pub headers: AnswerHeaders,
    /// What is asked about a request that a proxy shows.
    pub auth: Option<Auth>,
    /// Where counts are kept.
    pub store: StoreSettings,
    /// What is answered while the store fails.
    pub on_store_error: OnStoreError,
    /// Where questions come in.
    pub listen: Listen,
}

/// Files of rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleSources {
    /// The paths as configured that have a `*` or the like in them, relative ones put below the configuration's directory.
    pub patterns: Vec<PathBuf>,
    /// What they and the other paths are, in the order in which it was read.
    pub files: Vec<PathBuf>,
    /// Whether several files may be about one domain.
    pub merge_domains: bool,
}

/// A share of a limit, from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NearLimitRatio(f64);

/// Which headers answers have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerHeaders {
    /// `X-RateLimit-Limit`, `-Remaining` and so on.
    pub x_ratelimit: bool,
    /// `Retry-After`
    pub retry_after: bool,
    /// `RateLimit` and `RateLimit-Policy`.
    pub ietf: bool,
    /// Whether answers over gRPC bring them too.
    pub grpc: bool,
}

/// Where counts are kept: in this process's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreSettings {
    /// How many keys there is room for.
    pub max_keys: u64,
    /// Where they are saved on a clean stop.
    pub state_file: Option<PathBuf>,
}

/// What is answered while the store fails. The store in memory can't.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnStoreError {
    /// Requests go on.
    #[default]
    Allow,
    /// They do not.
    Deny,
    /// They are judged by what this process knows.
    Local,
}

impl NearLimitRatio {
    /// `None` unless it is from 0 to 1.
    #[must_use]
    pub fn new(ratio: f64) -> Option<Self> {
        (0.0..=1.0).contains(&ratio).then_some(Self(ratio))
    }

    /// The use above which a limit of so many is near.
    #[must_use]
    pub fn of(self, limit: u64) -> u64 {
        // As single precision numbers, so that the boundary is where the users' dashboards have always had it.
        let ratio = self.0 as f32;
        (limit as f32 * ratio).floor() as u64
    }
}

impl Default for NearLimitRatio {
    fn default() -> Self {
        Self(0.8)
    }
}

impl Default for AnswerHeaders {
    fn default() -> Self {
        Self { x_ratelimit: true, retry_after: true, ietf: true, grpc: false }
    }
}

impl Default for StoreSettings {
    fn default() -> Self {
        Self { max_keys: DEFAULT_MAX_KEYS, state_file: None }
    }
}

impl Application {
    /// An application layer with these rules and everything else at its default, for programs that bring their own rules.
    #[must_use]
    pub fn of_rules(rules: RuleSet) -> Self {
        Self {
            rules,
            sources: RuleSources::default(),
            shadow_mode: false,
            quota_mode: false,
            near_limit_ratio: NearLimitRatio::default(),
            trusted_hops: 0,
            headers: AnswerHeaders::default(),
            auth: None,
            store: StoreSettings::default(),
            on_store_error: OnStoreError::default(),
            listen: Listen::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_near_from_a_share_of_it_on() {
        let cases = [
            (0.8, 10, 8),
            (0.8, 15, 12),
            (0.8, 1, 0),
            (0.0, 10, 0),
            (1.0, 7, 7),
            (0.8, 4_294_967_295, 3_435_973_888),
        ];
        for (ratio, limit, expected) in cases {
            assert_eq!(NearLimitRatio::new(ratio).unwrap().of(limit), expected, "{ratio} of {limit}");
        }
        assert_eq!(
            NearLimitRatio::new(f64::NAN).or(NearLimitRatio::new(1.01)).or(NearLimitRatio::new(-0.1)),
            None
        );
    }
}
