//! A descriptor's `rate_limit`.

use ratelimit_common::{
    limit::{Algorithm, LimitError},
    time::Nanos,
};

use super::{ban, descriptor::flag, keys::read_mapping};
use crate::{
    count::{parse_count, without_underscores},
    error::{At, Report, quoted},
    fields::{Field, LocatedText, Mapping},
    limit::{ALGORITHMS, LimitOption, LimitTextError, blamed_option, parse_burst},
    policy::application::{
        Quantity, RateOptions, RequestLimit, RequestLimitError, RequestRate, SoftLimit, TimeUnit,
    },
    rate::parse_time,
    words::parse_word,
};

/// What an error says of something that is to come.
const NOT_SUPPORTED_YET: &str = "not supported yet";

/// What has no meaning where there is no limit.
const OF_LIMITED: [&str; 12] = [
    "unit",
    "per",
    "algorithm",
    "burst",
    "count_denied",
    "overrun",
    "on_limit",
    "queue_size",
    "soft_limit",
    "soft_for",
    "ban",
    "requests_per_unit",
];

/// Reads a limit, and where the names of those that it replaces stand.
pub fn read(field: &Field<'_>, report: &mut Report) -> Option<(RequestLimit, Vec<LocatedText>)> {
    let map = read_mapping(field, "descriptors[].rate_limit", report)?;
    let mut reader = LimitReader { map: &map, report };
    let name = reader.text("name").map(|text| text.text).filter(|name| !name.is_empty());
    let replaced = reader.replaces(name.as_deref());
    let replaces = replaced.iter().map(|name| name.text.clone()).collect();
    let ban = map.get("ban").filter(|ban| !ban.is_null()).and_then(|ban| ban::read(&ban, reader.report));
    let quantity = if flag(&map, "unlimited", reader.report) {
        reader.judge_beside_unlimited();
        Some(Quantity::Unlimited)
    } else {
        reader.rate().map(Quantity::Limited)
    };
    Some((RequestLimit { name, replaces, quantity: quantity?, ban }, replaced))
}

struct LimitReader<'t, 'r> {
    map: &'r Mapping<'t>,
    report: &'r mut Report,
}

impl LimitReader<'_, '_> {
    fn text(&mut self, key: &str) -> Option<LocatedText> {
        self.map.get(key).filter(|field| !field.is_null())?.text(self.report)
    }

    /// The value of a key by a parser; `None` if it is not there, or wrong and reported.
    fn parsed<T, E: std::fmt::Display>(
        &mut self,
        key: &str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        let text = self.text(key)?;
        parse(&text.text).map_err(|error| self.report.error(&text.at, error)).ok()
    }

    fn replaces(&mut self, own: Option<&str>) -> Vec<LocatedText> {
        let list = self.map.get("replaces").filter(|field| !field.is_null());
        let items = list.map(|list| list.items(self.report)).unwrap_or_default();
        items.iter().filter_map(|item| self.replaced(item, own)).collect()
    }

    fn replaced(&mut self, item: &Field<'_>, own: Option<&str>) -> Option<LocatedText> {
        let map = read_mapping(item, "descriptors[].rate_limit.replaces[]", self.report)?;
        let name = map.get("name").filter(|field| !field.is_null());
        let name = name.and_then(|field| field.text(self.report)).filter(|name| !name.text.is_empty());
        match name {
            None => self.report.error(&map.at_of("name"), "empty replaces entry; name the limit to replace"),
            Some(name) if Some(&*name.text) == own => {
                self.report.error(&name.at, "replaces names its own descriptor's limit");
            }
            Some(name) => return Some(name),
        }
        None
    }

    /// A number of requests beside it is taken elsewhere, so here it is only a warning.
    fn judge_beside_unlimited(&mut self) {
        if self.text("requests_per_unit").is_some() {
            let message = "does nothing, since the limit is unlimited: leave one of them out";
            self.report.warning(&self.map.at_of("requests_per_unit"), message);
        }
        for key in OF_LIMITED.iter().filter(|key| **key != "requests_per_unit") {
            if self.map.get(key).is_some_and(|field| !field.is_null()) {
                let message = format!("{key} given although unlimited: leave one of them out");
                self.report.error(&self.map.at_of(key), message);
            }
        }
    }

    fn rate(&mut self) -> Option<RequestRate> {
        let per = self.time();
        let requests = self.requests();
        let algorithm = match self.text("algorithm") {
            Some(text) => Some(self.parsed_word(&text)?),
            None => None,
        };
        self.refuse_what_is_to_come();
        let overrun = flag(self.map, "overrun", self.report);
        let count_denied = match self.text("count_denied") {
            Some(_) => flag(self.map, "count_denied", self.report),
            // A rule without an algorithm counts as Envoy's service does. One that is overrun owes instead.
            None => algorithm.is_none() && !overrun,
        };
        let burst = self.parsed("burst", parse_burst_of_requests);
        let soft = self.soft();
        let options = RateOptions { burst, count_denied, overrun, soft };
        let algorithm_or_window = algorithm.unwrap_or(Algorithm::FixedWindow);
        let rate = RequestRate::new(algorithm_or_window, requests?, per?, options);
        rate.map_err(|error| self.blame(error, algorithm)).ok()
    }

    fn parsed_word(&mut self, text: &LocatedText) -> Option<Algorithm> {
        parse_word(&text.text, &ALGORITHMS).map_err(|error| self.report.error(&text.at, error)).ok()
    }

    fn time(&mut self) -> Option<Nanos> {
        let (unit, per) = (self.text("unit"), self.text("per"));
        match (unit, per) {
            (Some(_), Some(per)) => {
                self.report.error(&per.at, "unit and per are both given: leave one of them out");
                None
            }
            (None, Some(per)) => {
                parse_time(&per.text).map_err(|error| self.report.error(&per.at, error)).ok()
            }
            (Some(unit), None) => match unit.text.parse::<TimeUnit>() {
                Ok(unit) => Some(unit.length()),
                Err(error) => {
                    self.report.error(&unit.at, format!("unit {} is {error}", quoted(&unit.text)));
                    None
                }
            },
            (None, None) => {
                let message = "no unit; add one, such as `unit: minute`, or a time, such as `per: 15m`";
                self.report.error(&self.map.at_of("unit"), message);
                None
            }
        }
    }

    /// None where it is not given, as in Envoy's service; that may not be meant.
    fn requests(&mut self) -> Option<u32> {
        let Some(text) = self.text("requests_per_unit") else {
            // One of a wrong shape has been reported.
            if self.map.get("requests_per_unit").is_none_or(|field| field.is_null()) {
                let message = "requests_per_unit is not given, so it is 0: all requests are denied";
                self.report.warning(self.map.at(), message);
            }
            return Some(0);
        };
        let digits = without_underscores(text.text.strip_prefix('+').unwrap_or(&text.text));
        let number = digits.parse::<u32>().ok().filter(|_| digits.bytes().all(|byte| byte.is_ascii_digit()));
        if number.is_none() {
            let message = format!("{} is not a whole number from 0 to {}", quoted(&text.text), u32::MAX);
            self.report.error(&text.at, message);
        }
        number
    }

    fn refuse_what_is_to_come(&mut self) {
        match self.text("on_limit") {
            Some(text) if matches!(text.text.as_str(), "delay" | "queue") => {
                let word = quoted(&text.text);
                self.report
                    .error(&text.at, format!("{word} is {NOT_SUPPORTED_YET}; write `on_limit: reject`"));
            }
            Some(text) => {
                if let Err(error) = parse_word(&text.text, &[("reject", ())]) {
                    self.report.error(&text.at, error);
                }
            }
            None => {}
        }
        if let Some(text) = self.text("queue_size") {
            self.report.error(&text.at, format!("`queue_size` is {NOT_SUPPORTED_YET}"));
        }
    }

    fn soft(&mut self) -> Option<SoftLimit> {
        let limit = self.parsed("soft_limit", parse_count);
        let lasts = self.parsed("soft_for", parse_time);
        let has = |key| self.map.get(key).is_some();
        if has("soft_limit") && !has("soft_for") {
            let message = "say for how long use may be above it, such as `soft_for: 30s`";
            self.report.error(&self.map.at_of("soft_limit"), message);
        }
        if has("soft_for") && !has("soft_limit") {
            self.report.error(&self.map.at_of("soft_for"), "is for a `soft_limit`, and there is none");
        }
        Some(SoftLimit { limit: limit?, lasts: lasts? })
    }

    fn blame(&mut self, error: RequestLimitError, algorithm: Option<Algorithm>) {
        let at = |key: &str| -> At { self.map.at_of(key) };
        match error {
            RequestLimitError::SoftNotLower { .. } => self.report.error(&at("soft_limit"), error),
            // No unit is such a time.
            RequestLimitError::Limit(LimitError::PeriodOutOfRange) => self.report.error(&at("per"), error),
            RequestLimitError::Limit(limit) => match blamed_option(&limit) {
                LimitOption::Burst if algorithm.is_none() => {
                    let message = "is for buckets; add `algorithm: token_bucket`, or leave it out";
                    self.report.error(&at("burst"), message);
                }
                option @ (LimitOption::Algorithm
                | LimitOption::Burst
                | LimitOption::CountDenied
                | LimitOption::OnLimit
                | LimitOption::Overrun) => self.report.error(&at(option.name()), error),
                // A rule on requests has no `refill`.
                LimitOption::Rate | LimitOption::Refill => {
                    self.report.error(&at("requests_per_unit"), error);
                }
            },
        }
    }
}

fn parse_burst_of_requests(text: &str) -> Result<std::num::NonZeroU64, LimitTextError> {
    let burst = parse_burst(text)?;
    match burst.unit {
        crate::policy::LimitUnit::Packets => Ok(burst.number),
        crate::policy::LimitUnit::Bytes => Err(LimitTextError::Size),
    }
}
