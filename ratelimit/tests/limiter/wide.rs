//! Logs and wide counters, whose states are not words: bounded memory, nothing lost while there is room.

use ratelimit::limiter::Nanos;

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
fn the_log_that_is_idle_soonest_goes_first() {
    let (limiter, clock) = limiter([rule("rule", "sliding_window_log,rate=5/m")], 64 * 4);
    for round in 0..40_u64 {
        clock.set(Nanos(START.0 + round * SECOND.0));
        // Charged again each second, so never the one that is idle soonest.
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
fn long_logs_are_bounded_by_their_entries() {
    let (limiter, _clock) = limiter([rule("rule", "sliding_window_log,rate=10000/m")], 64);
    for key in 0..2_000_u64 {
        assert!(limiter.check(&key, 10_000).allowed());
        assert!(!limiter.check(&key, 1).allowed(), "the newest stays");
    }
    // There is room for two such logs in each of 64 places.
    let evictions = limiter.store().live_evictions();
    assert!(evictions >= 2_000 - 128, "{evictions}");
}
