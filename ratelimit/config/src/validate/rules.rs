//! The rules: each for itself, and all together.

use std::num::NonZeroU64;

use ratelimit_common::{
    limit::{Algorithm, LimitSpec, Rate},
    time::Nanos,
};

use super::{
    ban,
    key::{self, CheckedKey},
    matches, parsed,
    prefixes::ListReader,
    report_duplicate, word,
};
use crate::{
    error::{At, Report},
    fields::LocatedText,
    limit::{LimitDraft, LimitOption, LimitTextError, blamed_option},
    policy::{
        Action, LimitUnit, ListPurpose, Match, PacketKey, PacketLimit, PacketLimitError, PacketRule,
        PacketRules, RuleName, SetError, duplicates,
    },
    rate::parse_rate,
    raw::{RawMatch, RawRule},
};

const ACTIONS: [(&str, Action); 2] = [("drop", Action::Drop), ("observe", Action::Observe)];

/// Judges all rules.
pub fn validate(raw: &[RawRule], lists: &mut ListReader<'_>, report: &mut Report) -> Option<PacketRules> {
    let names: Vec<&LocatedText> = raw.iter().filter_map(|rule| rule.name.as_ref()).collect();
    for (later, earlier) in duplicates(names.iter().map(|name| name.text.as_str())) {
        if let (Some(later), Some(earlier)) = (names.get(later), names.get(earlier)) {
            report_duplicate(later, earlier, report);
        }
    }
    let (mut count, mut exceptions) = (0, 0);
    let mut rules = Vec::new();
    let (mut first_too_many, mut one_too_many) = (None, None);
    for raw in raw {
        let key = key::validate(&raw.key, report);
        let parts = key.as_ref().map_or(1, |judged| judged.key.parts().len());
        count += parts;
        exceptions += raw.except.len() + if raw.except.is_empty() { 0 } else { parts - 1 };
        if exceptions > PacketRules::MOST && one_too_many.is_none() {
            one_too_many = raw.except.last().map(|except| &except.at);
        }
        if count > PacketRules::MOST && first_too_many.is_none() {
            first_too_many = Some(key.as_ref().map_or(&raw.at, |judged| judged.at.unwrap_or(&raw.at)));
        }
        rules.extend(validate_rule(raw, key, lists, report));
    }
    if let Some(at) = first_too_many {
        report.error(at, SetError::TooManyRules { count });
    }
    if let Some(at) = one_too_many {
        report.error(at, SetError::TooManyExceptions { count: exceptions });
    }
    PacketRules::new(rules).ok()
}

fn validate_rule(
    raw: &RawRule,
    key: Option<CheckedKey<'_>>,
    lists: &mut ListReader<'_>,
    report: &mut Report,
) -> Option<PacketRule> {
    let name: Option<RuleName> = parsed(raw.name.as_ref(), report);
    let lists_of = |make: [fn(RuleName) -> ListPurpose; 2]| {
        name.as_ref().map(|name| make.map(|make| make(name.clone())))
    };
    let own = lists_of([ListPurpose::Source, ListPurpose::Destination]);
    let matches = raw.matches.as_ref().map(|raw| matches::validate(raw, own.as_ref(), lists, report));
    let own = lists_of([ListPurpose::ExceptSource, ListPurpose::ExceptDestination]);
    let except = raw.except.iter().map(|raw| except(raw, own.as_ref(), lists, report)).collect();
    let limit = validate_limit(raw, report);
    let action = word(raw.action.as_ref(), &ACTIONS, report).unwrap_or_default();
    let new_sources = raw
        .new_sources
        .as_ref()
        .and_then(|text| new_sources(text, key.as_ref().map(|judged| &judged.key), report));
    let ban = raw
        .ban
        .as_ref()
        .and_then(|raw| ban::validate(raw, key.as_ref().map(|judged| &judged.key), action, report));
    if let (Some(judged), Some(limit)) = (&key, &limit) {
        judged.check_factors(limit, report);
    }
    let matches = matches.unwrap_or_default();
    Some(PacketRule { name: name?, matches, except, key: key?.key, limit: limit?, action, new_sources, ban })
}

fn except(
    raw: &RawMatch,
    own: Option<&[ListPurpose; 2]>,
    lists: &mut ListReader<'_>,
    report: &mut Report,
) -> Match {
    if raw.is_empty {
        let message =
            "is empty, and would except every packet; say which, such as `except: {source: 192.0.2.53}`";
        report.error(&raw.at, message);
    }
    matches::validate(raw, own, lists, report)
}

fn new_sources(text: &LocatedText, key: Option<&PacketKey>, report: &mut Report) -> Option<PacketLimit> {
    let rate = parse_rate(&text.text).map_err(|error| report.error(&text.at, error)).ok();
    if key == Some(&PacketKey::Global) {
        report.error(&text.at, "with `key: global` there is one bucket for all sources; leave this out");
        return None;
    }
    let spec = LimitSpec::new(Algorithm::TokenBucket, rate?);
    PacketLimit::new(spec, LimitUnit::Packets).map_err(|error| report.error(&text.at, error)).ok()
}

fn validate_limit(raw: &RawRule, report: &mut Report) -> Option<PacketLimit> {
    let mut draft = LimitDraft::default();
    let mut refused = Vec::new();
    for (option, text) in &raw.limit {
        if let Err(error) = draft.set(*option, &text.text) {
            report.error(&text.at, error);
            refused.push(*option);
        }
    }
    // What an unknown algorithm goes with can't be said.
    if refused.contains(&LimitOption::Algorithm) {
        return None;
    }
    let fits_kernel = fits_kernel(raw, &draft, report);
    match draft.finish() {
        Ok((spec, unit)) if fits_kernel => {
            let limit = PacketLimit::new(spec, unit);
            limit.map_err(|error| report.error(place(raw, blame(&error)), error)).ok()
        }
        Ok(_) => None,
        Err(errors) => {
            // A rate that is not there, or not one, has been reported.
            for (option, error) in errors.iter().filter(|(_, error)| *error != LimitTextError::RateMissing) {
                report.error(place(raw, *option), error);
            }
            None
        }
    }
}

/// Whether packets can be limited by this algorithm at all, which is said even if the numbers are wrong.
fn fits_kernel(raw: &RawRule, draft: &LimitDraft, report: &mut Report) -> bool {
    let slow = Rate { amount: NonZeroU64::MIN, per: Nanos::SECOND };
    let limit = PacketLimit::new(LimitSpec::new(draft.algorithm(), slow), draft.unit());
    limit.map_err(|error| report.error(place(raw, blame(&error)), error)).is_ok()
}

/// The option that is to blame if packets can't be limited so.
fn blame(error: &PacketLimitError) -> LimitOption {
    match error {
        PacketLimitError::Limit(error) => blamed_option(error),
        PacketLimitError::SlidingBytes => LimitOption::Algorithm,
    }
}

/// Where an option stands; an option that was not given, where its rule does.
fn place(raw: &RawRule, option: LimitOption) -> &At {
    raw.limit.iter().find(|(given, _)| *given == option).map_or(&raw.at, |(_, text)| &text.at)
}
