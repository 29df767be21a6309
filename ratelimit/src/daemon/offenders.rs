//! Bans that rules on requests make, on their way into the kernel: on a thread of their own, so that nobody who answers
//! waits for the table of bans.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use ratelimit_common::time::Nanos;
use tracing::{info, warn};

use crate::{
    dataplane::{BanError, Banned, Bans},
    server::offenders::{BanOrder, BanQueue},
    text::Shown,
};

/// Lines of the log in a second; more bans than that are counted in the next line.
const MOST_LINES: u32 = 10;

/// Makes the bans of a queue until it is closed.
///
/// # Errors
/// There can be no thread.
pub fn ban(queue: Arc<BanQueue>, bans: Arc<Bans>) -> Result<()> {
    queue.open();
    let take = move || {
        let mut told = Told::default();
        while let Some(orders) = queue.take() {
            orders.iter().for_each(|order| told.tell(order, bans.ban(order.prefix, order.length, false)));
        }
    };
    let started = thread::Builder::new().name("ratelimit-bans".to_owned()).spawn(take);
    started.map(drop).context("starting the thread that bans")
}

/// What has been told in this second.
#[derive(Default)]
struct Told {
    since: Option<Instant>,
    lines: u32,
    left_out: u64,
}

impl Told {
    fn tell(&mut self, order: &BanOrder, made: Result<Banned, BanError>) {
        // Requests that were on the way when it was made.
        if made.as_ref().is_ok_and(|made| made.is_longer) {
            return;
        }
        if !self.has_room() {
            self.left_out += 1;
            return;
        }
        let (prefix, rule, left_out) = (order.prefix, Shown(&order.rule), std::mem::take(&mut self.left_out));
        match made {
            Ok(Banned { ban, .. }) => {
                let seconds = ban.left.0.div_ceil(Nanos::SECOND.0);
                info!(%prefix, seconds, left_out, "banned by the rule on requests {rule}");
            }
            Err(error) => warn!(%prefix, left_out, "the rule on requests {rule} can't ban: {error}"),
        }
    }

    fn has_room(&mut self) -> bool {
        if self.since.is_none_or(|since| since.elapsed() > Duration::from_secs(1)) {
            (self.since, self.lines) = (Some(Instant::now()), 0);
        }
        self.lines += 1;
        self.lines <= MOST_LINES
    }
}
