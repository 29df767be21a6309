//! A full table: what is idle goes without a trace; what is in use only when nothing is idle, and that is counted.

use ratelimit_limiter::Nanos;

use crate::{SECOND, START, limiter, limiter_of, rule};

/// The slots of the smallest table.
const SLOTS: u64 = 32_768;

const SMALLEST: u64 = 1;

#[test]
fn among_idle_buckets_a_source_gets_the_decisions_of_an_empty_table() {
    let text = "token_bucket,rate=3/s,burst=5";
    let (full, full_clock) = limiter([rule("rule", text)], SMALLEST);
    let (empty, empty_clock) = limiter_of(text);
    // Six times as many as there are slots: two sets of eight slots each that all of them miss are out of the question.
    let mut now = START;
    for source in 0..6 * SLOTS {
        now.0 += SECOND.0 / SLOTS;
        full_clock.set(now);
        full.check(&("idle", source), 1);
    }
    now.0 += 10 * SECOND.0;
    let full_before = full.store().live_evictions();
    for step in 0..20_000_u64 {
        now.0 += 7_777_777;
        full_clock.set(now);
        empty_clock.set(now);
        // New sources come all the time, and are idle again before the next.
        full.check(&("new", step), 1);
        now.0 += 333_333_334;
        full_clock.set(now);
        empty_clock.set(now);
        for _ in 0..1 + step % 3 {
            let (decision, expected) = (full.check("active", 1), empty.check("active", 1));
            assert_eq!(decision.allowed(), expected.allowed(), "step {step}");
            assert_eq!(decision.remaining(), expected.remaining(), "step {step}");
            assert_eq!(decision.retry_after(), expected.retry_after(), "step {step}");
        }
    }
    assert_eq!(full.store().live_evictions(), full_before);
    assert_eq!(full.store().table_bytes(), SLOTS * 16);
}

#[test]
fn nothing_is_lost_up_to_half_full() {
    let (limiter, _clock) = limiter([rule("rule", "fixed_window,rate=10/w")], SMALLEST);
    for source in 0..SLOTS / 2 {
        assert_eq!(limiter.check(&source, 3).remaining(), 7);
    }
    for source in 0..SLOTS / 2 {
        assert_eq!(limiter.check(&source, 0).remaining(), 7, "source {source}");
    }
    assert_eq!(limiter.store().live_evictions(), 0);
}

#[test]
fn with_too_many_in_use_those_nearest_to_fresh_go_and_are_counted() {
    for text in ["token_bucket,rate=10/w", "fixed_window,rate=10/w", "sliding_window_counter,rate=10/w"] {
        let (limiter, _clock) = limiter([rule("rule", text)], SMALLEST);
        let (heavy, light) = (SLOTS / 2, 2 * SLOTS);
        for source in 0..heavy {
            limiter.check(&("heavy", source), 9);
        }
        for source in 0..light {
            assert!(limiter.check(&("light", source), 1).allowed(), "{text}");
        }
        for source in 0..heavy {
            assert_eq!(limiter.check(&("heavy", source), 0).remaining(), 1, "{text}: heavy source {source}");
        }
        let kept =
            (0..light).filter(|source| limiter.check(&("light", source), 0).remaining() == 9).count() as u64;
        assert_eq!(limiter.store().live_evictions(), light - kept, "{text}");
        assert!(kept > SLOTS / 2 * 9 / 10 && kept <= SLOTS / 2, "{text}: {kept}");
    }
}

#[test]
fn of_those_equally_near_to_fresh_the_soonest_to_end_goes() {
    let (limiter, clock) =
        limiter([rule("rule", "fixed_window,rate=10/s"), rule("week", "fixed_window,rate=10/w")], 1);
    clock.set(Nanos(START.0 / SECOND.0 * SECOND.0));
    let charge = |rule: usize, key: &(u64, u64)| limiter.check_each(&[limiter.ask(rule, key, 1).unwrap()]);
    for source in 0..SLOTS / 2 {
        assert!(charge(1, &(1, source)).allowed());
    }
    for source in 0..4 * SLOTS {
        assert!(charge(0, &(0, source)).allowed());
    }
    assert!(limiter.store().live_evictions() > 0);
    for source in 0..SLOTS / 2 {
        let outcome = limiter.check_each(&[limiter.ask(1, &(1_u64, source), 0).unwrap()]);
        assert_eq!(outcome.decision().remaining(), 9, "source {source}");
    }
}

#[test]
fn memory_is_bounded_by_the_most_keys() {
    const MOST_KEYS: u64 = 100_000;
    let (limiter, _clock) = limiter([rule("rule", "fixed_window,rate=10/w")], MOST_KEYS);
    for source in 0..MOST_KEYS {
        limiter.check(&source, 1);
    }
    assert_eq!(limiter.store().live_evictions(), 0);
    for source in 0..10 * MOST_KEYS {
        limiter.check(&source, 1);
    }
    let bytes = limiter.store().table_bytes();
    assert!(bytes <= MOST_KEYS * 3 * 16, "{bytes} bytes");
    assert!(limiter.store().live_evictions() >= 10 * MOST_KEYS - bytes / 16);
}
