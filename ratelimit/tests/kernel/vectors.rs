//! The golden decisions of `vectors.yaml` through the loaded program, by a clock that the test sets.

#[expect(dead_code, reason = "the program answers with a verdict and nothing else")]
#[path = "../../../ratelimit-common/tests/support/vectors.rs"]
mod golden;

use std::num::NonZeroU64;

use ratelimit::{dataplane::ProgramGeneration, policy::LimitUnit};
use ratelimit_common::{
    limit::{Algorithm, LimitSpec, Rate, StateStorage},
    time::Nanos,
    wire::Reason,
};

use self::golden::Vector;
use crate::{
    frames, net,
    offline::{self, Made},
};

/// Vectors of limits that a bucket in the kernel can't hold.
const NOT_IN_KERNEL: [&str; 6] = [
    "leaky bucket as a queue of 3, one a second",
    "leaky bucket admits a cost only whole",
    "sliding window log, 2 a minute",
    "sliding window log, 2 a minute, second example",
    "sliding window log keeps denied requests only if told to",
    "sliding window log, denied requests not counted",
];

/// How old the table is at the vectors' zero: new, and off every grid.
const AGES: [Nanos; 2] = [Nanos(0), Nanos(12_345_678_901)];

#[test]
fn every_vector_that_fits_the_kernel_is_decided_as_written() {
    net::isolated(|| {
        let vectors = golden::all().unwrap();
        let mut ran = 0;
        for vector in &vectors {
            let name = vector.name.as_str();
            let fits = vector.spec.build(StateStorage::Kernel).is_ok();
            assert_eq!(!fits, NOT_IN_KERNEL.contains(&name), "{name}: in the kernel or not");
            if fits {
                AGES.iter().for_each(|&age| run(vector, age));
                ran += 1;
            }
        }
        assert_eq!(ran + NOT_IN_KERNEL.len(), vectors.len());
    });
}

/// By itself, which is the shortest way through the program, and behind a rule that denies nothing, which is the
/// longest.
fn run(vector: &Vector, age: Nanos) {
    let rate = Rate { amount: NonZeroU64::new(1_000_000).unwrap(), per: Nanos::SECOND };
    let lax = LimitSpec::new(Algorithm::TokenBucket, rate);
    let period = vector.spec.rate.per.0;
    let unix = Nanos(1_700_000_000_000_000_000 / period * period - age.0);
    let made = Made { monotonic: Nanos(5_000_000_007), unix };
    // Costs other than 1 are those of bytes.
    let unit =
        if vector.events.iter().all(|event| event.cost <= 1) { LimitUnit::Packets } else { LimitUnit::Bytes };
    let several = [&[vector.spec, lax][..], &[lax, vector.spec]];
    // Each of these is a program to verify.
    let alone = [&[vector.spec][..]];
    let ways = alone.into_iter().chain(several.into_iter().filter(|_| age == AGES[1]));
    for limits in ways {
        let mut generation = offline::load_in(unit, limits, 1 << 15, made);
        // No packet costs nothing; to leave those out changes nothing.
        for (index, event) in vector.events.iter().enumerate().filter(|(_, event)| event.cost > 0) {
            let clock = Nanos(made.monotonic.0 + age.0 + event.at.0);
            for time in 0..event.times {
                let context =
                    format!("{}, event {index}.{time}, {} rules, aged {age:?}", vector.name, limits.len());
                assert_eq!(judge(&mut generation, event.cost.into(), clock), event.allow, "{context}");
            }
        }
    }
}

fn judge(generation: &mut ProgramGeneration, wire_length: u64, clock: Nanos) -> bool {
    let found = generation.dry_run(&frames::udp("192.0.2.1".parse().unwrap()), wire_length, clock).unwrap();
    !Reason::of(found.reason).unwrap().is_drop()
}
