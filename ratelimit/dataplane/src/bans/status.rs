//! A ban as outputs have it.

use ratelimit_common::{bans::BanLength, time::Nanos};
use serde::{Deserialize, Serialize};

use super::{BanInForce, Banned, Bans};
use crate::{Error, lists, trial};

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
    /// Whether it drops packets: not while everything passes, after a trial that nobody confirmed.
    #[serde(default = "usually")]
    pub in_force: bool,
    /// Only of bans that are made: whether it is an earlier one, which ends later than what was asked for and stays.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub longer: bool,
}

/// What versions that do not say so mean.
const fn usually() -> bool {
    true
}

impl Bans {
    /// Bans as outputs have them.
    ///
    /// # Errors
    /// It can't be read what is in force beside them.
    pub fn statuses(&self, bans: impl IntoIterator<Item = BanInForce>) -> Result<Vec<BanStatus>, Error> {
        let (allow, in_force) = (lists::allow_list(&self.pins)?, self.are_in_force()?);
        let status = |ban: BanInForce| BanStatus {
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
            in_force,
            longer: false,
        };
        Ok(bans.into_iter().map(status).collect())
    }

    /// Those that were made, or that stay because they are longer.
    ///
    /// # Errors
    /// See [`Self::statuses`].
    pub fn statuses_of_made(&self, made: &[Banned]) -> Result<Vec<BanStatus>, Error> {
        let mut all = self.statuses(made.iter().map(|made| made.ban.clone()))?;
        all.iter_mut().zip(made).for_each(|(status, made)| status.longer = made.is_longer);
        Ok(all)
    }

    /// Whether bans drop packets: see [`is_in_force`](crate::is_in_force).
    ///
    /// # Errors
    /// The notes or the clock can't be read.
    pub fn are_in_force(&self) -> Result<bool, Error> {
        trial::drops(&self.pins)
    }
}

impl BanStatus {
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
