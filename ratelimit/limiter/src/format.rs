//! Limits in one line, as people write them: `token_bucket,rate=10/s,burst=20`.

use std::num::NonZeroU64;

use ratelimit_common::{
    limit::{LimitSpec, OnLimit, Rate, Refill},
    time::Nanos,
};

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
