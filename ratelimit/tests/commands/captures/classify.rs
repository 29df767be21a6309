//! The compiled tables give the same set of rules as a plain loop over them.

use ratelimit::simulate::{FrameEngine as _, HostEngine, compile_for};
use ratelimit_common::time::Nanos;

use super::traffic::{Random, plain_loop, random_frame, random_network};

#[test]
fn compiled_tables_and_a_plain_loop_find_the_same_rules() {
    let (mut matched, mut excepted, mut judged) = (0, 0, 0);
    for seed in 0..60 {
        let mut random = Random(seed);
        let network = random_network(&mut random, 64);
        let mut host = HostEngine::new(compile_for(&network, Nanos(0)));
        for _ in 0..400 {
            let frame = random_frame(&mut random);
            let verdict = host.judge(&frame, frame.len() as u64, Nanos(0)).unwrap();
            let Ok(packet) = verdict.packet else { continue };
            let expected = plain_loop(&network.rules, &packet, frame.len() as u64);
            assert_eq!(
                [verdict.matching, verdict.excepted],
                expected,
                "seed {seed}, {packet:?}, {frame:02x?}"
            );
            matched += expected[0].count_ones();
            excepted += expected[1].count_ones();
            judged += 1;
        }
    }
    let found = format!("{judged} packets, {matched} matches, {excepted} exceptions");
    assert!(judged > 15_000 && matched > 10_000 && excepted > 3_000, "{found}: a dull test");
}
