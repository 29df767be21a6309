//! What clients choose at random, in every place where they can; `cargo xtask fuzz` does the same for longer.

use std::env;

use crate::chosen::Sides;

/// Questions: as many as take a few seconds.
const QUESTIONS: u32 = 200;
/// Bytes that a question is made of at most.
const MOST_BYTES: u64 = 400;

/// Numbers at random from a seed (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn bytes(&mut self) -> Vec<u8> {
        let length = self.next() % MOST_BYTES;
        (0..length).map(|_| self.next() as u8).collect()
    }
}

#[test]
fn whatever_clients_choose_is_judged() {
    let seed = env::var("RATELIMIT_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    println!("seed {seed}; RATELIMIT_SEED=N tries others");
    let mut random = Random(seed);
    let mut sides = Sides::new();
    for _ in 0..QUESTIONS {
        sides.ask(&random.bytes());
    }
    // Four values of as many bytes as there can be, each of which is six in JSON, and one of them alone.
    for way in [1, 2] {
        for count in [3, 0] {
            sides.ask(&[&[way, 2, count][..], &[0xff; 4 * 65]].concat());
        }
    }
}
