//! What headers say of a limit: `X-RateLimit-Limit`, and the pair `RateLimit-Policy` and `RateLimit` of the IETF's
//! draft-ietf-httpapi-ratelimit-headers. What is the same for all requests is written once.

use http::HeaderValue;
use smallvec::SmallVec;

use crate::{
    application::CurrentLimit,
    text::{MOST_NAME, beginning},
};

/// The largest integer that a structured field can have (RFC 9651, section 3.3.1).
const MOST: u64 = 999_999_999_999_999;

/// Values of headers about a limit.
#[derive(Clone, Debug, PartialEq)]
pub struct LimitHeaders {
    limit: HeaderValue,
    policy: HeaderValue,
    /// As a string of structured fields.
    name: Box<[u8]>,
}

impl LimitHeaders {
    /// Those about a limit with this name.
    pub fn new(name: &str, limit: CurrentLimit) -> Self {
        let mut policy = Text::quoted(name);
        let name = policy.0.as_slice().into();
        policy.add(b";q=", limit.capacity);
        policy.add(b";w=", limit.window_seconds());
        Self { limit: number(limit.capacity), policy: policy.value(), name }
    }

    /// The most at once.
    pub fn limit(&self) -> HeaderValue {
        self.limit.clone()
    }

    /// `RateLimit-Policy`.
    pub fn policy(&self) -> HeaderValue {
        self.policy.clone()
    }

    /// `RateLimit`: what is left, and for how many seconds that is so.
    pub fn state(&self, remaining: u64, until: Option<u64>) -> HeaderValue {
        let mut state = Text(SmallVec::from_slice(&self.name));
        state.add(b";r=", remaining);
        if let Some(until) = until {
            state.add(b";t=", until);
        }
        state.value()
    }
}

/// A number as a value.
pub fn number(number: u64) -> HeaderValue {
    // Digits are all that it has.
    HeaderValue::from_str(itoa::Buffer::new().format(number)).unwrap_or(HeaderValue::from_static("0"))
}

/// A structured field. It is written without the formatter, since most of what an answer costs goes into such fields.
struct Text(SmallVec<[u8; MOST_NAME]>);

impl Text {
    /// A string of structured fields (RFC 9651, section 3.3.3), which has visible ASCII characters and spaces only;
    /// others are shown by their bytes, as in addresses of the web. A long name is cut.
    fn quoted(name: &str) -> Self {
        let mut text = Self(SmallVec::new());
        text.0.push(b'"');
        for byte in beginning(name).bytes() {
            match byte {
                b'"' | b'\\' => text.0.extend([b'\\', byte]),
                b' '..=b'~' => text.0.push(byte),
                _ => text.0.extend(format!("%{byte:02X}").into_bytes()),
            }
        }
        text.0.push(b'"');
        text
    }

    fn add(&mut self, parameter: &[u8], number: u64) {
        self.0.extend_from_slice(parameter);
        self.0.extend_from_slice(itoa::Buffer::new().format(number.min(MOST)).as_bytes());
    }

    fn value(&self) -> HeaderValue {
        // Quoted names have nothing that a header can't have.
        HeaderValue::from_bytes(&self.0).unwrap_or(HeaderValue::from_static("\"\""))
    }
}
