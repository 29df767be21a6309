//! Bans that spoofed packets can turn against others: a rule sees packets before any handshake has proved their source,
//! also those of TCP.

use ratelimit_common::time::Nanos;

use super::super::{error::Report, raw::RawRule};
use crate::policy::{BanLength, PacketRule};

/// The first ban of a prefix is long if it outlasts the trouble that a flood makes.
const LONG: Nanos = Nanos::from_secs(86_400);

/// Notes them.
pub fn find(raw: &RawRule, rule: &PacketRule, report: &mut Report) {
    let (Some(raw), Some(ban)) = (&raw.ban, &rule.ban) else { return };
    if rule.matches.sources.is_none() {
        report.warning(
            &raw.after.at,
            "anybody who spoofs a source address can get it banned, each time for longer if bans lengthen: \
             name in `allow` what must never be banned (gateways, name servers, your own networks), or in `match.source` \
             the networks that the rule is about",
        );
    }
    // Even of the networks that `match` names: who is outside them can spoof an address inside.
    if ban.length() > BanLength::For(LONG) {
        report.warning(
            &raw.length.at,
            "no handshake has proved the source of the packets that a rule judges, so one burst of spoofed packets bans an \
             address for so long: take minutes and lengthen the bans of those who go on, as in \
             `for: 10m, factor: 4, up_to: 7d`; ban for longer by rules on requests, whose clients have shaken hands, or with \
             `deny`",
        );
    }
}
