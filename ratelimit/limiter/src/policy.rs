//! What a service decides by: rules on requests in their validated form, and what is decided for all of them.

mod ban;
mod networks;
mod rate;
mod rules;
mod unit;

use std::{any::Any, fmt, num::NonZeroU32, path::PathBuf, sync::Arc};

pub use ban::{BanTerms, Lengthening, RequestBan};
pub use networks::Networks;
pub use rate::{RateOptions, RequestLimitError, RequestRate, SoftLimit};
pub use rules::{
    DescriptorRule, Domain, Identity, LIMITS_OF_REQUESTS, Quantity, RequestLimit, RuleSet, RuleSetError,
    composite_key, metric_label,
};
pub use unit::{NoTimeUnit, TimeUnit};

use ratelimit_common::time::Nanos;

use crate::store::memory::DEFAULT_MAX_KEYS;

/// What a [`Service`](crate::application::Service) decides by.
#[derive(Clone)]
pub struct ServicePolicy {
    /// The rules.
    pub rules: RuleSet,
    /// Whether a request is let through whatever the limits say; they still count.
    pub shadow_mode: bool,
    /// Whether every limit is in quota mode.
    pub quota_mode: bool,
    /// The share of a limit above which its use counts as near it.
    pub near_limit_ratio: NearLimitRatio,
    /// Where counts are kept.
    pub store: StoreSettings,
    /// What is done while the store that several processes share does not answer.
    pub on_store_error: OnStoreError,
    /// How many processes share it: each has such a share of the limits then, with [`OnStoreError::Local`].
    pub local_share: NonZeroU32,
    /// What the program itself wants to find beside the rules in force, see
    /// [`InForce::extension`](crate::application::InForce::extension).
    pub extension: Option<Arc<dyn Any + Send + Sync>>,
}

/// A share of a limit, from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NearLimitRatio(f64);

/// Where counts are kept: in this process's memory.
///
/// ```
/// use ratelimit_limiter::application::{RuleSet, Service, ServicePolicy, StoreSettings};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("counts");
/// let store = StoreSettings { state_file: Some(path), ..StoreSettings::default() };
/// let policy = ServicePolicy { store, ..ServicePolicy::of_rules(RuleSet::default()) };
/// // It reads the file, if there is one.
/// let service = Service::new(&policy)?;
/// // The program calls this from time to time, and after the last request.
/// service.save()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreSettings {
    /// How many keys there is room for.
    pub max_keys: u64,
    /// Where they are saved, on a clean stop and every [`Self::save_interval`].
    pub state_file: Option<PathBuf>,
    /// How often they are saved.
    pub save_interval: Nanos,
}

/// What is done while a store does not answer. The one in memory always does.
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

impl StoreSettings {
    /// How many keys there is room for unless somebody says otherwise.
    pub const DEFAULT_MAX_KEYS: u64 = DEFAULT_MAX_KEYS;
    /// How often counts are saved unless somebody says otherwise.
    pub const DEFAULT_SAVE_INTERVAL: Nanos = Nanos::from_secs(60);
}

impl Default for StoreSettings {
    fn default() -> Self {
        Self { max_keys: DEFAULT_MAX_KEYS, state_file: None, save_interval: Self::DEFAULT_SAVE_INTERVAL }
    }
}

impl ServicePolicy {
    /// With these rules, and all else at its default.
    #[must_use]
    pub fn of_rules(rules: RuleSet) -> Self {
        Self {
            rules,
            shadow_mode: false,
            quota_mode: false,
            near_limit_ratio: NearLimitRatio::default(),
            store: StoreSettings::default(),
            on_store_error: OnStoreError::default(),
            local_share: NonZeroU32::MIN,
            extension: None,
        }
    }
}

impl fmt::Debug for ServicePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServicePolicy")
            .field("rules", &self.rules)
            .field("store", &self.store)
            .finish_non_exhaustive()
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
