//! The fast and the slow path of a packet judge alike: random rules, packets, buckets and times, with another processor
//! that comes in between, give the same outcome, the same counters and the same buckets.
#![expect(clippy::expect_used, clippy::panic, reason = "a test that can't go on has failed")]

#[path = "support/readers.rs"]
mod readers;
#[path = "fast_path/world.rs"]
mod world;

use std::{mem::MaybeUninit, num::NonZeroU64};

use ratelimit_common::{
    bans::BanSchedule,
    classify::{Dimension, judging, judging_source},
    limit::{Algorithm, Limit, LimitSpec, Rate, Refill, StateStorage},
    lists::TrieRoot,
    packet,
    pipeline::{Evaluation, FastPath, FrameSize, Hooks as _, StageOutcome, fast_path, stages},
    table::{LEAST_SETS, Secret},
    time::{Nanos, Now},
    wire::{
        CompiledRule, Conditions, Globals, KeyMask, READS_PORTS, READS_SOURCE, READS_WHOLE, Reason,
        TAKES_BYTES, TAKES_ONE, TAKES_PACKETS,
    },
};
use readers::Source;
use world::{Path, World};

const GENERATIONS: usize = 200;
const PACKETS: usize = 100;

#[test]
fn the_fast_and_the_slow_path_say_the_same() {
    let mut random = Random(7);
    for generation in 0..GENERATIONS {
        let (globals, rules) = rules(&mut random);
        // Some are about to wrap the ticks.
        let start =
            random.one_of(&[1, 1 << 40, (1 << 57) - (1 << 51), (1 << 57) + 5]) + random.below(1 << 30);
        let worlds =
            [Path::Fast, Path::Slow].map(|path| World::new(path, globals, rules.clone(), Now(Nanos(start))));
        for packet in 0..PACKETS {
            let frame = frame(&mut random);
            readers::check(&frame);
            let scale = random.below(33);
            let now = Now(Nanos(worlds[0].now.get().0.0 + random.below(1 << scale)));
            let other_at = if random.below(4) == 0 { 1 + random.below(6) as u32 } else { 0 };
            let outcomes = worlds.each_ref().map(|world| {
                world.now.set(now);
                world.other_at.set(other_at);
                let outcome = judge(world, &frame);
                (outcome.reason(), outcome.denied_by())
            });
            let [fast, slow] = &worlds;
            let what = format!("generation {generation}, packet {packet}, {frame:x?}");
            assert_eq!(outcomes[0], outcomes[1], "{what}");
            assert_eq!(*fast.counters.borrow(), *slow.counters.borrow(), "{what}");
            assert_eq!(*fast.banned.borrow(), *slow.banned.borrow(), "{what}");
        }
        assert!(worlds[0].slots == worlds[1].slots, "generation {generation}");
    }
}

/// As the program does.
fn judge(world: &World, frame: &[u8]) -> StageOutcome {
    let mut evaluation = MaybeUninit::uninit();
    let mut early = StageOutcome::UNUSUAL;
    let reads_source = world.globals.reads == READS_SOURCE;
    if world.path == Path::Fast {
        early = judge_fast(world, frame, &mut evaluation);
    }
    if early == StageOutcome::UNUSUAL {
        let evaluation = evaluation.write(Evaluation::of_size(FrameSize(frame.len() as u64)));
        let parsed = if reads_source { packet::parse(&Source(frame)) } else { packet::parse(frame) };
        let Ok(packet) = parsed else { return StageOutcome::of(Reason::NotIp) };
        let Globals { matches, excepting, .. } = world.globals;
        let length = frame.len() as u64;
        let matching = || match (world.globals.classifies(), reads_source) {
            (false, _) => matches.rules,
            (true, false) => judging(&world, &world.excepts(), excepting, &packet, length),
            (true, true) => judging_source(&world, &world.excepts(), excepting, &packet.source, length),
        };
        early = stages::examine(world, &packet, evaluation, matching);
    }
    if !early.asks_rules() {
        return early;
    }
    // SAFETY: written by the fast path, which asks the rules, or above.
    stages::judge(world, early, unsafe { evaluation.assume_init_mut() })
}

/// Judges by the fast path that the program takes.
fn judge_fast(world: &World, frame: &[u8], evaluation: &mut MaybeUninit<Evaluation>) -> StageOutcome {
    const SIMPLE: u32 = FastPath::Simple as u32;
    const ANY: u32 = FastPath::Any as u32;
    const SOURCES: u32 = FastPath::Sources as u32;
    const PORTS: u32 = FastPath::Ports as u32;
    match world.globals.with_fast_path().fast_path {
        SIMPLE => fast_path::judge_simple(world, &Source(frame), evaluation),
        ANY => fast_path::judge(world, frame, evaluation),
        SOURCES => fast_path::judge_source(world, &Source(frame), evaluation),
        PORTS => fast_path::judge_ports(world, frame, evaluation),
        path => panic!("no fast path: {path}"),
    }
}

/// Splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

fn limit(random: &mut Random) -> Limit {
    let algorithm = random.one_of(&[
        Algorithm::TokenBucket,
        Algorithm::TokenBucket,
        Algorithm::TokenBucket,
        Algorithm::FixedWindow,
        Algorithm::SlidingWindowCounter,
    ]);
    let amount = random.one_of(&[1, 2, 5, 100, 2_000]);
    let per = Nanos(random.one_of(&[Nanos::SECOND.0, 60 * Nanos::SECOND.0, 1_000_000]));
    let mut spec =
        LimitSpec::new(algorithm, Rate { amount: NonZeroU64::new(amount).expect("not zero"), per });
    if algorithm == Algorithm::TokenBucket && random.below(4) == 0 {
        spec.refill = Refill::Interval;
    }
    spec.count_denied = random.below(4) == 0;
    spec.build(StateStorage::Kernel).expect("a limit")
}

/// What rules ask about that read no more than this of a packet.
fn conditions(random: &mut Random, rules: u64, reads: u32) -> Conditions {
    let source = Dimension::Kind.bit() | Dimension::Length.bit();
    let ports = Dimension::SourcePort.bit() | Dimension::DestinationPort.bit();
    let dimensions = random.one_of(&[
        0,
        0,
        Dimension::DestinationPort.bit(),
        Dimension::Protocol.bit() | Dimension::Vlan.bit() | Dimension::TcpFlags.bit(),
        Dimension::Kind.bit(),
        source,
    ]);
    let (dimensions, most_destinations) = match reads {
        READS_SOURCE => (dimensions & source, 1),
        READS_PORTS => (dimensions & (source | ports | Dimension::Protocol.bit()), 1),
        _ => (dimensions, 3),
    };
    let [sources, destinations] = [3, most_destinations].map(|most| [random.below(most) as u32 / 2; 2]);
    Conditions {
        rules,
        any_address: [sources, destinations].map(|asked| if asked == [0; 2] { rules } else { 0 }),
        sources,
        destinations,
        dimensions,
        is_asked: 1,
    }
}

/// Up to twelve rules; behind them, for some, limits of their new sources and of their denied packets.
fn rules(random: &mut Random) -> (Globals, Vec<CompiledRule>) {
    let secret = Secret::new([random.next(), random.next(), random.next(), random.next()]);
    let count = random.one_of(&[1, 1, 2, 3, 8, 9, 12]);
    let all = (1 << count) - 1;
    let reads = random.one_of(&[READS_SOURCE, READS_PORTS, READS_WHOLE, READS_WHOLE]);
    let mut rules: Vec<CompiledRule> = (0..count).map(|index| rule(random, &secret, index, reads)).collect();
    for index in 0..count as usize {
        let extra = rules.len();
        let number = extra as u32 + 1;
        if random.below(5) == 0 {
            let masks = [KeyMask {
                keyed: secret.keyed(CompiledRule::tag_of(number.into(), 0)),
                ..KeyMask::default()
            }; 2];
            let takes = TAKES_ONE;
            rules.push(CompiledRule {
                masks,
                number,
                takes,
                new_sources: 0,
                ban_terms: BanSchedule::default(),
                ..rules[index]
            });
            rules[index].new_sources = extra as u32;
        } else if random.below(5) == 0 {
            let masks = [0, 1].map(|family| KeyMask {
                keyed: secret.keyed(CompiledRule::tag_of(number.into(), family)),
                ..rules[index].masks[family as usize]
            });
            rules.push(CompiledRule { masks, number, ban_terms: BanSchedule::default(), ..rules[index] });
            rules[index].ban = extra as u32;
            rules[index].ban_terms.length = 1;
        }
    }
    let some = random.next() & all;
    let enforced = random.one_of(&[all, all, some]);
    let counting = rules.iter().take(count as usize).enumerate();
    let counts_denied =
        counting.fold(0, |set, (bit, rule)| set | u64::from(rule.limit.counts_denied()) << bit) & enforced;
    let excepting = random.next() & random.one_of(&[0, all]);
    // Up to 63 exceptions more, with bits that no first one has.
    let further = random.next() & random.next() & !excepting & random.one_of(&[0, 0, 0xff00, u64::MAX]);
    // Rules on ports except nothing: else they would take the path of all sorts.
    let excepting = if reads == READS_PORTS { 0 } else { excepting };
    let matches = conditions(random, all, reads);
    let excepts = conditions(random, excepting | further, reads);
    let further = if excepting == 0 { 0 } else { further };
    let has_any = matches.dimensions != 0 || matches.any_address != [all; 2] || random.below(4) == 0;
    let versions = [0, 3].map(|row| world::all_in(Dimension::Kind, row) & all);
    let globals = Globals {
        epoch: 0,
        set_mask: LEAST_SETS - 1,
        secret,
        matches: Conditions { is_asked: has_any.into(), ..matches },
        excepts: Conditions { rules: excepting | further, is_asked: (excepting != 0).into(), ..excepts },
        excepting,
        further_excepts: further,
        of_version: if matches.dimensions == 0 { [all; 2] } else { versions },
        enforced,
        counts_denied,
        listed: [TrieRoot { step: 1, filter: 0 }; 2],
        drop_malformed: random.below(2) as u32,
        observes_groups: 1,
        dry_run: 0,
        random_sources: 0,
        has_lists: 1,
        reads,
        bans: 1,
        is_on_trial: 0,
        samples: 0,
        link: 0,
        joins: 0,
        fast_path: 0,
    };
    (globals, rules)
}

/// Its key is made of the source, or where more may be read, of the destination too, or of the flow.
fn rule(random: &mut Random, secret: &Secret, index: u64, reads: u32) -> CompiledRule {
    let bits = random.one_of(&[32, 32, 24, 40]);
    let number = index + 1;
    let parts = if reads == READS_WHOLE { random.below(3) } else { 0 };
    let masks = [0, 1].map(|family| KeyMask {
        source: [u64::MAX << (64 - bits), 0],
        destination: if parts == 0 { [0; 2] } else { [u64::MAX; 2] },
        ports: if parts == 2 { u64::MAX } else { 0 },
        is_hashed: (parts != 0).into(),
        keyed: secret.keyed(CompiledRule::tag_of(number, family)),
        ..KeyMask::default()
    });
    CompiledRule {
        limit: limit(random),
        masks,
        number: number as u32,
        counters: number as u32,
        group: 1 << index,
        is_first: 1,
        takes: random.one_of(&[TAKES_PACKETS, TAKES_PACKETS, TAKES_BYTES]),
        new_sources: 0,
        ban: 0,
        ban_terms: BanSchedule::default(),
        ban_maker: 0,
        ban_bits: [32, 64],
    }
}

/// Few sources, so that buckets are met again; one in eight frames is changed or cut at random.
fn frame(random: &mut Random) -> Vec<u8> {
    let host = random.one_of(&[1, 2, 3, 4, 250, 251]);
    let is_tcp = random.below(2) == 0;
    let ports = [
        random.below(3) as u8,
        1,
        random.below(3) as u8,
        53,
        0,
        16,
        0,
        0,
        0,
        0,
        0,
        0,
        0x50,
        2,
        0,
        0,
        0,
        0,
        0,
        0,
    ];
    let protocol = if is_tcp { 6 } else { 17 };
    let mut frame = vec![0; 12];
    if random.below(5) == 0 {
        frame.extend([0x81, 0, 0, 7]);
    }
    if random.below(3) == 0 {
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 20, protocol, 64]);
        frame.extend([0xfd, 0, 0, host, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]);
        frame.extend([0xfd; 15]);
        frame.push(random.below(2) as u8);
    } else {
        frame.extend([8, 0, 0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, protocol, 0, 0]);
        frame.extend([10, 1, 0, host, 10, 2, 0, random.below(2) as u8]);
    }
    frame.extend(ports);
    match random.below(16) {
        0 => {
            let at = 12 + random.below(frame.len() as u64 - 12) as usize;
            frame[at] = random.next() as u8;
        }
        1 => frame.truncate(12 + random.below(frame.len() as u64 - 12) as usize),
        _ => {}
    }
    frame
}
