//! A rule's `ban`.

use std::num::NonZeroU32;

use ratelimit_common::{bans::BanSchedule, time::Nanos};

use super::{
    super::{
        count::parse_count,
        error::Report,
        fields::LocatedText,
        rate::{RateError, parse_time},
        raw::RawBan,
    },
    application::number,
};
use crate::policy::{Action, BanLength, BanTerms, Lengthening, PacketBan, PacketBanError, PacketKey, Range};

/// Judges it; `key` and `action` are the rule's.
pub fn validate(
    raw: &RawBan,
    key: Option<&PacketKey>,
    action: Action,
    report: &mut Report,
) -> Option<PacketBan> {
    if key.is_some_and(|key| !matches!(key, PacketKey::Source(_))) {
        report.error(&raw.after.at, "sources are banned, so the rule's key must be `source`");
    }
    if action == Action::Observe {
        report.error(
            &raw.after.at,
            "a rule that observes bans nobody: leave `ban` out, or take `action: drop`",
        );
    }
    let terms = terms(raw, report)?;
    PacketBan::new(terms).map_err(|error| report.error(&raw.after.at, error)).ok()
}

/// Judges what bans of both layers have.
pub fn terms(raw: &RawBan, report: &mut Report) -> Option<BanTerms> {
    let after = parse_count(&raw.after.text)
        .map_err(|error| error.to_string())
        .and_then(|count| NonZeroU32::try_from(count).map_err(|_| format!("{count} are too many to count")));
    let after = after.map_err(|error| report.error(&raw.after.at, error)).ok();
    let within = parse_time(&raw.within.text).map_err(|error| report.error(&raw.within.at, error)).ok();
    let length = parse_ban_length(&raw.length.text).map_err(|error| report.error(&raw.length.at, error)).ok();
    // Whether `for` is right or not.
    let longer = longer(raw, length, report)?;
    Some(BanTerms { after: after?, within: within?, length: length?, longer })
}

/// For how long somebody is banned: a time of at most 365 days, or `forever`.
///
/// # Errors
/// It is neither.
pub fn parse_ban_length(text: &str) -> Result<BanLength, BanLengthError> {
    if text == "forever" {
        return Ok(BanLength::Forever);
    }
    match parse_time(text)? {
        length if length <= BanTerms::LONGEST => Ok(BanLength::For(length)),
        _ => Err(BanLengthError::TooLong(PacketBanError::TooLong)),
    }
}

/// Why a text is no length of a ban.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BanLengthError {
    /// No time.
    #[error("{0}; also accepted: forever")]
    Time(#[from] RateError),
    /// Too long a time.
    #[error(transparent)]
    TooLong(PacketBanError),
}

/// How bans lengthen: `Some(None)` if they don't, `None` if there is a mistake.
fn longer(raw: &RawBan, length: Option<BanLength>, report: &mut Report) -> Option<Option<Lengthening>> {
    let Some(factor) = &raw.factor else {
        let alone = raw.up_to.iter().chain(&raw.forget);
        alone.for_each(|text| report.error(&text.at, "bans have one length unless `factor` is given"));
        return Some(None);
    };
    if length == Some(BanLength::Forever) {
        report.error(
            &factor.at,
            "nothing is longer than `for: forever`: leave `factor` out, or give `for` a time",
        );
    }
    let most = u64::from(BanTerms::MOST_FACTOR);
    let parsed = number(factor, Range::new(2, most), report);
    let parsed = parsed.and_then(|factor| NonZeroU32::new(u32::try_from(factor).ok()?));
    let mut time = |text: &Option<LocatedText>, default: Nanos| match text {
        None => Some(default),
        Some(text) => match parse_time(&text.text) {
            Ok(time) if time <= BanTerms::LONGEST => Some(time),
            Ok(_) => {
                report.error(&text.at, "at most 365 days");
                None
            }
            Err(error) => {
                report.error(&text.at, error);
                None
            }
        },
    };
    let (up_to, forget) = (time(&raw.up_to, DEFAULT_UP_TO), time(&raw.forget, BanSchedule::FORGET));
    let (factor, up_to, forget) = (parsed?, up_to?, forget?);
    if matches!(length, Some(BanLength::For(length)) if length > up_to) {
        let at = raw.up_to.as_ref().unwrap_or(&raw.length).at.clone();
        report.error(
            &at,
            "the first ban, `for`, is longer than the longest, `up_to`, which is 7d unless given",
        );
        return None;
    }
    Some(Some(Lengthening { factor, up_to, forget }))
}

/// `up_to` if it is not given.
const DEFAULT_UP_TO: Nanos = Nanos::from_secs(7 * 86_400);
