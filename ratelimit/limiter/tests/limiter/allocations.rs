//! Deciding about a key whose state is a word allocates nothing, with up to eight rules; a log takes what it needs.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

use crate::{SECOND, limiter, rule};

/// Counts what the current thread allocates, the bytes that it holds, and all that it ever took.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static BYTES: Cell<i64> = const { Cell::new(0) };
    static TAKEN: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: all is left to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        BYTES.set(BYTES.get() + layout.size().cast_signed() as i64);
        TAKEN.set(TAKEN.get() + layout.size() as u64);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        BYTES.set(BYTES.get() - layout.size().cast_signed() as i64);
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

#[test]
fn a_decision_allocates_nothing() {
    let texts = [
        "token_bucket,rate=3/s",
        "token_bucket,rate=3/s,refill=interval",
        "fixed_window,rate=3/s",
        "sliding_window_counter,rate=3/s",
    ];
    for count in [1, 8] {
        let rules = (0..count).map(|index| rule(&index.to_string(), texts[index % texts.len()]));
        // With so much room no bucket of a request takes the place of another one of it.
        let (limiter, _clock) = limiter(rules, 200_000 * count as u64);
        let allocated = allocations(|| {
            for step in 0..100_000_u64 {
                let decision = limiter.check(&(step % 60_000), 1);
                assert!(decision.limit() == 3 && decision.remaining() <= 3);
            }
        });
        assert_eq!(allocated, 0, "{count} rules");
    }
    assert!(allocations(|| drop(vec![1])) > 0);
}

#[test]
fn a_log_takes_eight_bytes_a_request_and_no_more_than_its_limit_needs() {
    let (limiter, _clock) = limiter([rule("rule", "sliding_window_log,rate=10000/h")], 1000);
    let before = BYTES.get();
    let rest = 2_000;
    for count in 1..=10_000 {
        assert!(limiter.check("key", 1).allowed());
        let bytes = BYTES.get() - before;
        // A quarter in advance.
        assert!(bytes <= 10 * count + rest, "{bytes} bytes for {count}");
    }
    let bytes = BYTES.get() - before;
    assert!(bytes <= 80_000 + rest, "{bytes} bytes for 10,000");
}

#[test]
fn a_decision_under_several_limits_does_not_copy_whole_logs() {
    let rules = ["sliding_window_log,rate=10000/h", "sliding_window_log,rate=9999/h"];
    let (limiter, clock) = limiter(rules.map(|text| rule(text, text)), 1000);
    for _ in 0..9_999 {
        clock.advance(SECOND);
        assert!(limiter.check("key", 1).allowed());
    }
    // The windows are not full any more: each adds the newest time, and forgets the oldest.
    for _ in 0..10 {
        let before = TAKEN.get();
        clock.advance(SECOND);
        assert!(limiter.check("key", 1).allowed());
        let bytes = TAKEN.get() - before;
        assert!(bytes <= 40_000, "{bytes} bytes, of logs of 80,000 bytes each");
    }
}
