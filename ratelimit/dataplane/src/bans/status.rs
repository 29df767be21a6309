//! A ban as outputs have it.

use ratelimit_common::{bans::BanLength, time::Nanos};
use serde::{Deserialize, Serialize};

use super::{BanInForce, Banned};
use crate::policy::PrefixList;

/// A ban as outputs have it, whoever lists, makes or ends it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BanStatus {
    /// The prefix.
    pub prefix: String,
    /// For how many seconds still, rounded up; `None` if it has no end.
    pub seconds_left: Option<u64>,
    /// Until when, in seconds since the Unix epoch; `None` if it has no end.
    #[serde(default)]
    pub until: Option<u64>,
    /// When it was made, likewise; `None` if nobody knows.
    #[serde(default)]
    pub made: Option<u64>,
    /// Who has made it: `command`, `rule`, `request_rule` or `unknown`.
    #[serde(default)]
    pub by: String,
    /// The rule's name, if it was one.
    #[serde(default)]
    pub rule: Option<String>,
    /// Why, if somebody said.
    #[serde(default)]
    pub reason: Option<String>,
    /// What passes all the same: a prefix on the allow list that it is inside, or the first one that is inside it.
    pub allowed: Option<String>,
    /// Only of bans that are made: whether it is an earlier one, which ends later than what was asked for and stays.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub longer: bool,
}

impl BanStatus {
    /// The status of each of these, with this allow list in force.
    pub fn all(bans: impl IntoIterator<Item = BanInForce>, allow: &PrefixList) -> Vec<Self> {
        let status = |ban: BanInForce| Self {
            prefix: ban.prefix.to_string(),
            seconds_left: match ban.left {
                BanLength::For(left) => Some(left.0.div_ceil(Nanos::SECOND.0)),
                BanLength::Forever => None,
            },
            until: ban.until.map(|until| until.0.div_ceil(Nanos::SECOND.0)),
            made: ban.made.map(|made| made.0 / Nanos::SECOND.0),
            by: ban.maker.kind().to_owned(),
            rule: ban.maker.rule().map(str::to_owned),
            reason: ban.reason.as_ref().map(|reason| reason.as_str().to_owned()),
            allowed: allow.meeting(&ban.prefix).map(|allowed| allowed.to_string()),
            longer: false,
        };
        bans.into_iter().map(status).collect()
    }

    /// The status of each that was made, or that stays because it is longer.
    #[must_use]
    pub fn of_made(made: &[Banned], allow: &PrefixList) -> Vec<Self> {
        let mut all = Self::all(made.iter().map(|made| made.ban.clone()), allow);
        all.iter_mut().zip(made).for_each(|(status, made)| status.longer = made.is_longer);
        all
    }

    /// What its maker must know of it.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        let (allowed, prefix) = (self.allowed.as_ref()?, &self.prefix);
        Some(format!(
            "{allowed} is on the allow list, which wins over the ban of {prefix}: it passes as long as \
             `allow` names it"
        ))
    }
}
