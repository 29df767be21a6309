//! A rule's `ban`.

use std::num::NonZeroU32;

use super::super::{count::parse_count, error::Report, rate::parse_time, raw::RawBan};
use crate::policy::{Action, Ban, BanError, BanTerms, Key};

/// Judges it; `key` and `action` are the rule's.
pub fn validate(raw: &RawBan, key: Option<&Key>, action: Action, report: &mut Report) -> Option<Ban> {
    if key.is_some_and(|key| !matches!(key, Key::Source(_))) {
        report.error(&raw.after.at, "sources are banned, so the rule's key must be `source`");
    }
    if action == Action::Observe {
        report.error(
            &raw.after.at,
            "a rule that observes bans nobody: leave `ban` out, or take `action: drop`",
        );
    }
    let terms = terms(raw, report)?;
    Ban::new(terms).map_err(|error| report.error(&raw.after.at, error)).ok()
}

/// Judges what bans of both layers have.
pub fn terms(raw: &RawBan, report: &mut Report) -> Option<BanTerms> {
    let after = parse_count(&raw.after.text)
        .map_err(|error| error.to_string())
        .and_then(|count| NonZeroU32::try_from(count).map_err(|_| format!("{count} are too many to count")));
    let after = after.map_err(|error| report.error(&raw.after.at, error)).ok();
    let [within, length] = [&raw.within, &raw.length]
        .map(|text| parse_time(&text.text).map_err(|error| report.error(&text.at, error)).ok());
    let length = length.filter(|length| {
        let fits = *length <= BanTerms::LONGEST;
        if !fits {
            report.error(&raw.length.at, BanError::TooLong);
        }
        fits
    });
    Some(BanTerms { after: after?, within: within?, length: length? })
}
