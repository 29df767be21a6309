//! Rules of a domain that metrics can't tell apart, over all files of a set: keys and values are joined to a label,
//! which two ways to a rule may have. That is allowed, as in Envoy's service, but hardly meant.

use std::collections::HashMap;

use crate::{
    error::{At, Report, quoted},
    policy::application::LIMITS_OF_REQUESTS,
};

/// The label of a rule with a limit.
#[derive(Clone, Debug)]
pub struct Labelled {
    /// Which of the files it stands in.
    pub file: usize,
    /// Whose rule it is.
    pub domain: String,
    /// Its label.
    pub label: String,
    /// Where it stands.
    pub at: At,
}

/// Notes each rule whose label an earlier one has, in the report of the file that it stands in.
pub fn warn(rules: &[Labelled], reports: &mut [Report]) {
    let mut first: HashMap<(&str, &str), &Labelled> = HashMap::new();
    for rule in rules {
        let other = *first.entry((&rule.domain, &rule.label)).or_insert(rule);
        let other = if rule.label == LIMITS_OF_REQUESTS {
            "the limits that requests bring along".to_owned()
        } else if std::ptr::eq(other, rule) {
            continue;
        } else {
            let file = reports.get(other.file).map_or("", Report::file);
            format!("the rule at {file}:{}", other.at.position.line)
        };
        let label = quoted(&rule.label);
        if let Some(report) = reports.get_mut(rule.file) {
            report.warning(
                &rule.at,
                format!("metrics count this together with {other}: both have the label {label}"),
            );
        }
    }
}
