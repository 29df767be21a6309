//! Limits inside a program: a tower layer for axum, tonic and whatever else takes HTTP requests as a service.
//!
//! It decides in the program's own memory, by a [`Limiter`] and a key that is made of each request, or by a [`Service`]
//! with rules by domain and descriptors. A denied request never reaches the service inside; it gets 429, over gRPC
//! RESOURCE_EXHAUSTED, and all answers get the headers that the daemon's have. The 429 comes with problem details.
//! Bodies of axum and tonic, `Full<Bytes>` and `String` are made of them as they are; for others, or for another text,
//! see [`RateLimitLayer::denied_body`].
//!
//! ```
//! use std::num::NonZeroU64;
//!
//! use axum::{Router, body::Body, http::Request, routing::get};
//! use ratelimit_limiter::{Algorithm, Limiter, LimitSpec, Nanos, Rate, Rule, tower::RateLimitLayer};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! const TEN: NonZeroU64 = NonZeroU64::new(10).unwrap();
//! let ten_an_hour = Rate { amount: TEN, per: Nanos::from_secs(3_600) };
//! let limit = LimitSpec::new(Algorithm::FixedWindow, ten_an_hour);
//! let limiter = Limiter::builder().rule(Rule::new("per-user", limit)).build()?;
//!
//! let by_user = |request: &Request<Body>| request.headers().get("x-user").cloned();
//! let app: Router = Router::new()
//!     .route("/", get(|| async { "hello" }))
//!     .layer(RateLimitLayer::by_key(limiter, by_user));
//! # Ok(())
//! # }
//! ```

mod client_address;
mod denied;
mod judge;

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use http::{HeaderMap, Request, Response};
use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service as TowerService;

pub use self::{
    client_address::ClientAddress,
    denied::{DeniedBody, NoBody, ProblemDetails, TextBody},
    judge::{ByDescriptors, ByKey, Judge, Judging, KeyExtractor, OnRequestError, Verdict},
};
use crate::{AnswerHeaders, application::Service, clock::Clock, limiter::Limiter, store::Store};

/// Limits the requests to the services that it wraps, all of them together.
#[derive(Debug)]
pub struct RateLimitLayer<J, D = ProblemDetails> {
    judge: Arc<J>,
    headers: AnswerHeaders,
    denied_body: D,
}

impl<F, C: Clock, S: Store> RateLimitLayer<ByKey<F, C, S>> {
    /// By the rules of a limiter and the key of each request, such as a user, or a [`ClientAddress`]. What has no key
    /// is not limited.
    #[must_use]
    pub fn by_key(limiter: Limiter<C, S>, key: F) -> Self {
        Self::new(ByKey { limiter, key })
    }
}

impl<F> RateLimitLayer<ByDescriptors<F>> {
    /// By the rules of a service, which is asked what `describe` makes of each request. What it makes nothing of is not
    /// limited; what the service can't make sense of is denied, unless [`ByDescriptors::on_request_error`] says
    /// otherwise.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// use ratelimit_limiter::{
    ///     application::{Descriptor, Request, Service},
    ///     tower::RateLimitLayer,
    /// };
    /// # fn layer(service: Arc<Service>) {
    ///
    /// let layer = RateLimitLayer::by_descriptors(service, |request: &http::Request<String>| {
    ///     let descriptors = vec![Descriptor::of([("path", request.uri().path())])];
    ///     Some(Request { domain: "web".to_owned(), descriptors, hits_addend: 1 })
    /// });
    /// # let _ = layer;
    /// # }
    /// ```
    #[must_use]
    pub fn by_descriptors(service: Arc<Service>, describe: F) -> Self {
        Self::new(ByDescriptors::new(service, describe))
    }
}

impl<J> RateLimitLayer<J> {
    /// By a [`Judge`] of your own, for instance one that knows what requests cost:
    ///
    /// ```
    /// use http::{HeaderMap, Method, Request};
    /// use ratelimit_limiter::{AnswerHeaders, Limiter, tower::{Judge, RateLimitLayer, Verdict}};
    ///
    /// struct ByMethod(Limiter);
    ///
    /// impl<B> Judge<B> for ByMethod {
    ///     fn judge(&self, request: &Request<B>, _: AnswerHeaders) -> Verdict {
    ///         let cost = if request.method() == Method::GET { 1 } else { 10 };
    ///         if self.0.check(request.uri().path(), cost).allowed() {
    ///             Verdict::Allowed(HeaderMap::new())
    ///         } else {
    ///             Verdict::Denied { headers: HeaderMap::new(), violated: vec!["by-method".to_owned()] }
    ///         }
    ///     }
    /// }
    /// # fn layer(limiter: Limiter) {
    ///
    /// let layer = RateLimitLayer::new(ByMethod(limiter));
    /// # let _ = layer;
    /// # }
    /// ```
    #[must_use]
    pub fn new(judge: J) -> Self {
        Self { judge: Arc::new(judge), headers: AnswerHeaders::default(), denied_body: ProblemDetails }
    }
}

impl<J, D> RateLimitLayer<J, D> {
    /// With other headers than all.
    ///
    /// ```
    /// use ratelimit_limiter::AnswerHeaders;
    /// # use ratelimit_limiter::{Limiter, tower::RateLimitLayer};
    /// # fn layer(limiter: Limiter) {
    /// # let layer = RateLimitLayer::by_key(limiter, |_: &http::Request<String>| Some(1));
    ///
    /// let layer = layer.headers(AnswerHeaders { x_ratelimit: false, ..AnswerHeaders::default() });
    /// # let _ = layer;
    /// # }
    /// ```
    #[must_use]
    pub const fn headers(mut self, headers: AnswerHeaders) -> Self {
        self.headers = headers;
        self
    }

    /// With other bodies of answers to denied requests: a function that makes one of the problem details' text, or
    /// [`NoBody`]. Over gRPC there is none.
    ///
    /// ```
    /// use http_body_util::{BodyExt as _, Full, combinators::BoxBody};
    /// use bytes::Bytes;
    /// # use ratelimit_limiter::{Limiter, tower::RateLimitLayer};
    /// # fn layer(limiter: Limiter) {
    /// # let layer = RateLimitLayer::by_key(limiter, |_: &http::Request<String>| Some(1));
    ///
    /// let layer = layer.denied_body(|problem: String| BoxBody::new(Full::<Bytes>::from(problem)));
    /// # }
    /// ```
    #[must_use]
    pub fn denied_body<E>(self, denied_body: E) -> RateLimitLayer<J, E> {
        RateLimitLayer { judge: self.judge, headers: self.headers, denied_body }
    }
}

impl<J, D: Clone> Clone for RateLimitLayer<J, D> {
    fn clone(&self) -> Self {
        Self { judge: Arc::clone(&self.judge), headers: self.headers, denied_body: self.denied_body.clone() }
    }
}

impl<I, J, D: Clone> Layer<I> for RateLimitLayer<J, D> {
    type Service = RateLimit<I, J, D>;

    fn layer(&self, inner: I) -> Self::Service {
        RateLimit { inner, layer: self.clone() }
    }
}

/// A service whose requests are limited.
#[derive(Debug)]
pub struct RateLimit<I, J, D = ProblemDetails> {
    inner: I,
    layer: RateLimitLayer<J, D>,
}

impl<I: Clone, J, D: Clone> Clone for RateLimit<I, J, D> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), layer: self.layer.clone() }
    }
}

impl<I, J, D, B, R> TowerService<Request<B>> for RateLimit<I, J, D>
where
    I: TowerService<Request<B>, Response = Response<R>> + Clone,
    J: Judge<B>,
    D: DeniedBody<R> + Clone,
    R: Default,
{
    type Response = Response<R>;
    type Error = I::Error;
    type Future = Answering<I, B, R, D>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        match self.layer.judge.begin(&request, self.layer.headers) {
            Judging::Now(verdict) => {
                let from = go_on(&mut self.inner, request, verdict, &self.layer.denied_body);
                Answering { from }
            }
            Judging::Later(verdict) => {
                // The one that is ready goes with the request, and a copy stays.
                let copy = self.inner.clone();
                let inner = std::mem::replace(&mut self.inner, copy);
                let denied_body = self.layer.denied_body.clone();
                let waiting = Some(Waiting { verdict, request, inner, denied_body });
                Answering { from: From::Store { waiting } }
            }
        }
    }
}

/// What a verdict makes of a request.
fn go_on<I, B, R, D>(
    inner: &mut I,
    request: Request<B>,
    verdict: Verdict,
    denied_body: &D,
) -> From<I, B, R, D>
where
    I: TowerService<Request<B>, Response = Response<R>>,
    D: DeniedBody<R>,
    R: Default,
{
    let headers = match verdict {
        Verdict::Unlimited => None,
        Verdict::Allowed(headers) => Some(headers),
        Verdict::Denied { headers, violated } => {
            let response = Some(denied::answer(request.headers(), headers, &violated, denied_body));
            return From::Layer { response };
        }
    };
    From::Inside { answering: inner.call(request), headers }
}

pin_project! {
    /// An answer to come.
    pub struct Answering<I, B, R, D>
    where
        I: TowerService<Request<B>>,
    {
        #[pin]
        from: From<I, B, R, D>,
    }
}

pin_project! {
    #[project = Projected]
    enum From<I, B, R, D>
    where
        I: TowerService<Request<B>>,
    {
        // The service inside; these headers come on top.
        Inside { #[pin] answering: I::Future, headers: Option<HeaderMap> },
        // The layer; it is taken once.
        Layer { response: Option<Response<R>> },
        // A store is asked first; it is taken once.
        Store { waiting: Option<Waiting<I, B, D>> },
    }
}

/// A request whose verdict is to come.
struct Waiting<I, B, D> {
    verdict: Pin<Box<dyn Future<Output = Verdict> + Send>>,
    request: Request<B>,
    inner: I,
    denied_body: D,
}

impl<I, B, R, D> fmt::Debug for Answering<I, B, R, D>
where
    I: TowerService<Request<B>>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answering").finish_non_exhaustive()
    }
}

impl<I, B, R, D> Future for Answering<I, B, R, D>
where
    I: TowerService<Request<B>, Response = Response<R>>,
    D: DeniedBody<R>,
    R: Default,
{
    type Output = Result<Response<R>, I::Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let next = match self.as_mut().project().from.project() {
                Projected::Inside { answering, headers } => {
                    let mut response = ready!(answering.poll(context))?;
                    if let Some(headers) = headers.take() {
                        add(response.headers_mut(), headers);
                    }
                    return Poll::Ready(Ok(response));
                }
                Projected::Layer { response } => {
                    return response.take().map_or(Poll::Pending, |response| Poll::Ready(Ok(response)));
                }
                Projected::Store { waiting } => {
                    let Some(asking) = waiting.as_mut() else { return Poll::Pending };
                    let verdict = ready!(asking.verdict.as_mut().poll(context));
                    let Some(Waiting { request, mut inner, denied_body, .. }) = waiting.take() else {
                        return Poll::Pending;
                    };
                    go_on(&mut inner, request, verdict, &denied_body)
                }
            };
            self.as_mut().project().from.set(next);
        }
    }
}

/// What the service inside says itself stays, such as how long its answer may be kept.
fn add(to: &mut HeaderMap, headers: HeaderMap) {
    for (name, value) in headers {
        if let Some(name) = name {
            to.entry(name).or_insert(value);
        }
    }
}
