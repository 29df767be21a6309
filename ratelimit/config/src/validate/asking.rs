//! What is asked about a request: a domain, and templates of descriptors.

use super::{application::number, parsed, word};
use crate::{
    error::{Report, quoted},
    fields::LocatedText,
    policy::{
        PrefixLengths, Range,
        application::{
            ClientBits, DescriptorTemplate, Fact, RequestTemplate, Template,
            target::{EscapedSlashes, PathForm, PathTemplates},
        },
    },
    raw::{RawAsking, RawPath},
};

/// Yes and no.
pub const BOOLEANS: [(&str, bool); 2] = [("true", true), ("false", false)];

/// What escaped slashes can be for those who only judge.
pub const SLASHES_JUDGED: [(&str, EscapedSlashes); 2] =
    [("keep", EscapedSlashes::Keep), ("decode", EscapedSlashes::Decode)];

/// The same for those who forward.
pub const SLASHES_FORWARDED: [(&str, EscapedSlashes); 3] =
    [("refuse", EscapedSlashes::Refuse), ("keep", EscapedSlashes::Keep), ("decode", EscapedSlashes::Decode)];

/// Descriptors that are made at most, and entries of each.
const MOST_TEMPLATES: usize = 32;

/// Judges it; `slashes` are the words for what escaped slashes are, the first of which they are unless one is given.
pub fn validate(
    raw: &RawAsking,
    slashes: &[(&'static str, EscapedSlashes)],
    report: &mut Report,
) -> Option<RequestTemplate> {
    let (at, descriptors) = (&raw.at_descriptors, &raw.descriptors);
    if descriptors.is_empty() && report.is_clean() {
        report.error(at, "no descriptors; add one, such as `{client: \"{client_address}\"}`");
    }
    if descriptors.iter().map(Vec::len).chain([descriptors.len()]).max() > Some(MOST_TEMPLATES) {
        report.error(at, format!("at most {MOST_TEMPLATES} descriptors, each of at most as many entries"));
    }
    if let Some(domain) = raw.domain.as_ref().filter(|domain| domain.text.is_empty()) {
        report.error(&domain.at, "empty domain; name the one whose rules are asked, such as `domain: edge`");
    }
    let form = path_form(&raw.path, slashes, report);
    let templates = path_templates(&raw.path, form, report);
    let descriptors = descriptors.iter().map(|entries| descriptor(entries, &templates, report)).collect();
    Some(RequestTemplate {
        domain: raw.domain.as_ref()?.text.clone(),
        descriptors,
        client: client(raw, report),
        path: form,
        templates,
    })
}

fn client(raw: &RawAsking, report: &mut Report) -> ClientBits {
    let mut bits = |text: &Option<LocatedText>, most: u8, default: u8| {
        let bits = text.as_ref().and_then(|text| number(text, Range::new(1, most.into()), report));
        bits.map_or(default, |bits| bits as u8)
    };
    ClientBits {
        ipv4: bits(&raw.ipv4, PrefixLengths::MOST_IPV4, PrefixLengths::DEFAULT_IPV4),
        ipv6: bits(&raw.ipv6, PrefixLengths::MOST_IPV6, PrefixLengths::DEFAULT_IPV6),
    }
}

/// Judges how paths are compared.
pub fn path_form(raw: &RawPath, slashes: &[(&'static str, EscapedSlashes)], report: &mut Report) -> PathForm {
    let left_out = slashes.first().map_or_else(EscapedSlashes::default, |(_, slashes)| *slashes);
    PathForm {
        ignore_case: word(raw.ignore_case.as_ref(), &BOOLEANS, report).unwrap_or_default(),
        escaped_slashes: word(raw.escaped_slashes.as_ref(), slashes, report).unwrap_or(left_out),
    }
}

fn path_templates(raw: &RawPath, form: PathForm, report: &mut Report) -> PathTemplates {
    let mut templates = PathTemplates::default();
    if let Some(beyond) = raw.templates.get(PathTemplates::MOST) {
        report.error(&beyond.at, format!("at most {} templates", PathTemplates::MOST));
    }
    for text in raw.templates.iter().take(PathTemplates::MOST) {
        if let Err(error) = templates.add(&text.text, form) {
            report.error(&text.at, format!("{}: {error}", quoted(&text.text)));
        }
    }
    templates
}

fn descriptor(
    entries: &[(LocatedText, LocatedText)],
    templates: &PathTemplates,
    report: &mut Report,
) -> DescriptorTemplate {
    let entry = |(key, value): &(LocatedText, LocatedText)| {
        if key.text.is_empty() {
            report.error(&key.at, "empty key; every entry needs one, such as `client: \"{client_address}\"`");
        }
        let template: Template = parsed(Some(value), report)?;
        if let Some(missing) = template.facts().find_map(|fact| missing(fact, templates)) {
            report.error(&value.at, missing);
        }
        Some((key.text.clone(), template))
    };
    DescriptorTemplate { entries: entries.iter().filter_map(entry).collect() }
}

/// What is wrong with a fact that no path can have.
fn missing(fact: &Fact, templates: &PathTemplates) -> Option<String> {
    match fact {
        Fact::PathTemplate if templates.texts().is_empty() => Some(
            "there are no templates of paths: add `path: {templates: [\"/users/{id}\"]}` beside it"
                .to_owned(),
        ),
        Fact::PathParameter(name) if !templates.has_parameter(name) => {
            let name = quoted(name);
            Some(format!("no template under `path.templates` beside it has a parameter {name}"))
        }
        _ => None,
    }
}
