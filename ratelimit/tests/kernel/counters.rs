//! Counters against what was sent: every frame once, under the right reason, with all its bytes.

use std::collections::HashMap;

use crate::{
    daemon::{Daemon, config, judged, reason},
    frames::{self, Raw},
    net::{Link, isolated},
};

#[test]
fn counters_agree_with_the_wire_by_reason_packets_and_bytes() {
    isolated(|| {
        let link = Link::silent();
        let network = ["allow: [10.1.7.0/24]"];
        let _daemon = Daemon::start(&config(&network, &["{name: every, rate: 1/h, burst: 10}"]));
        let raw = Raw::new(&link);
        let mut expected: HashMap<&str, (u64, u64)> = HashMap::new();
        for (reason, times, frame) in kinds() {
            for _ in 0..times {
                raw.send(&frame);
            }
            let count = expected.entry(reason).or_default();
            *count = (count.0 + times, count.1 + times * frame.len() as u64);
        }

        let status = judged(expected.values().map(|count| count.0).sum());
        for counted in &status.reasons {
            let expected = expected.get(counted.reason.as_str()).copied().unwrap_or_default();
            assert_eq!((counted.count.packets, counted.count.bytes), expected, "{}", counted.reason);
        }
        let [rule] = &status.rules[..] else { panic!("one rule") };
        let judged_by_rule = ["passed", "malformed", "limited"].map(|name| reason(&status, name));
        assert_eq!(rule.passed.packets, judged_by_rule[0].packets + judged_by_rule[1].packets);
        assert_eq!(rule.passed.bytes, judged_by_rule[0].bytes + judged_by_rule[1].bytes);
        assert_eq!(rule.dropped, judged_by_rule[2]);
    });
}

/// Frames, how often they are sent, and the reason that they are to be counted under.
fn kinds() -> Vec<(&'static str, u64, Vec<u8>)> {
    let v4 = |text: &str| frames::udp(text.parse().unwrap());
    let v6 = "fd00::1".parse().unwrap();
    let solicitation = [&[135, 0, 0, 0][..], &[0; 20]].concat();
    let echo = [&[128, 0, 0, 0][..], &[0; 20]].concat();
    vec![
        ("passed", 10, v4("10.1.0.2")),
        ("limited", 150, v4("10.1.0.2")),
        ("passed", 7, frames::udp("fd00:0:0:5::1".parse().unwrap())),
        ("allowed", 120, v4("10.1.7.9")),
        ("not_ip", 11, frames::ethernet(frames::ARP, &[0; 28])),
        ("not_ip", 5, frames::ethernet(0x88cc, &[0; 100])),
        ("not_ip", 3, frames::ethernet(frames::IPV4, &[0x45; 10])),
        ("neighbour_discovery", 40, frames::ipv6(v6, frames::ICMPV6, 255, &solicitation)),
        // What came from further away is no neighbour's.
        ("passed", 10, frames::ipv6(v6, frames::ICMPV6, 254, &solicitation)),
        ("limited", 4, frames::ipv6(v6, frames::ICMPV6, 255, &echo)),
        ("malformed", 10, frames::ipv4("10.1.0.4".parse().unwrap(), 4, &[0; 30])),
        ("limited", 6, frames::ipv4("10.1.0.4".parse().unwrap(), 4, &[0; 30])),
        ("passed", 1, [v4("10.1.0.5"), vec![0; 1000]].concat()),
    ]
}
