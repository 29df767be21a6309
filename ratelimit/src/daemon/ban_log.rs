//! Bans that rules make, in the log. Rules on packets make theirs in the kernel, so they are looked for now and then.

use std::time::{Duration, Instant};

use ratelimit_common::time::Nanos;
use tracing::{info, warn};

use crate::{
    dataplane::{BanInForce, Bans, Error},
    policy::BanLength,
    text::Shown,
};

/// Lines in a second; more bans than that are counted in the next line.
const MOST_LINES: u32 = 10;

/// What has been told in this second.
#[derive(Default)]
pub struct BanLog {
    since: Option<Instant>,
    lines: u32,
    left_out: u64,
}

impl BanLog {
    /// Says that somebody is banned.
    pub fn tell(&mut self, ban: &BanInForce) {
        let (prefix, maker) = (ban.prefix, Shown(&ban.maker));
        self.line(|left_out| match ban.left {
            BanLength::For(left) => {
                info!(%prefix, seconds = left.0.div_ceil(Nanos::SECOND.0), left_out, "banned by {maker}");
            }
            BanLength::Forever => info!(%prefix, left_out, "banned forever by {maker}"),
        });
    }

    /// Writes a line, with how many have been left out before it, or leaves it out.
    pub fn line(&mut self, write: impl FnOnce(u64)) {
        if self.since.is_none_or(|since| since.elapsed() > Duration::from_secs(1)) {
            (self.since, self.lines) = (Some(Instant::now()), 0);
        }
        self.lines += 1;
        if self.lines > MOST_LINES {
            self.left_out += 1;
        } else {
            write(std::mem::take(&mut self.left_out));
        }
    }
}

/// Looks for bans that rules on packets have made.
pub struct NewBans {
    log: BanLog,
    /// How many they had made at the last look.
    count: u64,
    /// When they made the last of those.
    last: Nanos,
}

impl NewBans {
    /// How often it is looked.
    pub const PERIOD: Duration = Duration::from_secs(1);

    /// Those that are made from now on.
    ///
    /// # Errors
    /// They can't be looked at.
    pub fn watch(bans: &Bans) -> Result<Self, Error> {
        Ok(Self { log: BanLog::default(), count: bans.made_by_rules()?, last: bans.time()? })
    }

    /// Tells those that have been made since the last look. As a rule there are none, which takes no time.
    pub fn tell(&mut self, bans: &Bans) {
        if let Err(error) = self.try_tell(bans) {
            self.log.line(|_| warn!(%error, "can't look for bans that rules have made"));
        }
    }

    fn try_tell(&mut self, bans: &Bans) -> Result<(), Error> {
        // Before the look: what is made meanwhile is looked for once more.
        let count = bans.made_by_rules()?;
        if count != self.count {
            let (made, last) = bans.made_by_rules_after(self.last)?;
            (self.count, self.last) = (count, last);
            made.iter().for_each(|ban| self.log.tell(ban));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_bans_is_counted() {
        let mut log = BanLog::default();
        let mut told = Vec::new();
        (0..100).for_each(|_| log.line(|left_out| told.push(left_out)));
        assert_eq!(told, [0; MOST_LINES as usize]);
        log.since = log.since.and_then(|since| since.checked_sub(Duration::from_secs(2)));
        log.line(|left_out| told.push(left_out));
        assert_eq!(told.last(), Some(&90));
    }
}
