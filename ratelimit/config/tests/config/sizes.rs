//! Limits in bytes.

use ratelimit_config::limit::format_packet_limit;
use ratelimit_policy::LimitUnit;

use super::{assert_error, check, policy, shown};

/// A file with one rule; its rate stands in line 4, column 13, and `lines` from line 5.
fn file(rate: &str, lines: &[&str]) -> String {
    let lines: String = lines.iter().map(|line| format!("      {line}\n")).collect();
    format!("network:\n  rules:\n    - name: a\n      rate: {rate}\n{lines}")
}

#[test]
fn sizes_count_bytes() {
    let cases: &[(&str, &[&str], &str, LimitUnit)] = &[
        ("10MB/s", &["burst: 1MB"], "token_bucket,rate=10MB/s,burst=1MB", LimitUnit::Bytes),
        ("50Mbit/s", &[], "token_bucket,rate=6250kB/s", LimitUnit::Bytes),
        ("1GiB/d", &["algorithm: fixed_window"], "fixed_window,rate=1GiB/d", LimitUnit::Bytes),
        (
            "1kB/s",
            &["algorithm: leaky_bucket", "burst: 64KiB"],
            "leaky_bucket,rate=1kB/s,burst=64KiB",
            LimitUnit::Bytes,
        ),
        ("1M/s", &["burst: 2M"], "token_bucket,rate=1000000/s,burst=2000000", LimitUnit::Packets),
    ];
    for (rate, lines, shown, unit) in cases {
        let rules = policy(&file(rate, lines)).network.unwrap().rules;
        let limit = rules.first().unwrap().limit;
        assert_eq!((format_packet_limit(&limit).as_str(), limit.unit()), (*shown, *unit));
    }
}

#[test]
fn mistakes_in_sizes() {
    let cases: &[(&str, &[&str], &str)] = &[
        (
            "10MB/s",
            &["burst: 1000"],
            "5:14 burst: the rate is in bytes, so the burst must be a size too, such as 1MB",
        ),
        (
            "100/s",
            &["burst: 1MB"],
            "5:14 burst: the rate is in packets, so the burst must be a plain number too",
        ),
        ("0MB/s", &[], "4:13 rate: a rate of 0 would deny everything"),
        ("10MB/s", &["burst: 0B"], "5:14 burst: a burst of 0 would deny everything"),
        (
            "10KB/s",
            &[],
            "4:13 rate: `10KB` is not a whole number; write digits, with k (thousand) or M (million) if \
                         you like, or a size in B, kB, MB, GB, KiB",
        ),
        ("1.5B/s", &[], "4:13 rate: `1.5B` is not a whole number of bytes"),
        ("12bit/s", &[], "4:13 rate: `12bit` is not a whole number of bytes, of 8 bits each"),
        ("99999999999999GB/s", &[], "4:13 rate: `99999999999999GB` is too large"),
        ("MB/s", &[], "4:13 rate: `MB` is not a whole number"),
        ("10MB/s", &["burst: -1MB"], "5:14 burst: `-1MB` is negative"),
        (
            "10MB/s",
            &["algorithm: sliding_window_counter"],
            "5:18 algorithm: `sliding_window_counter` can't count bytes here; take",
        ),
        ("1MB/s", &["algorithm: fixed_window", "burst: 5"], "6:14 burst: fixed_window has none"),
    ];
    for (rate, lines, expected) in cases {
        assert_error(file(rate, lines), "network.rules[0].", expected);
    }
}

#[test]
fn a_table_size_is_no_size_in_bytes() {
    let content = "network: {table_size: 16MiB, rules: [{name: a, rate: 1/s}]}".to_owned();
    assert_error(content, "network.", "1:23 table_size: `16MiB` is a size, and bytes are not counted here");
}

#[test]
fn a_limit_too_small_for_a_packet_is_a_warning() {
    let cases: &[(&str, &[&str], Option<&str>)] = &[
        (
            "1513B/s",
            &[],
            Some("4:13 network.rules[0].rate: 1513 bytes at once: a packet of 1514 bytes can never pass"),
        ),
        ("1514B/s", &[], None),
        (
            "10MB/s",
            &["burst: 1kB"],
            Some("5:14 network.rules[0].burst: 1000 bytes at once: a packet of 1514 bytes"),
        ),
        ("1B/s", &["burst: 2kB"], None),
        ("1kB/s", &["algorithm: fixed_window"], Some("4:13 network.rules[0].rate: 1000 bytes at once")),
        ("128B/s", &["match: {length: [34, 64-128]}"], None),
        (
            "127B/s",
            &["match: {length: [34, 64-128]}"],
            Some("4:13 network.rules[0].rate: 127 bytes at once: a packet of 128 "),
        ),
        ("100/s", &[], None),
    ];
    for (rate, lines, expected) in cases {
        let warnings: Vec<String> = check(file(rate, lines)).unwrap().warnings.iter().map(shown).collect();
        match expected {
            None => assert!(warnings.is_empty(), "{warnings:?}"),
            Some(expected) => {
                assert!(warnings.len() == 1 && warnings[0].starts_with(expected), "{warnings:?}");
            }
        }
    }
}
