//! The shape of a rule.

use super::{RawBan, RawKey, RawMatch, ban, key, matches};
use crate::{
    error::{At, Report},
    fields::{Field, LocatedText},
    keys,
    limit::LimitOption,
};

/// An item of `rules`.
#[derive(Debug)]
pub struct RawRule {
    /// Where it stands.
    pub at: At,
    /// `name`
    pub name: Option<LocatedText>,
    /// `match`
    pub matches: Option<RawMatch>,
    /// `except`
    pub except: Vec<RawMatch>,
    /// `key`
    pub key: RawKey,
    /// `action`
    pub action: Option<LocatedText>,
    /// `algorithm`, `rate` and so on, as far as they are given.
    pub limit: Vec<(LimitOption, LocatedText)>,
    /// `new_sources`
    pub new_sources: Option<LocatedText>,
    /// `ban`
    pub ban: Option<RawBan>,
}

/// The limit's options that a rule on packets has, and `overrun`, to be refused. No `on_limit`: packets can't be held
/// back.
const PACKET_OPTIONS: [LimitOption; 6] = [
    LimitOption::Algorithm,
    LimitOption::Rate,
    LimitOption::Burst,
    LimitOption::Refill,
    LimitOption::CountDenied,
    LimitOption::Overrun,
];

/// Reads a rule.
pub fn read(field: &Field<'_>, report: &mut Report) -> Option<RawRule> {
    let rule = field.mapping(&keys::names("network.rules[]"), report)?;
    let name = rule.required_text("name", "every-source", report);
    let mut limit = Vec::new();
    for option in PACKET_OPTIONS {
        let text = match option {
            LimitOption::Rate => rule.required_text(option.name(), "100/s", report),
            _ => rule.text(option.name(), report),
        };
        limit.extend(text.map(|text| (option, text)));
    }
    Some(RawRule {
        at: rule.at().clone(),
        name,
        matches: rule.get("match").and_then(|matches| matches::read(&matches, report)),
        except: rule.get("except").and_then(|except| except.each(matches::read, report)).unwrap_or_default(),
        key: rule.get("key").and_then(|key| key::read(&key, report)).unwrap_or_default(),
        action: rule.text("action", report),
        limit,
        new_sources: rule.text("new_sources", report),
        ban: rule.get("ban").and_then(|ban| ban::read(&ban, report)),
    })
}
