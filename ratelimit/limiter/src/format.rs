//! Limits and bans in one line, as people write them: `token_bucket,rate=10/s,burst=20` and
//! `after=100,within=10s,for=1h`.

use std::num::NonZeroU64;

use ratelimit_common::{
    bans::BanLength,
    limit::{LimitSpec, OnLimit, Rate, Refill},
    time::Nanos,
};

use crate::policy::{BanTerms, Lengthening, RequestBan};

/// Units of time in seconds, the longest first.
pub const UNITS: [(&str, u64); 5] = [("w", 604_800), ("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)];

/// A limit in the form that the command line reads; defaults are left out.
#[must_use]
pub fn format_limit(spec: &LimitSpec) -> String {
    format_limit_in(spec, |number| number.to_string())
}

/// The same with amounts in another form, such as sizes.
pub fn format_limit_in(spec: &LimitSpec, amount: impl Fn(NonZeroU64) -> String) -> String {
    let burst = spec.burst.map(|number| format!(",burst={}", amount(number))).unwrap_or_default();
    let refill = if spec.refill == Refill::Interval { ",refill=interval" } else { "" };
    let count_denied = if spec.count_denied { ",count_denied=true" } else { "" };
    let on_limit = if spec.on_limit == OnLimit::Delay { ",on_limit=delay" } else { "" };
    let overrun = if spec.overrun { ",overrun=true" } else { "" };
    let (algorithm, rate) = (spec.algorithm.name(), format_rate_in(spec.rate, amount));
    format!("{algorithm},rate={rate}{burst}{refill}{count_denied}{on_limit}{overrun}")
}

/// A rate with the longest unit of time that fits, and its amount in a form of its own.
pub fn format_rate_in(rate: Rate, amount: impl Fn(NonZeroU64) -> String) -> String {
    let amount = amount(rate.amount);
    let unit = UNITS.iter().find(|(_, seconds)| rate.per.0.is_multiple_of(seconds * Nanos::SECOND.0));
    match unit {
        Some((name, seconds)) => match rate.per.0 / (seconds * Nanos::SECOND.0) {
            1 => format!("{amount}/{name}"),
            count => format!("{amount}/{count}{name}"),
        },
        // Times below a second are not written by people, but can be computed.
        None => format!("{amount}/{}ns", rate.per.0),
    }
}

/// When a rule bans, and for how long, with the keys of a configuration.
#[must_use]
pub fn format_ban(terms: &BanTerms) -> String {
    let BanTerms { after, within, length, longer } = terms;
    let length = match length {
        BanLength::For(length) => format_time(*length),
        BanLength::Forever => "forever".to_owned(),
    };
    let longer = longer.map(|Lengthening { factor, up_to, forget }| {
        format!(",factor={factor},up_to={},forget={}", format_time(up_to), format_time(forget))
    });
    format!("after={after},within={},for={length}{}", format_time(*within), longer.unwrap_or_default())
}

/// The same for a rule on requests, which also says how much of an address is banned.
#[must_use]
pub fn format_request_ban(ban: &RequestBan) -> String {
    let RequestBan { terms, ipv4, ipv6, source_entry } = ban;
    let source = source_entry.as_ref().map(|entry| format!(",source_entry={entry}")).unwrap_or_default();
    format!("{},ipv4={ipv4},ipv6={ipv6}{source}", format_ban(terms))
}

/// A time in the form that the configuration reads, such as `1h30m`; no unit is longer than a day.
#[must_use]
pub fn format_time(time: Nanos) -> String {
    let mut seconds = time.0.div_ceil(Nanos::SECOND.0);
    if seconds == 0 {
        return "0s".to_owned();
    }
    let mut text = String::new();
    for (unit, length) in &UNITS[1..] {
        if seconds >= *length {
            text += &format!("{}{unit}", seconds / length);
            seconds %= length;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    #[test]
    fn bans_are_shown_as_they_are_written() {
        let after = NonZeroU32::new(1_000).unwrap();
        let seconds = Nanos::from_secs;
        let constant =
            BanTerms { after, within: seconds(10), length: BanLength::For(seconds(5_400)), longer: None };
        assert_eq!(format_ban(&constant), "after=1000,within=10s,for=1h30m");
        let forever = BanTerms { length: BanLength::Forever, ..constant };
        assert_eq!(format_ban(&forever), "after=1000,within=10s,for=forever");
        let factor = NonZeroU32::new(4).unwrap();
        let longer = Some(Lengthening { factor, up_to: seconds(7 * 86_400), forget: seconds(86_461) });
        let lengthening = BanTerms { longer, ..constant };
        let shown = "after=1000,within=10s,for=1h30m,factor=4,up_to=7d,forget=1d1m1s";
        assert_eq!(format_ban(&lengthening), shown);
        let ban = |source_entry| RequestBan { terms: constant, ipv4: 32, ipv6: 64, source_entry };
        let shown = "after=1000,within=10s,for=1h30m,ipv4=32,ipv6=64";
        assert_eq!(format_request_ban(&ban(None)), shown);
        assert_eq!(
            format_request_ban(&ban(Some("client".to_owned()))),
            format!("{shown},source_entry=client")
        );
    }
}
