//! The time that a client gives its request in `grpc-timeout`, and the answer when the request's time is over.

use std::time::Duration;

use axum::response::{IntoResponse as _, Response};
use http::{HeaderMap, StatusCode};

use super::{handler::Protocol, web::Problem};

/// The answer when a request's time is over.
pub fn exceeded(protocol: Protocol) -> Response {
    match protocol {
        Protocol::Grpc => tonic::Status::deadline_exceeded("the request's deadline is over").into_http(),
        Protocol::Http => {
            Problem::new(StatusCode::REQUEST_TIMEOUT, "the request takes too long to come").into_response()
        }
    }
}

/// What its client gives a request with these headers: at most eight digits and a unit. What is written otherwise is no
/// deadline.
pub fn asked(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: u64 = digits.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(number * 3600)),
        "M" => Some(Duration::from_secs(number * 60)),
        "S" => Some(Duration::from_secs(number)),
        "m" => Some(Duration::from_millis(number)),
        "u" => Some(Duration::from_micros(number)),
        "n" => Some(Duration::from_nanos(number)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    //! What clients may write.

    use super::*;

    #[test]
    fn deadlines_are_read_as_grpc_has_them() {
        for (text, expected) in [
            ("1H", Some(Duration::from_secs(3600))),
            ("99999999H", Some(Duration::from_secs(99_999_999 * 3600))),
            ("2M", Some(Duration::from_secs(120))),
            ("0S", Some(Duration::ZERO)),
            ("20m", Some(Duration::from_millis(20))),
            ("7u", Some(Duration::from_micros(7))),
            ("9n", Some(Duration::from_nanos(9))),
            ("123456789m", None),
            ("m", None),
            ("", None),
            ("1", None),
            ("1s", None),
            ("-1S", None),
            ("1.5S", None),
            ("1ü", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert("grpc-timeout", http::HeaderValue::from_bytes(text.as_bytes()).unwrap());
            assert_eq!(asked(&headers), expected, "{text}");
        }
    }
}
