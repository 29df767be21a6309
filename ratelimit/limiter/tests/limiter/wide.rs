//! Logs and wide counters, whose states are not words: bounded memory, nothing lost while there is room.

use ratelimit_limiter::Nanos;

use crate::{SECOND, START, limiter, rule};

#[test]
fn idle_logs_go_without_a_trace_and_logs_in_use_are_counted() {
    for text in ["sliding_window_log,rate=5/s", "sliding_window_counter,rate=1000000/s"] {
        let (limiter, clock) = limiter([rule("rule", text)], 640);
        // Far more keys than there is room for, but few at a time. Each is idle after two windows.
        for step in 0..50_000_u64 {
            clock.set(Nanos(START.0 + step * SECOND.0 / 100));
            assert!(limiter.check(&step, 2).allowed());
            assert_eq!(limiter.check(&step, 0).remaining() % 10, (limiter.check(&step, 0).limit() - 2) % 10);
        }
        assert_eq!(limiter.store().live_evictions(), 0, "{text}");
        // More at once.
        for key in 100_000..110_000_u64 {
            limiter.check(&key, 2);
        }
        let evictions = limiter.store().live_evictions();
        assert!((9_360..10_000).contains(&evictions), "{text}: {evictions}");
    }
}

#[test]
fn the_log_nearest_to_fresh_goes_first() {
    let (limiter, clock) = limiter([rule("rule", "sliding_window_log,rate=5/m")], 64 * 4);
    for round in 0..40_u64 {
        clock.set(Nanos(START.0 + round * SECOND.0));
        // Charged again each second, so never one that has used the least.
        let decision = limiter.check("busy", 1);
        assert_eq!(decision.allowed(), round < 5, "round {round}");
        for key in 0..100 {
            limiter.check(&(round, key), 1);
        }
        if round == 4 {
            assert_eq!(limiter.check("busy", 0).remaining(), 0);
        }
        if round >= 5 {
            break;
        }
    }
    assert!(limiter.store().live_evictions() > 0);
}

#[test]
fn exhausted_keys_stay_denied_whatever_comes_and_there_is_room_for_all_that_were_promised() {
    for (text, capacity) in
        [("sliding_window_log,rate=10/h", 10_u32), ("sliding_window_counter,rate=1000000/s", 1_000_000)]
    {
        let (limiter, _clock) = limiter([rule("rule", text)], 1000);
        for key in 0..100 {
            limiter.check(&("exhausted", key), capacity);
        }
        for key in 0..900 {
            limiter.check(&("fresh", key), 1);
        }
        assert_eq!(limiter.store().live_evictions(), 0, "{text}: all have room");
        for key in 900..5_000 {
            limiter.check(&("fresh", key), 1);
        }
        assert_eq!(limiter.store().live_evictions(), 4_100, "{text}");
        let denied = (0..100).filter(|key| !limiter.check(&("exhausted", key), 1).allowed()).count();
        assert_eq!(denied, 100, "{text}");
    }
}

#[test]
fn idle_logs_of_all_keys_go_before_one_that_is_in_use() {
    let rules = [rule("rule", "sliding_window_log,rate=10/h"), rule("short", "sliding_window_log,rate=10/s")];
    let (limiter, clock) = limiter(rules, 1000);
    for key in 0..500 {
        limiter.check(&key, 1);
    }
    // Each key has two buckets, of which one is idle by now: enough for the two of each new key.
    clock.set(Nanos(START.0 + 2 * SECOND.0));
    for key in 1_000..1_200 {
        limiter.check(&key, 1);
    }
    assert_eq!(limiter.store().live_evictions(), 0);
}

#[test]
fn long_logs_are_bounded_by_their_entries() {
    let (limiter, _clock) = limiter([rule("rule", "sliding_window_log,rate=10000/m")], 64);
    for key in 0..2_000_u64 {
        assert!(limiter.check(&key, 10_000).allowed());
        assert!(!limiter.check(&key, 1).allowed(), "the newest stays");
    }
    // There is room for 128 such logs.
    let evictions = limiter.store().live_evictions();
    assert!(evictions >= 2_000 - 128, "{evictions}");
}
