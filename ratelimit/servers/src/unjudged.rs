//! Questions that can't be judged: they are answered all the same, and denied, since gateways let a request pass that
//! they get an error for.

use std::{error::Error, mem};

use axum::BoxError;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::{Body, Bytes};

use super::{limits, serving::Full};

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
pub(super) async fn read<B>(body: B, most: usize) -> Result<Bytes, Unjudged>
where
    B: Body<Data = Bytes, Error = BoxError> + Unpin,
{
    if body.size_hint().lower() > most as u64 {
        return Err(Unjudged::TooLarge);
    }
    let mut body = Limited::new(body, most);
    let (mut first, mut whole) = (Bytes::new(), Vec::new());
    while let Some(frame) = body.frame().await {
        let Ok(piece) = frame.map_err(|error| why(&*error))?.into_data() else { continue };
        if first.is_empty() && whole.is_empty() {
            first = piece;
            continue;
        }
        // One piece is taken as it came. If there are several, each would hold many times what is in it.
        whole.extend_from_slice(&mem::take(&mut first));
        whole.extend_from_slice(&piece);
    }
    Ok(if whole.is_empty() { first } else { whole.into() })
}

fn why(error: &(dyn Error + 'static)) -> Unjudged {
    if error.is::<LengthLimitError>() {
        Unjudged::TooLarge
    } else if error.is::<Full>() {
        Unjudged::NoRoom
    } else {
        Unjudged::Unreadable
    }
}

#[cfg(test)]
mod tests {
    //! Bodies in many pieces.

    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use futures_util::stream;
    use http_body_util::StreamBody;
    use hyper::body::Frame;

    use super::*;

    static HELD: AtomicUsize = AtomicUsize::new(0);

    /// A piece of one byte that holds much more, as one of a connection's buffer does.
    struct Piece(u8);

    impl AsRef<[u8]> for Piece {
        fn as_ref(&self) -> &[u8] {
            std::slice::from_ref(&self.0)
        }
    }

    impl Drop for Piece {
        fn drop(&mut self) {
            HELD.fetch_sub(1, SeqCst);
        }
    }

    #[tokio::test]
    async fn a_body_holds_what_is_in_its_pieces_and_not_the_pieces() {
        let pieces = (0..=u8::MAX).map(|byte| {
            assert!(HELD.fetch_add(1, SeqCst) < 2, "the first piece and the last one at most");
            Ok::<_, BoxError>(Frame::data(Bytes::from_owner(Piece(byte))))
        });
        let body = StreamBody::new(stream::iter(pieces));
        let whole = read(body, 256).await.unwrap();
        assert!(whole.iter().copied().eq(0..=u8::MAX));
        assert_eq!(HELD.load(SeqCst), 0);
    }
}
