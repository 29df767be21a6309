//! From Envoy's messages to what the service is asked, and back.

use std::collections::BTreeMap;

use prost_types::{Duration, ListValue, Struct, Value, value::Kind};

use super::{
    proto::envoy::{
        config::core::v3::HeaderValue,
        service::ratelimit::v3::{
            RateLimitResponse,
            rate_limit_response::{self as proto, DescriptorStatus, RateLimit, rate_limit::Unit},
        },
        r#type::v3::RateLimitUnit,
    },
    proto::wire::envoy::{
        extensions::common::ratelimit::v3::{
            RateLimitDescriptor,
            rate_limit_descriptor::{Entry, RateLimitOverride},
        },
        service::ratelimit::v3::RateLimitRequest,
    },
};
use crate::{
    answers,
    application::{Code, CurrentLimit, Descriptor, LimitOverride, Request, Response, Status},
    policy::application::{AnswerHeaders, TimeUnit},
    text::beginning,
};

/// Bytes that are shown of an entry. It counts as a whole.
const MOST_SHOWN: usize = 1 << 10;

/// What is asked. Bytes that are no text count, as U+FFFD: otherwise one of them would take a request out of its
/// limits.
///
/// # Errors
/// What the service knows nothing of.
pub fn request(request: RateLimitRequest) -> Result<Request, &'static str> {
    let descriptors = request.descriptors.into_iter().map(descriptor).collect::<Result<_, _>>()?;
    Ok(Request { domain: to_text(request.domain), descriptors, hits_addend: request.hits_addend })
}

fn to_text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

fn descriptor(descriptor: RateLimitDescriptor) -> Result<Descriptor, &'static str> {
    let entry = |Entry { key, value }| (to_text(key), to_text(value));
    Ok(Descriptor {
        entries: descriptor.entries.into_iter().map(entry).collect(),
        limit: descriptor.limit.as_ref().map(limit).transpose()?,
        hits_addend: descriptor.hits_addend,
        is_negative_hits: descriptor.is_negative_hits,
    })
}

fn limit(limit: &RateLimitOverride) -> Result<LimitOverride, &'static str> {
    if limit.unit_multiplier.is_some_and(|multiplier| multiplier > 1) {
        return Err("a limit of several units at once (unit_multiplier) is not supported");
    }
    let unit = match limit.unit() {
        RateLimitUnit::Unknown => None,
        RateLimitUnit::Second => Some(TimeUnit::Second),
        RateLimitUnit::Minute => Some(TimeUnit::Minute),
        RateLimitUnit::Hour => Some(TimeUnit::Hour),
        RateLimitUnit::Day => Some(TimeUnit::Day),
        RateLimitUnit::Week => Some(TimeUnit::Week),
        RateLimitUnit::Month => Some(TimeUnit::Month),
        RateLimitUnit::Year => Some(TimeUnit::Year),
    };
    Ok(LimitOverride { requests_per_unit: limit.requests_per_unit, unit })
}

/// What is answered.
pub fn response(request: &Request, response: &Response, wanted: AnswerHeaders) -> RateLimitResponse {
    RateLimitResponse {
        overall_code: code(response.code).into(),
        statuses: response.statuses.iter().map(status).collect(),
        response_headers_to_add: if wanted.grpc { headers(response, wanted) } else { Vec::new() },
        dynamic_metadata: metadata(request, response),
        ..RateLimitResponse::default()
    }
}

const fn code(code: Code) -> proto::Code {
    match code {
        Code::Ok => proto::Code::Ok,
        Code::OverLimit => proto::Code::OverLimit,
    }
}

fn status(status: &Status) -> DescriptorStatus {
    DescriptorStatus {
        code: code(status.code).into(),
        current_limit: status.limit.map(|limit| current_limit(status, limit)),
        limit_remaining: saturated(status.remaining),
        duration_until_reset: status
            .duration_until_reset()
            .map(|seconds| Duration { seconds: i64::try_from(seconds).unwrap_or(i64::MAX), nanos: 0 }),
        quota: None,
    }
}

fn current_limit(status: &Status, limit: CurrentLimit) -> RateLimit {
    let unit = match limit.unit {
        None => Unit::Unknown,
        Some(TimeUnit::Second) => Unit::Second,
        Some(TimeUnit::Minute) => Unit::Minute,
        Some(TimeUnit::Hour) => Unit::Hour,
        Some(TimeUnit::Day) => Unit::Day,
        Some(TimeUnit::Week) => Unit::Week,
        Some(TimeUnit::Month) => Unit::Month,
        Some(TimeUnit::Year) => Unit::Year,
    };
    let name = status.rule.as_ref().and_then(|rule| rule.name.as_deref()).unwrap_or_default();
    RateLimit {
        name: beginning(name).to_owned(),
        requests_per_unit: saturated(limit.requests_per_unit),
        unit: unit.into(),
    }
}

fn saturated(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// The headers that HTTP answers have, for those who ask over gRPC.
fn headers(response: &Response, wanted: AnswerHeaders) -> Vec<HeaderValue> {
    let header = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
        // They are all text.
        let value = value.to_str().unwrap_or_default().to_owned();
        HeaderValue { key: name.as_str().to_owned(), value, raw_value: Vec::new() }
    };
    answers::headers(response, wanted).iter().map(header).collect()
}

/// For Envoy's later filters, if a rule has something for them, or the request passes only for a time.
fn metadata(request: &Request, response: &Response) -> Option<Struct> {
    let of_rule = |status: &Status| status.rule.as_ref().and_then(|rule| rule.metadata.clone());
    let passes = |status: &&Status| status.code == Code::Ok;
    let of_rule = response.statuses.iter().filter(passes).find_map(of_rule);
    if of_rule.is_none() && !response.soft() {
        return None;
    }
    let mut fields = BTreeMap::from([
        ("domain".to_owned(), text(request.domain.clone())),
        ("descriptors".to_owned(), list(request.descriptors.iter().map(entries))),
    ]);
    fields.extend(of_rule.map(|metadata| ("metadata".to_owned(), value(metadata))));
    fields.extend(response.soft().then(|| ("soft".to_owned(), kind(Kind::BoolValue(true)))));
    Some(Struct { fields })
}

fn entries(descriptor: &Descriptor) -> Value {
    let shown = |(key, value): &(String, String)| {
        let (key, value) = (start(key), start(value));
        text(start(&format!("{key}={value}")).to_owned())
    };
    let entries = list(descriptor.entries.iter().map(shown));
    kind(Kind::StructValue(Struct { fields: BTreeMap::from([("entries".to_owned(), entries)]) }))
}

fn start(text: &str) -> &str {
    &text[..text.floor_char_boundary(MOST_SHOWN)]
}

fn value(json: serde_json::Value) -> Value {
    match json {
        serde_json::Value::Null => kind(Kind::NullValue(0)),
        serde_json::Value::Bool(is) => kind(Kind::BoolValue(is)),
        serde_json::Value::Number(number) => kind(Kind::NumberValue(number.as_f64().unwrap_or_default())),
        serde_json::Value::String(string) => text(string),
        serde_json::Value::Array(values) => list(values.into_iter().map(value)),
        serde_json::Value::Object(fields) => {
            let fields = fields.into_iter().map(|(key, field)| (key, value(field))).collect();
            kind(Kind::StructValue(Struct { fields }))
        }
    }
}

fn list(values: impl Iterator<Item = Value>) -> Value {
    kind(Kind::ListValue(ListValue { values: values.collect() }))
}

fn text(text: String) -> Value {
    kind(Kind::StringValue(text))
}

const fn kind(kind: Kind) -> Value {
    Value { kind: Some(kind) }
}
