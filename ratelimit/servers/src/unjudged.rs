//! Questions that can't be judged: they are answered all the same, and denied, since gateways let a request pass that
//! they get an error for.

use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::{Body as _, Bytes};

use super::{
    limits,
    serving::{Full, Metered},
};

/// Why a question can't be judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unjudged {
    /// It is larger than what is read.
    #[error("the message is too large: at most {} bytes are read", limits::BODY)]
    TooLarge,
    /// It is no message, or a compressed one.
    #[error("the message can't be read: it is cut off, compressed or no message at all")]
    Unreadable,
    /// All that may be held is held.
    #[error("too much is being received; try again later")]
    NoRoom,
}

impl Unjudged {
    /// All reasons.
    pub const ALL: [Self; 3] = [Self::TooLarge, Self::Unreadable, Self::NoRoom];

    /// The label in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TooLarge => "too_large",
            Self::Unreadable => "unreadable",
            Self::NoRoom => "no_room",
        }
    }
}

/// A body of a question, if it comes whole and has no more than so many bytes.
///
/// # Errors
/// Why the question can't be judged.
pub(super) async fn read(body: Metered, most: usize) -> Result<Bytes, Unjudged> {
    if body.size_hint().lower() > most as u64 {
        return Err(Unjudged::TooLarge);
    }
    match Limited::new(body, most).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Unjudged::TooLarge),
        Err(error) if error.is::<Full>() => Err(Unjudged::NoRoom),
        Err(_) => Err(Unjudged::Unreadable),
    }
}
