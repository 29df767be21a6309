//! Estimates of sources from sets as the program fills them.

use ratelimit_common::sketch::{Sample, SketchSet, WAYS, stamp};

use super::*;

const NOW: u64 = 7 * WINDOW;

fn v4(last: u64) -> [u64; 2] {
    [(0x0a00_0000 + last) << 32, 0]
}

fn sample(group: Group, source: [u64; 2], weight: u64) -> Sample {
    Sample { stamp: stamp(NOW, group), source, weight, bytes: 100 }
}

fn seen(place: u32, dropped: bool, samples: &[Sample]) -> SeenSet {
    let mut set = SketchSet::default();
    samples.iter().for_each(|sample| set.count(sample));
    SeenSet { place, dropped, slots: set.0 }
}

#[test]
fn two_processors_and_both_verdicts_add_up() {
    let mut sums = Sums::default();
    let one = sample(Group::V4, v4(1), 1);
    let all = sample(Group::All, [0; 2], 1);
    sums.add(&[
        seen(3, false, &[one; 30]),
        seen(3, true, &[one; 5]),
        seen(3, false, &[one; 10]),
        seen(SETS, false, &[all; 100]),
        seen(SETS, true, &[all; 10]),
    ]);
    let top = sums.top(By::Packets, Ipv6By::Address, 10);
    let exact = |about| Estimate { low: about, about, high: about };
    let [source] = &top.sources[..] else { panic!("{top:?}") };
    assert_eq!((top.packets, top.bytes, top.drops), (110.0, 11_000.0, 10.0));
    assert_eq!((source.source.as_str(), source.share), ("10.0.0.1", 45.0 / 110.0));
    assert_eq!((source.packets, source.bytes, source.drops), (exact(45.0), exact(4_500.0), exact(5.0)));
}

#[test]
fn what_stands_for_many_has_an_error_and_more_windows_make_it_smaller() {
    let mut sums = Sums::default();
    let heavy = [seen(0, false, &[sample(Group::V4, v4(1), 256); 100])];
    sums.add(&heavy);
    let one = sums.top(By::Packets, Ipv6By::Address, 1).sources[0].packets;
    assert_eq!(one.about, 25_600.0);
    // 1.96 x sqrt(100 x 256 x 255)
    assert!((one.about - one.low - 5_007.7).abs() < 0.1 && (one.high - one.about - 5_007.7).abs() < 0.1);
    (0..3).for_each(|_| sums.add(&heavy));
    let four = sums.top(By::Packets, Ipv6By::Address, 1).sources[0].packets;
    assert_eq!(four.about, 25_600.0);
    assert!((four.about - four.low - 2_503.9).abs() < 0.1);
}

#[test]
fn where_a_source_has_no_slot_the_lightest_bounds_what_it_may_have_had() {
    let full: Vec<Sample> =
        (10..10 + WAYS as u64).flat_map(|source| [sample(Group::V4, v4(source), 1); 4]).collect();
    let mut sums = Sums::default();
    sums.add(&[seen(1, false, &[sample(Group::V4, v4(1), 1); 50]), seen(1, false, &full)]);
    let top = sums.top(By::Packets, Ipv6By::Address, 1);
    let packets = top.sources[0].packets;
    // Four packets of 100 bytes weigh 4 x (256 + 100), which five packets without bytes do not.
    assert_eq!((packets.low, packets.about, packets.high), (50.0, 50.0, 55.0));
}

#[test]
fn ipv6_sources_by_address_or_by_network() {
    let network = 0x2001_0db8_0000_0007;
    let mut samples = Vec::new();
    for host in 1..=3 {
        samples.push(sample(Group::V6, [network, host], 1));
        samples.push(sample(Group::V6Network, [network, 0], 1));
    }
    let mut sums = Sums::default();
    sums.add(&[seen(5, true, &samples)]);
    let names = |ipv6| {
        let top = sums.top(By::Drops, ipv6, 10);
        top.sources.iter().map(|source| (source.source.clone(), source.drops.about)).collect::<Vec<_>>()
    };
    let one = |host| (format!("2001:db8:0:7::{host}"), 1.0);
    assert_eq!(names(Ipv6By::Address), [one(1), one(2), one(3)]);
    assert_eq!(names(Ipv6By::Network), [("2001:db8:0:7::/64".to_owned(), 3.0)]);
}

#[test]
fn sources_on_lists_are_marked() {
    let prefix = |text: &str| text.parse().unwrap();
    let lists = SourceLists::new(vec![prefix("10.0.0.2")], vec![], vec![prefix("10.0.0.0/30")]);
    let mut sums = Sums::default();
    sums.add(&[seen(5, true, &[1, 2, 4].map(|source| sample(Group::V4, v4(source), 1)))]);
    let mut top = sums.top(By::Drops, Ipv6By::Address, 10);
    top.mark(&lists);
    let marks: Vec<_> = top.sources.iter().map(|source| (source.source.as_str(), source.list)).collect();
    let expected =
        [("10.0.0.1", Some(SourceList::Banned)), ("10.0.0.2", Some(SourceList::Allowed)), ("10.0.0.4", None)];
    assert_eq!(marks, expected);
}

#[test]
fn sources_are_sorted_by_what_is_asked_for_and_those_without_any_left_out() {
    let sized = |source, bytes| Sample { bytes, ..sample(Group::V4, v4(source), 1) };
    let mut sums = Sums::default();
    sums.add(&[
        seen(0, false, &[[sized(1, 60); 10].as_slice(), &[sized(2, 1_500); 2]].concat()),
        seen(0, true, &[sized(3, 60)]),
    ]);
    let names = |by| {
        let top = sums.top(by, Ipv6By::Address, 10);
        top.sources.iter().map(|source| source.source.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(By::Packets), ["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
    assert_eq!(names(By::Bytes), ["10.0.0.2", "10.0.0.1", "10.0.0.3"]);
    assert_eq!(names(By::Drops), ["10.0.0.3"]);
}
