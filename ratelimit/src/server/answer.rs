//! A decision as headers: `X-RateLimit-*`, `Retry-After`, and the pair `RateLimit-Policy` and `RateLimit` of the IETF's
//! draft-ietf-httpapi-ratelimit-headers.

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use serde::Serialize;

use crate::{
    application::{Code, CurrentLimit, Response, Status},
    policy::application::AnswerHeaders,
};

const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const X_RETRY_AFTER: HeaderName = HeaderName::from_static("x-ratelimit-retry-after");
const SOFT: HeaderName = HeaderName::from_static("x-ratelimit-soft");
const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const STATE: HeaderName = HeaderName::from_static("ratelimit");

/// Not to be kept for later, since the next request may get another answer.
pub const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// Those of an answer that passes. Room for more would be twice as much.
const USUAL_HEADERS: usize = 6;

/// What a limit is called that a request brought along.
const OF_REQUEST: &str = "request";

/// What headers say of a limit.
#[derive(Clone, Copy, Debug)]
pub struct Figures<'a> {
    /// What it is called.
    pub name: &'a str,
    /// Its numbers.
    pub limit: CurrentLimit,
    /// Requests left.
    pub remaining: u64,
    /// Whether the request is denied.
    pub denied: bool,
    /// Whole seconds after which a denied request passes; `None` if no waiting helps.
    pub wait: Option<u64>,
    /// Whole seconds until the next request comes back.
    pub next: u64,
}

/// The headers of an answer that is about a request alone, as those of `/v1/check` are.
pub fn of_http(response: &Response, wanted: AnswerHeaders) -> HeaderMap {
    let mut headers = headers(response, wanted);
    headers.insert(header::CACHE_CONTROL, NO_STORE);
    headers
}

/// The headers of the answer that a request gets, besides its type: which of them is for `wanted` to say.
pub fn headers(response: &Response, wanted: AnswerHeaders) -> HeaderMap {
    let mut headers =
        of_limit(response.deciding().and_then(|status| figures(response, status)).as_ref(), wanted);
    if response.soft() {
        headers.insert(SOFT, HeaderValue::from_static("1"));
    }
    headers
}

fn figures<'r>(response: &Response, status: &'r Status) -> Option<Figures<'r>> {
    Some(Figures {
        name: name_of(status),
        limit: status.limit?,
        remaining: status.remaining,
        denied: !response.allowed(),
        wait: status.retry_after_seconds(),
        next: status.next_after_seconds(),
    })
}

/// The headers about a limit, if any applies. Of requests that pass, how long answers may be kept is for others to say.
pub fn of_limit(figures: Option<&Figures<'_>>, wanted: AnswerHeaders) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(USUAL_HEADERS);
    let Some(figures) = figures else { return headers };
    if figures.denied {
        headers.insert(header::CACHE_CONTROL, NO_STORE);
    }
    let wait = figures.wait.filter(|_| figures.denied);
    if wanted.x_ratelimit {
        headers.insert(LIMIT, number(figures.limit.capacity));
        headers.insert(REMAINING, number(figures.remaining));
        headers.extend(wait.map(|wait| (X_RETRY_AFTER, number(wait))));
    }
    if wanted.retry_after {
        headers.extend(wait.map(|wait| (header::RETRY_AFTER, number(wait))));
    }
    if wanted.ietf {
        ietf(&mut headers, figures);
    }
    headers
}

fn number(number: u64) -> HeaderValue {
    // Digits are all that it has.
    HeaderValue::from_str(itoa::Buffer::new().format(number)).unwrap_or(HeaderValue::from_static("0"))
}

fn ietf(headers: &mut HeaderMap, figures: &Figures<'_>) {
    let mut text = Text::quoted(figures.name);
    let name = text.0.len();
    let limit = figures.limit;
    text.add(b";q=", limit.capacity);
    text.add(b";w=", limit.window_seconds());
    text.insert(headers, POLICY);
    text.0.truncate(name);
    text.add(b";r=", figures.remaining);
    let until = if figures.denied { figures.wait } else { Some(figures.next) };
    if let Some(until) = until {
        text.add(b";t=", until);
    }
    text.insert(headers, STATE);
}

/// The largest integer that a structured field can have (RFC 9651, section 3.3.1).
const MOST: u64 = 999_999_999_999_999;

/// Bytes of a name that are shown: proxies refuse answers with long headers, and let requests pass then; and a body can be
/// about thousands of descriptors with one name.
const MOST_NAME: usize = 128;

/// A structured field. It is written without the formatter, since most of what an answer costs goes into such fields.
struct Text(Vec<u8>);

impl Text {
    /// A string of structured fields (RFC 9651, section 3.3.3), which has visible ASCII characters and spaces only; others
    /// are shown by their bytes, as in addresses of the web. Of a long name, the beginning.
    fn quoted(name: &str) -> Self {
        let name = beginning(name).as_bytes();
        let mut text = Vec::with_capacity(2 * MOST_NAME);
        text.push(b'"');
        if name.iter().all(is_plain) {
            text.extend_from_slice(name);
        } else {
            for byte in name {
                match byte {
                    b'"' | b'\\' => text.extend([b'\\', *byte]),
                    _ if is_plain(byte) => text.push(*byte),
                    _ => text.extend(format!("%{byte:02X}").into_bytes()),
                }
            }
        }
        text.push(b'"');
        Self(text)
    }

    fn add(&mut self, parameter: &[u8], number: u64) {
        self.0.extend_from_slice(parameter);
        self.0.extend_from_slice(itoa::Buffer::new().format(number.min(MOST)).as_bytes());
    }

    fn insert(&self, headers: &mut HeaderMap, name: HeaderName) {
        // Quoted names have nothing that a header can't have.
        if let Ok(value) = HeaderValue::from_bytes(&self.0) {
            headers.insert(name, value);
        }
    }
}

/// Whether a byte stands for itself in a string.
fn is_plain(byte: &u8) -> bool {
    matches!(byte, b' '..=b'~' if !matches!(byte, b'"' | b'\\'))
}

/// The name of the limit that a status is about, as far as it is shown.
pub fn name_of(status: &Status) -> &str {
    status.rule.as_ref().map_or(OF_REQUEST, |rule| beginning(rule.label()))
}

/// What is shown of a name.
pub fn beginning(name: &str) -> &str {
    &name[..name.floor_char_boundary(MOST_NAME)]
}

/// The names of the limits that a denied request is over.
pub fn violated(response: &Response) -> Vec<&str> {
    let is_over = |status: &&Status| status.code == Code::OverLimit;
    response.statuses.iter().filter(is_over).map(name_of).collect()
}

/// The type of problem details (RFC 9457).
pub const PROBLEM: HeaderValue = HeaderValue::from_static("application/problem+json");

/// The type of a denied request's problem.
const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";

/// The problem of a request that is over limits.
#[derive(Debug, Serialize)]
pub struct QuotaExceeded<'a, M> {
    #[serde(rename = "type")]
    kind: &'static str,
    title: &'static str,
    status: u16,
    #[serde(rename = "violated-policies")]
    violated: &'a [&'a str],
    /// What else there is to say.
    #[serde(flatten)]
    members: Option<M>,
}

impl<'a, M: Serialize> QuotaExceeded<'a, M> {
    /// Of the limits with these names.
    pub fn new(status: StatusCode, violated: &'a [&'a str], members: Option<M>) -> Self {
        Self { kind: QUOTA_EXCEEDED, title: "Quota exceeded", status: status.as_u16(), violated, members }
    }
}

/// What most answers are shorter than as text.
const USUAL_LENGTH: usize = 512;

/// As text. Nothing that answers are made of fails to be written.
pub fn json(value: &impl Serialize) -> Vec<u8> {
    let mut text = Vec::with_capacity(USUAL_LENGTH);
    serde_json::to_writer(&mut text, value).map_or_else(|_| Vec::new(), |()| text)
}
