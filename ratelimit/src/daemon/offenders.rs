//! Bans that rules on requests make, on their way into the kernel: on a thread of their own, so that nobody who answers
//! waits for the table of bans.

use std::{sync::Arc, thread};

use anyhow::{Context as _, Result};
use tracing::warn;

use super::ban_log::BanLog;
use crate::{
    dataplane::{BanError, Banned, Bans, Maker, NewBan},
    policy::application::UpstreamUrl,
    server::{
        Proxy,
        offenders::{BanOrder, BanQueue},
    },
    text::Shown,
};

/// Makes the bans of a queue until it is closed, but for those that would drop what a server of the proxy answers.
///
/// # Errors
/// There can be no thread.
pub fn ban(queue: Arc<BanQueue>, bans: Arc<Bans>, proxy: Arc<Proxy>) -> Result<()> {
    queue.open();
    let take = move || {
        let mut log = BanLog::default();
        while let Some(orders) = queue.take() {
            for order in &orders {
                if let Some(server) = proxy.server_in(&order.prefix) {
                    spare(&mut log, order, &server);
                    continue;
                }
                let (terms, maker) = (order.terms.for_the_table(), Maker::RequestRule(order.rule.clone()));
                let new = NewBan { terms, maker, reason: None, replaces: false };
                tell(&mut log, order, bans.ban(order.prefix, &new));
            }
        }
    };
    let started = thread::Builder::new().name("ratelimit-bans".to_owned()).spawn(take);
    started.map(drop).context("starting the thread that bans")
}

/// Says that a ban is not made. A server may well ask the proxy for something, and be made to by a client.
fn spare(log: &mut BanLog, order: &BanOrder, server: &UpstreamUrl) {
    let (prefix, rule) = (order.prefix, Shown(&order.rule));
    log.line(|left_out| {
        warn!(%prefix, left_out, "the rule on requests {rule} does not ban: the server {server} has an address there");
    });
}

/// Says what came of a ban that a rule on requests wants.
fn tell(log: &mut BanLog, order: &BanOrder, made: Result<Banned, BanError>) {
    match made {
        // Requests that were on the way when it was made.
        Ok(Banned { is_longer: true, .. }) => {}
        Ok(Banned { ban, .. }) => log.tell(&ban),
        Err(error) => {
            let (prefix, rule) = (order.prefix, Shown(&order.rule));
            log.line(|left_out| {
                warn!(%prefix, left_out, "the rule on requests {rule} can't ban: {error}");
            });
        }
    }
}
