//! A decision as headers: `X-RateLimit-*`, `Retry-After`, and those of the IETF's draft.

use std::borrow::Cow;

use http::{HeaderMap, HeaderName, HeaderValue, header};

use super::limit_headers::{LimitHeaders, number};
use crate::{
    AnswerHeaders,
    application::{Code, CurrentLimit, Response, Status},
    text::beginning,
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
pub const USUAL_HEADERS: usize = 6;

/// What a limit is called that a request brought along.
const OF_REQUEST: &str = "request";

/// What headers say of a decision.
#[derive(Clone, Debug)]
pub struct Figures<'a> {
    /// What is known of the limit beforehand.
    pub of_limit: Cow<'a, LimitHeaders>,
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
    let mut headers = HeaderMap::with_capacity(USUAL_HEADERS);
    tell(response, wanted, |name, value| drop(headers.insert(name, value)));
    headers
}

/// Says each of these headers, for whoever has an answer to add them to.
pub fn tell(response: &Response, wanted: AnswerHeaders, mut say: impl FnMut(HeaderName, HeaderValue)) {
    if let Some(figures) = response.deciding().and_then(|status| figures(response, status)) {
        tell_limit(&figures, wanted, &mut say);
    }
    if response.soft() {
        say(SOFT, HeaderValue::from_static("1"));
    }
}

fn figures<'r>(response: &Response, status: &'r Status) -> Option<Figures<'r>> {
    let limit = status.limit?;
    Some(Figures {
        of_limit: limit_headers(status, limit),
        remaining: status.remaining,
        denied: !response.allowed(),
        wait: status.retry_after_seconds(),
        next: status.next_after_seconds(),
    })
}

/// What is the same in all answers about a rule's limit is written once for each generation of rules.
fn limit_headers(status: &Status, limit: CurrentLimit) -> Cow<'_, LimitHeaders> {
    let Some(rule) = &status.rule else { return Cow::Owned(LimitHeaders::new(OF_REQUEST, limit)) };
    let new = || LimitHeaders::new(rule.label(), limit);
    rule.cached.get_or_init(new).map_or_else(|| Cow::Owned(new()), Cow::Borrowed)
}

/// The headers about a limit, if any applies. If the request passes, how long its answer may be kept is for others to
/// say.
pub fn of_limit(figures: Option<&Figures<'_>>, wanted: AnswerHeaders) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(USUAL_HEADERS);
    if let Some(figures) = figures {
        tell_limit(figures, wanted, &mut |name, value| drop(headers.insert(name, value)));
    }
    headers
}

fn tell_limit(figures: &Figures<'_>, wanted: AnswerHeaders, say: &mut impl FnMut(HeaderName, HeaderValue)) {
    if figures.denied {
        say(header::CACHE_CONTROL, NO_STORE);
    }
    let wait = figures.wait.filter(|_| figures.denied).map(number);
    if wanted.x_ratelimit {
        say(LIMIT, figures.of_limit.limit());
        say(REMAINING, number(figures.remaining));
        if let Some(wait) = wait.clone() {
            say(X_RETRY_AFTER, wait);
        }
    }
    if let Some(wait) = wait.filter(|_| wanted.retry_after) {
        say(header::RETRY_AFTER, wait);
    }
    if wanted.ietf {
        let until = if figures.denied { figures.wait } else { Some(figures.next) };
        say(POLICY, figures.of_limit.policy());
        say(STATE, figures.of_limit.state(figures.remaining, until));
    }
}

/// The name of the limit that a status is about, as far as it is shown.
pub fn name_of(status: &Status) -> &str {
    status.rule.as_ref().map_or(OF_REQUEST, |rule| beginning(rule.label()))
}

/// The names of the limits that a denied request is over.
pub fn violated(response: &Response) -> Vec<&str> {
    let is_over = |status: &&Status| status.code == Code::OverLimit;
    response.statuses.iter().filter(is_over).map(name_of).collect()
}
