//! Whether the numbers of a decision agree with what then happens, tried on copies of the bucket.

use ratelimit_common::{limit::Limit, table::BUSY, time::Nanos};

use super::bucket::{Answer, Bucket};

/// Fails if `answer`, which left `bucket` at `now` for a request of `cost`, promises what does not come true.
pub fn check(limit: &Limit, bucket: &Bucket, now: Nanos, cost: u32, answer: &Answer) -> Result<(), String> {
    let reserved = matches!(bucket, Bucket::Word(state) if *state >= BUSY);
    ensure(!reserved, || format!("a reserved state: {bucket:?}"))?;
    ensure(answer.never == (u64::from(cost) > limit.capacity()), || format!("cost {cost}, {answer:?}"))?;
    match answer.retry_after {
        Some(wait) => {
            ensure(!answer.allowed && !answer.never, || format!("a time to try again: {answer:?}"))?;
            retry(limit, bucket, now, cost, wait)?;
        }
        None => ensure(answer.allowed != answer.never, || format!("no time to try again: {answer:?}"))?,
    }
    remaining(limit, bucket, now, answer.remaining)
}

/// Fails if a bucket that says it is full again after `reset` is full before, or not full then.
pub fn check_reset(limit: &Limit, bucket: &Bucket, now: Nanos, reset: Nanos) -> Result<(), String> {
    let remaining_at = |at: u64| bucket.ask(limit, Nanos(at), 0).remaining;
    let end = now.0 + reset.0;
    ensure(remaining_at(end) == limit.capacity(), || {
        format!("full after {reset:?}, but {}", remaining_at(end))
    })?;
    ensure(reset.0 == 0 || remaining_at(end - 1) < limit.capacity(), || format!("full before {reset:?}"))
}

fn retry(limit: &Limit, bucket: &Bucket, now: Nanos, cost: u32, wait: Nanos) -> Result<(), String> {
    let allowed_at = |at: u64| bucket.allows(limit, Nanos(at), cost);
    ensure(wait.0 > 0, || "denied, to be retried at once".into())?;
    ensure(!allowed_at(now.0 + wait.0 - 1), || format!("allowed 1 ns before {wait:?}"))?;
    ensure(allowed_at(now.0 + wait.0), || format!("denied after {wait:?}"))
}

fn remaining(limit: &Limit, bucket: &Bucket, now: Nanos, remaining: u64) -> Result<(), String> {
    let allowed = |cost: u32| bucket.allows(limit, now, cost);
    ensure(remaining <= limit.capacity(), || format!("{remaining} remaining of {}", limit.capacity()))?;
    ensure(allowed(0) == (remaining > 0), || format!("{remaining} remaining, asked for nothing"))?;
    let most = u32::try_from(remaining).unwrap_or(u32::MAX);
    ensure(most == 0 || allowed(most), || format!("{remaining} remaining, but {most} denied"))?;
    let Ok(above) = u32::try_from(remaining + 1) else { return Ok(()) };
    ensure(!allowed(above), || format!("{remaining} remaining, but {above} allowed"))
}

fn ensure(holds: bool, message: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(message()) }
}
