//! For clients: a tower layer that sends a request again when the server's limit lets it, and no sooner.
//!
//! A request that is answered with 429, or with 503 and `Retry-After`, is sent again after the time that the server
//! names, and some more by chance, so that clients that were denied together do not come back together. Requests are
//! repeated only a few times, only if the method says that this does no harm, and not beyond a [`Deadline`].
//!
//! ```
//! use std::time::Duration;
//!
//! use ratelimit_limiter::retry::{RetryLayer, RetrySettings};
//! use tower_layer::Layer as _;
//!
//! # fn client() -> impl Clone {}
//! # async fn sleep(_: Duration) {}
//! // Whatever sleeps in the program's runtime, such as `tokio::time::sleep`.
//! let layer = RetryLayer::new(RetrySettings { attempts: 4, ..RetrySettings::default() }, sleep);
//! let client = layer.layer(client());
//! ```

mod wait;

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    task::{Context, Poll},
    time::{Duration, Instant, SystemTime},
};

use http::{Method, Request, Response, StatusCode, header::RETRY_AFTER};
use tower_layer::Layer;
use tower_service::Service;

use self::wait::Jitter;

/// How often and for how long it tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetrySettings {
    /// How often a request is sent at most, the first time included.
    pub attempts: u32,
    /// How long a request waits at most, over all its attempts; an answer that would take longer is passed on.
    pub longest_wait: Duration,
    /// The wait before the second attempt where the server names none; before each later one it is twice as long.
    pub first_wait: Duration,
    /// Whether requests are repeated whatever their method: only if the server forgets those that it denies.
    pub repeats_all: bool,
}

impl Default for RetrySettings {
    /// Three attempts in half a minute, of what can be repeated without harm.
    fn default() -> Self {
        Self {
            attempts: 3,
            longest_wait: Duration::from_secs(30),
            first_wait: Duration::from_millis(250),
            repeats_all: false,
        }
    }
}

/// Until when a request is of use, as one of its extensions: it does not wait beyond that.
///
/// ```
/// use std::time::{Duration, Instant};
///
/// use ratelimit_limiter::retry::Deadline;
///
/// # fn main() -> Result<(), http::Error> {
/// let deadline = Deadline(Instant::now() + Duration::from_secs(5));
/// let request = http::Request::get("http://192.0.2.1/reports").extension(deadline).body(())?;
/// # let _ = request;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline(pub Instant);

/// Makes a client repeat what it may.
#[derive(Clone, Debug)]
pub struct RetryLayer<F> {
    settings: RetrySettings,
    sleep: F,
}

impl<F> RetryLayer<F> {
    /// With a function that sleeps.
    #[must_use]
    pub const fn new(settings: RetrySettings, sleep: F) -> Self {
        Self { settings, sleep }
    }
}

impl<S, F: Clone> Layer<S> for RetryLayer<F> {
    type Service = Retry<S, F>;

    fn layer(&self, client: S) -> Retry<S, F> {
        Retry { client, settings: self.settings, sleep: self.sleep.clone() }
    }
}

/// A client that repeats what it may: made by [`RetryLayer`].
#[derive(Clone, Debug)]
pub struct Retry<S, F> {
    client: S,
    settings: RetrySettings,
    sleep: F,
}

type Answer<T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send>>;

impl<S, F, Sleep, B, R> Service<Request<B>> for Retry<S, F>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    F: Fn(Duration) -> Sleep + Clone + Send + 'static,
    Sleep: Future<Output = ()> + Send + 'static,
    B: Clone + Send + 'static,
    R: Send + 'static,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = Answer<Response<R>, S::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.client.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // What is ready is this one, not its copy.
        let client = self.client.clone();
        let client = std::mem::replace(&mut self.client, client);
        let (settings, sleep) = (self.settings, self.sleep.clone());
        Box::pin(send(client, settings, sleep, request))
    }
}

/// Sends a request until it is not denied, or may not be repeated.
async fn send<S, F, Sleep, B, R>(
    mut client: S,
    settings: RetrySettings,
    sleep: F,
    request: Request<B>,
) -> Result<Response<R>, S::Error>
where
    S: Service<Request<B>, Response = Response<R>>,
    F: Fn(Duration) -> Sleep,
    Sleep: Future<Output = ()>,
    B: Clone,
{
    let deadline = request.extensions().get::<Deadline>().copied();
    let most = if settings.repeats_all || is_repeatable(request.method()) { settings.attempts } else { 1 };
    let (mut waited, mut jitter) = (Duration::ZERO, Jitter::new());
    for attempt in 1..most {
        let response = client.call(request.clone()).await?;
        let Some(named) = named_wait(&response) else { return Ok(response) };
        let wait = match named {
            Some(named) => jitter.beyond(named),
            None => jitter.within(settings.first_wait.saturating_mul(2_u32.saturating_pow(attempt - 1))),
        };
        waited = waited.saturating_add(wait);
        let is_too_late = deadline
            .is_some_and(|Deadline(end)| Instant::now().checked_add(wait).is_none_or(|then| then >= end));
        if waited > settings.longest_wait || is_too_late {
            return Ok(response);
        }
        drop(response);
        sleep(wait).await;
        poll_fn(|context| client.poll_ready(context)).await?;
    }
    client.call(request).await
}

/// Methods that may be repeated without harm (RFC 9110, section 9.2.2).
fn is_repeatable(method: &Method) -> bool {
    method.is_idempotent()
}

/// `None` if the request was not denied; else the time that the server names, if it names one.
fn named_wait<R>(response: &Response<R>) -> Option<Option<Duration>> {
    let named = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    let named = named.and_then(|text| wait::parse(text, SystemTime::now()));
    match response.status() {
        StatusCode::TOO_MANY_REQUESTS => Some(named),
        StatusCode::SERVICE_UNAVAILABLE => named.map(Some),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
