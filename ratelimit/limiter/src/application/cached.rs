//! What those who answer make of a rule once, such as the texts of its headers, which rules know nothing of.
#![cfg_attr(
    not(any(feature = "http", test)),
    expect(dead_code, reason = "only answers over HTTP are made of rules")
)]

use std::{
    any::Any,
    fmt,
    sync::{Arc, OnceLock},
};

/// A value that is made when it is first asked for. It says nothing about its rule, so all are equal.
#[derive(Clone, Default)]
pub struct Cached(OnceLock<Arc<dyn Any + Send + Sync>>);

impl Cached {
    /// The value; `None` if there is one of another type already.
    pub fn get_or_init<T: Any + Send + Sync>(&self, make: impl FnOnce() -> T) -> Option<&T> {
        self.0.get_or_init(|| Arc::new(make())).downcast_ref()
    }
}

impl PartialEq for Cached {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl fmt::Debug for Cached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cached").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_made_once_and_has_one_type() {
        let cached = Cached::default();
        assert_eq!(cached.get_or_init(|| 1), Some(&1));
        assert_eq!(cached.get_or_init(|| 2), Some(&1));
        assert_eq!(cached.get_or_init(|| "text"), None);
        assert_eq!(cached.clone().get_or_init(|| 3), Some(&1));
    }
}
