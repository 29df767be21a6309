//! Who decides for the layer.

use std::{borrow::Cow, fmt, hash::Hash, pin::Pin, sync::Arc};

use http::{HeaderMap, Request};

use crate::{
    AnswerHeaders,
    answers::{self, Figures, LimitHeaders},
    application::{self, CurrentLimit, RequestError, Service},
    clock::Clock,
    limiter::{Decision, Limiter, Nanos, Rule},
    store::Store,
};

/// What is to become of a request.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// No limit applies.
    Unlimited,
    /// It goes on, and its answer gets these headers.
    Allowed(HeaderMap),
    /// It does not.
    Denied {
        /// The headers of its answer.
        headers: HeaderMap,
        /// The names of the limits that it is over.
        violated: Vec<String>,
    },
}

/// A verdict, or one to come.
pub enum Judging {
    /// It is there: whoever decides in memory does so at once.
    Now(Verdict),
    /// A store is asked.
    Later(Pin<Box<dyn Future<Output = Verdict> + Send>>),
}

impl fmt::Debug for Judging {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Now(verdict) => f.debug_tuple("Now").field(verdict).finish(),
            Self::Later(_) => f.debug_tuple("Later").finish_non_exhaustive(),
        }
    }
}

/// Decides about requests with bodies of type `B`.
pub trait Judge<B> {
    /// Decides about one, and charges it. With a store that several processes share it blocks the thread.
    fn judge(&self, request: &Request<B>, headers: AnswerHeaders) -> Verdict;

    /// The same, without blocking: what the layer asks.
    fn begin(&self, request: &Request<B>, headers: AnswerHeaders) -> Judging {
        Judging::Now(self.judge(request, headers))
    }
}

/// Makes keys of requests; any function or closure from a request to an optional key does.
pub trait KeyExtractor<B> {
    /// What has a bucket.
    type Key: Hash;

    /// The key of a request; `None` if it is not to be limited.
    fn key(&self, request: &Request<B>) -> Option<Self::Key>;
}

impl<F, B, K> KeyExtractor<B> for F
where
    F: Fn(&Request<B>) -> Option<K>,
    K: Hash,
{
    type Key = K;

    fn key(&self, request: &Request<B>) -> Option<K> {
        self(request)
    }
}

/// A limiter with keys of requests.
#[derive(Debug)]
pub struct ByKey<F, C, S> {
    pub(super) limiter: Limiter<C, S>,
    pub(super) key: F,
}

impl<F, C, S, B> Judge<B> for ByKey<F, C, S>
where
    F: KeyExtractor<B>,
    C: Clock,
    S: Store,
{
    fn judge(&self, request: &Request<B>, headers: AnswerHeaders) -> Verdict {
        let Some(key) = self.key.key(request) else { return Verdict::Unlimited };
        let decision = self.limiter.check(&key, 1);
        let violated = decision.rule().map(Rule::name);
        verdict(
            decision.allowed(),
            answers::of_limit(figures(&decision).as_ref(), headers),
            violated.as_slice(),
        )
    }
}

fn figures<'d>(decision: &Decision<'d>) -> Option<Figures<'d>> {
    let rule = decision.rule()?;
    let rate = rule.spec().rate;
    let seconds = |time: Nanos| time.0.div_ceil(Nanos::SECOND.0);
    let limit = CurrentLimit {
        requests_per_unit: rate.amount.get(),
        unit: None,
        per: rate.per,
        capacity: decision.limit(),
    };
    Some(Figures {
        of_limit: Cow::Owned(LimitHeaders::new(rule.name(), limit)),
        remaining: decision.remaining(),
        denied: !decision.allowed(),
        wait: decision.retry_after().map(|wait| seconds(wait).max(1)),
        next: seconds(decision.next_after()),
    })
}

/// Rules by domain and descriptors.
#[derive(Debug)]
pub struct ByDescriptors<F> {
    service: Arc<Service>,
    describe: F,
    on_request_error: OnRequestError,
}

/// What becomes of a request that the service is asked about in a way that makes no sense, as without a domain. No
/// client can bring that about by a value: the function that describes requests is to be mended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnRequestError {
    /// It is denied.
    #[default]
    Deny,
    /// It goes on.
    Allow,
}

impl<F> ByDescriptors<F> {
    /// Asks a service what `describe` makes of each request. What it makes nothing of is not limited.
    #[must_use]
    pub const fn new(service: Arc<Service>, describe: F) -> Self {
        Self { service, describe, on_request_error: OnRequestError::Deny }
    }

    /// With something else for questions that make no sense than to deny the request.
    #[must_use]
    pub const fn on_request_error(mut self, answer: OnRequestError) -> Self {
        self.on_request_error = answer;
        self
    }
}

impl<F, B> Judge<B> for ByDescriptors<F>
where
    F: Fn(&Request<B>) -> Option<application::Request>,
{
    fn judge(&self, request: &Request<B>, headers: AnswerHeaders) -> Verdict {
        let Some(question) = (self.describe)(request) else { return Verdict::Unlimited };
        of_response(&self.service.decide(&question), headers, self.on_request_error)
    }

    fn begin(&self, request: &Request<B>, headers: AnswerHeaders) -> Judging {
        if !self.service.is_shared() {
            return Judging::Now(self.judge(request, headers));
        }
        let Some(question) = (self.describe)(request) else { return Judging::Now(Verdict::Unlimited) };
        let (service, on_request_error) = (Arc::clone(&self.service), self.on_request_error);
        Judging::Later(Box::pin(async move {
            of_response(&service.decide_async(&question).await, headers, on_request_error)
        }))
    }
}

fn of_response(
    response: &Result<application::Response, RequestError>,
    headers: AnswerHeaders,
    on_request_error: OnRequestError,
) -> Verdict {
    match response {
        Ok(response) => {
            let violated = answers::violated(response);
            verdict(response.allowed(), answers::headers(response, headers), &violated)
        }
        Err(_) if on_request_error == OnRequestError::Allow => Verdict::Unlimited,
        Err(_) => Verdict::Denied { headers: HeaderMap::new(), violated: Vec::new() },
    }
}

fn verdict(allowed: bool, headers: HeaderMap, violated: &[&str]) -> Verdict {
    if allowed {
        return Verdict::Allowed(headers);
    }
    Verdict::Denied { headers, violated: violated.iter().map(|name| (*name).to_owned()).collect() }
}
