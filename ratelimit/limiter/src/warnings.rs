//! What goes wrong and is no error of a call: it is logged, with the feature `tracing`.
#![cfg_attr(not(feature = "tracing"), expect(unused_variables, reason = "nothing is logged"))]

use std::{fmt::Display, path::Path};

use crate::text::{Shown, beginning};

/// The counts of a rule's values have no more labels.
pub fn labels_are_full(domain: &str, rule: &str, labels: usize) {
    let (domain, rule) = (Shown(beginning(domain)), Shown(beginning(rule)));
    #[cfg(feature = "tracing")]
    tracing::warn!(
        %domain, %rule, labels,
        "metrics have no more labels for values of this rule: further values count under the rule's own label"
    );
}

/// A limit is asked as a budget is, and is none.
pub fn is_no_budget(domain: &str, rule: &str) {
    let (domain, rule) = (Shown(beginning(domain)), Shown(beginning(rule)));
    #[cfg(feature = "tracing")]
    tracing::warn!(
        %domain, %rule,
        "this rule is asked with a cost of 0, as budgets are, but its limit can't be overrun: a cost \
         that is reported later is not charged if it is larger than what is left. Give the limit \
         `overrun: true` if it is a budget"
    );
}

/// A state file is of no use.
pub fn state_is_not_read(path: &Path, error: &dyn Display) {
    let (path, error) = (Shown(path.display()), Shown(error));
    #[cfg(feature = "tracing")]
    tracing::warn!(%error, %path, "state file not read; all counts start at zero");
}
