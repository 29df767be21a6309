//! What is asked about requests, but probably not meant so.

use crate::{
    error::{Report, quoted},
    policy::application::target::PathForm,
    policy::application::{DescriptorRule, DescriptorTemplate, Domain, RequestTemplate, RuleSet, Template},
    raw::RawAsking,
};

/// Notes what is worth a look. `asks_itself` says that the client is the peer of the connection.
pub fn find(
    raw: &RawAsking,
    asks: &RequestTemplate,
    rules: &RuleSet,
    asks_itself: bool,
    report: &mut Report,
) {
    let domain = rules.domains().iter().find(|domain| domain.name == asks.domain);
    if let (Some(name), None) = (&raw.domain, domain) {
        report.warning(&name.at, "no file of rules is about this domain: every request will pass");
    }
    // In a clean report each entry of the file has become one of the policy.
    let written = raw.descriptors.iter().flatten();
    let made = asks.descriptors.iter().flat_map(|descriptor| &descriptor.entries);
    for ((key, value), (_, template)) in written.zip(made) {
        if asks_itself && template.names_clients() {
            report.warning(
                &value.at,
                "is the peer's address, since `trusted_hops` is 0; if a proxy asks, set it to 1 or more",
            );
        }
        if domain.is_some_and(|domain| !has_key(&domain.descriptors, &key.text)) {
            report.warning(&key.at, "no rule of the domain has this key: no limit applies to the descriptor");
        }
        let never =
            domain.iter().flat_map(|domain| never_made(&domain.descriptors, &key.text, template, asks.path));
        for (wrong, right) in never {
            let [wrong, right] = [&wrong, &right].map(|value| quoted(value));
            let message = format!("never has the value {wrong} that a rule is about: write {right} there");
            report.warning(&value.at, message);
        }
    }
    find_unlimited_clients(raw, asks, domain, report);
}

/// Whoever leaves out a header has no descriptor of it, and no limit if there is no other.
fn find_unlimited_clients(
    raw: &RawAsking,
    asks: &RequestTemplate,
    domain: Option<&Domain>,
    report: &mut Report,
) {
    let has_rule = |(key, _): &(String, _)| domain.is_some_and(|domain| has_key(&domain.descriptors, key));
    let is_of_all = |made: &DescriptorTemplate| !made.is_optional() && made.entries.iter().all(has_rule);
    if domain.is_none() || asks.descriptors.iter().any(is_of_all) {
        return;
    }
    for (written, made) in raw.descriptors.iter().zip(&asks.descriptors) {
        let optional = made.entries.iter().position(|(_, template)| template.is_optional());
        if let Some((_, value)) = optional.and_then(|index| written.get(index)) {
            report.warning(
                &value.at,
                "a request without it is not limited, and clients choose what they send: add a descriptor that every \
                 request has, such as `{client: \"{client_address}\"}`, and a rule for it",
            );
        }
    }
}

/// Values of rules that no request has, since paths and hosts come in one form; and what they are in it.
fn never_made(
    rules: &[DescriptorRule],
    key: &str,
    template: &Template,
    form: PathForm,
) -> Vec<(String, String)> {
    let below = rules.iter().flat_map(|rule| never_made(&rule.children, key, template, form));
    let mut found: Vec<_> = below.collect();
    let values = rules.iter().filter(|rule| rule.key == key).filter_map(|rule| rule.value.as_ref());
    // A pattern may be cut anywhere.
    for value in values.filter(|value| !value.contains('*')) {
        let right = template.one_form(value, form).filter(|right| right != value);
        found.extend(right.map(|right| (value.clone(), right)));
    }
    found
}

/// Whether a rule has the key, or may have it: one with a `*` in it stands for many.
fn has_key(rules: &[DescriptorRule], key: &str) -> bool {
    let has = |rule: &DescriptorRule| rule.key == key || rule.key.contains('*');
    rules.iter().any(|rule| has(rule) || has_key(&rule.children, key))
}
