//! Bans that commands have made or ended in the kernel by themselves: they tell the daemon of them, for its log.

use std::{path::Path, time::Duration};

use hyper::Request;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tracing::info;

use super::{exchange, route};
use crate::{dataplane::BanStatus, policy::InstanceName, text::Shown};

/// What a command has done.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToldBans {
    /// Bans that it has made.
    #[serde(default)]
    pub made: Vec<BanStatus>,
    /// Bans that it has ended.
    #[serde(default)]
    pub ended: Vec<BanStatus>,
    /// How many more.
    #[serde(default)]
    pub left_out: u64,
}

/// Bans that are told of in one go.
const MOST: usize = 20;

/// The command does not wait for longer: what it was to do is done.
const PATIENCE: Duration = Duration::from_millis(500);

impl ToldBans {
    /// With so many of them that nobody minds. Those that stay because they are longer were not made.
    #[must_use]
    pub fn new(made: &[BanStatus], ended: &[BanStatus]) -> Self {
        let made = made.iter().filter(|ban| !ban.longer);
        let all = made.clone().count() + ended.len();
        let told = Self {
            made: made.take(MOST).cloned().collect(),
            ended: ended.iter().take(MOST).cloned().collect(),
            left_out: 0,
        };
        Self { left_out: (all - told.made.len() - told.ended.len()) as u64, ..told }
    }

    /// Writes them into the log.
    pub fn log(&self) {
        for BanStatus { prefix, seconds_left, reason, .. } in &self.made {
            let (prefix, reason) = (Shown(prefix), reason.as_deref());
            match seconds_left {
                Some(seconds) => info!(%prefix, seconds, reason, "banned by command"),
                None => info!(%prefix, reason, "banned forever by command"),
            }
        }
        self.ended.iter().for_each(|ban| info!(prefix = %Shown(&ban.prefix), "unbanned by command"));
        if self.left_out > 0 {
            info!(left_out = self.left_out, "and others, by the same command");
        }
    }
}

/// Tells the daemon at `path`, which serves `instance`. If it does not listen, its log lacks this.
pub fn tell_bans(path: &Path, instance: &InstanceName, told: &ToldBans) {
    if !told.made.is_empty() || !told.ended.is_empty() {
        let _ =
            exchange(path, Request::post(route(instance, "bans/told")), json!(told).to_string(), PATIENCE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn very_many_are_counted_and_those_that_stay_are_not_told() {
        let ban = |longer| BanStatus {
            prefix: "192.0.2.7/32".to_owned(),
            seconds_left: None,
            until: None,
            made: None,
            by: "command".to_owned(),
            rule: None,
            reason: None,
            allowed: None,
            in_force: true,
            longer,
        };
        let told = ToldBans::new(&[vec![ban(false); 25], vec![ban(true); 9]].concat(), &vec![ban(false); 22]);
        assert_eq!((told.made.len(), told.ended.len(), told.left_out), (20, 20, 7));
        assert_eq!(ToldBans::new(&[ban(false)], &[]).left_out, 0);
    }
}
