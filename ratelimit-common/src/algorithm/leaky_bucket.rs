//! Leaky bucket: a queue of `burst` requests that leaves at the rate.
//!
//! Who may enter is decided as by the token bucket: room in the queue is a token. What differs is that an admitted
//! request can be held until its turn.

use crate::{
    limit::Limit,
    time::{Nanos, Now, Ticks},
};

/// How long a request that found the bucket in `state` waits for those before it.
pub(super) fn leaves_after(limit: &Limit, state: u64, now: Now) -> Nanos {
    now.ahead(Ticks(state), limit.far()).to_nanos_up()
}
