//! Reads `vectors.yaml`, the golden decisions. Numbers are read as decimals, digit by digit: no float comes near them.
//!
//! The test crates that run the vectors include this file with `#[path]`; it decides nothing itself.

use std::num::NonZeroU64;

use ratelimit_common::{
    limit::{Algorithm, LimitSpec, OnLimit, Rate, Refill},
    time::Nanos,
};
use serde::Deserialize;

/// One list of requests to one bucket.
#[derive(Clone, Debug)]
pub struct Vector {
    pub name: String,
    pub spec: LimitSpec,
    pub events: Vec<Event>,
}

/// A request, repeated `times`, and what is expected of it; `None` where the file says nothing.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    pub at: Nanos,
    pub cost: u32,
    pub times: u32,
    pub allow: bool,
    pub remaining: Option<u64>,
    pub retry_after: Option<Nanos>,
    pub leaves_after: Option<Nanos>,
    pub never: bool,
    pub owed: Option<u64>,
    pub cut: Option<u64>,
}

/// All vectors of the file.
pub fn all() -> Result<Vec<Vector>, String> {
    read(include_str!("../vectors.yaml"))
}

/// Vectors in the form of that file.
pub fn read(text: &str) -> Result<Vec<Vector>, String> {
    let raw: Vec<RawVector> = serde_yaml::from_str(text).map_err(|error| error.to_string())?;
    raw.into_iter().map(RawVector::read).collect()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawVector {
    name: String,
    #[serde(default, rename = "origin")]
    _origin: Option<String>,
    limit: RawLimit,
    events: Vec<RawEvent>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLimit {
    algorithm: String,
    rate: String,
    burst: Option<u64>,
    refill: Option<String>,
    #[serde(default)]
    count_denied: bool,
    on_limit: Option<String>,
    #[serde(default)]
    overrun: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEvent {
    at: String,
    #[serde(default = "one")]
    cost: u32,
    #[serde(default = "one")]
    times: u32,
    allow: bool,
    remaining: Option<u64>,
    retry_after: Option<String>,
    leaves_after: Option<String>,
    #[serde(default)]
    never: bool,
    owed: Option<u64>,
    cut: Option<u64>,
}

fn one() -> u32 {
    1
}

impl RawVector {
    fn read(self) -> Result<Vector, String> {
        let within = |error| format!("{}: {error}", self.name);
        Ok(Vector {
            spec: self.limit.read().map_err(within)?,
            events: self.events.iter().map(RawEvent::read).collect::<Result<_, _>>().map_err(within)?,
            name: self.name,
        })
    }
}

impl RawLimit {
    fn read(&self) -> Result<LimitSpec, String> {
        let mut spec = LimitSpec::new(algorithm(&self.algorithm)?, rate(&self.rate)?);
        spec.burst = match self.burst {
            Some(burst) => Some(NonZeroU64::new(burst).ok_or("a burst of zero")?),
            None => None,
        };
        spec.refill = match self.refill.as_deref() {
            None | Some("continuous") => Refill::Continuous,
            Some("interval") => Refill::Interval,
            Some(other) => return Err(format!("refill {other}")),
        };
        spec.on_limit = match self.on_limit.as_deref() {
            None | Some("reject") => OnLimit::Reject,
            Some("delay") => OnLimit::Delay,
            Some(other) => return Err(format!("on_limit {other}")),
        };
        (spec.count_denied, spec.overrun) = (self.count_denied, self.overrun);
        Ok(spec)
    }
}

impl RawEvent {
    fn read(&self) -> Result<Event, String> {
        Ok(Event {
            at: seconds(&self.at)?,
            cost: self.cost,
            times: self.times,
            allow: self.allow,
            remaining: self.remaining,
            retry_after: self.retry_after.as_deref().map(seconds).transpose()?,
            leaves_after: self.leaves_after.as_deref().map(seconds).transpose()?,
            never: self.never,
            owed: self.owed,
            cut: self.cut,
        })
    }
}

fn algorithm(name: &str) -> Result<Algorithm, String> {
    let named = Algorithm::ALL.into_iter().find(|algorithm| algorithm.name() == name);
    named.ok_or_else(|| format!("algorithm {name}"))
}

/// `N/[n]UNIT`.
fn rate(text: &str) -> Result<Rate, String> {
    let wrong = || format!("rate {text}");
    let (amount, per) = text.split_once('/').ok_or_else(wrong)?;
    let (count, unit) = per.split_at(per.len().checked_sub(1).ok_or_else(wrong)?);
    let unit = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        "w" => 604_800,
        _ => return Err(wrong()),
    };
    let count = if count.is_empty() { 1 } else { count.parse::<u64>().map_err(|_| wrong())? };
    let amount = amount.parse().map_err(|_| wrong())?;
    Ok(Rate { amount, per: Nanos::from_secs(unit * count) })
}

/// Decimal seconds with at most nine places, exactly.
pub fn seconds(text: &str) -> Result<Nanos, String> {
    let (whole, places) = text.split_once('.').unwrap_or((text, "0"));
    let number = |digits: &str| digits.parse::<u64>().map_err(|error| format!("{text}: {error}"));
    let scale = 9_usize.checked_sub(places.len()).ok_or_else(|| format!("{text}: more than nine places"))?;
    Ok(Nanos(number(whole)? * Nanos::SECOND.0 + number(places)? * 10_u64.pow(scale as u32)))
}
