//! Captures written here byte by byte, and what `simulate` makes of them.

use std::{io::Cursor, process::Command};

use ratelimit::simulate::{Capture, CaptureError};
use serde_json::{Value, json};

use super::recorded::frames;

/// Seconds, fraction, length on the wire, bytes.
type Record<'r> = (u32, u32, u32, &'r [u8]);

/// A file of the older format.
fn pcap(magic: u32, link: u32, records: &[Record<'_>]) -> Vec<u8> {
    let mut file: Vec<u8> =
        [magic, 4 << 16 | 2, 0, 0, 1 << 18, link].into_iter().flat_map(u32::to_le_bytes).collect();
    for (seconds, fraction, wire, bytes) in records {
        let header = [*seconds, *fraction, bytes.len() as u32, *wire];
        file.extend(header.into_iter().flat_map(u32::to_le_bytes));
        file.extend(*bytes);
    }
    file
}

/// A file of the newer format with one interface that counts time in `1/10^digits` seconds.
fn pcapng(link: u16, digits: u8, records: &[(u64, u32, &[u8])]) -> Vec<u8> {
    fn block(kind: u32, body: &[u8]) -> Vec<u8> {
        let length = (12 + body.len() as u32).to_le_bytes();
        [&kind.to_le_bytes()[..], &length, body, &length].concat()
    }
    let section = [&0x1a2b_3c4d_u32.to_le_bytes()[..], &[1, 0, 0, 0], &[0xff; 8]].concat();
    let resolution = [9, 0, 1, 0, digits, 0, 0, 0, 0, 0, 0, 0];
    let interface = [&link.to_le_bytes()[..], &[0, 0, 0, 0, 4, 0], &resolution].concat();
    let mut file = [block(0x0a0d_0d0a, &section), block(1, &interface)].concat();
    for (time, wire, bytes) in records {
        let lengths = [0, (time >> 32) as u32, *time as u32, bytes.len() as u32, *wire];
        let mut body: Vec<u8> = lengths.into_iter().flat_map(u32::to_le_bytes).collect();
        body.extend(*bytes);
        body.resize(body.len().next_multiple_of(4), 0);
        file.extend(block(6, &body));
    }
    file
}

const MICROS: u32 = 0xa1b2_c3d4;
const NANOS: u32 = 0xa1b2_3c4d;

fn read_bytes(file: &[u8]) -> Result<Vec<(u64, u64, usize)>, CaptureError> {
    let frames = frames(Capture::new(Cursor::new(file.to_vec())))?;
    Ok(frames.iter().map(|frame| (frame.time.0, frame.wire_length, frame.bytes.len())).collect())
}

#[test]
fn both_formats_give_times_to_the_nanosecond() {
    let bytes = [0; 60];
    let records = [(7, 5, 60, &bytes[..]), (8, 6, 1514, &bytes)];
    assert_eq!(
        read_bytes(&pcap(MICROS, 1, &records)),
        Ok(vec![(7_000_005_000, 60, 60), (8_000_006_000, 1514, 60)])
    );
    assert_eq!(
        read_bytes(&pcap(NANOS, 1, &records)),
        Ok(vec![(7_000_000_005, 60, 60), (8_000_000_006, 1514, 60)])
    );
    // Frames that still have their check sequence.
    assert_eq!(read_bytes(&pcap(NANOS, 0x4400_0001, &records)).map(|frames| frames.len()), Ok(2));
    let records = [(7_000_005, 60, &bytes[..]), (8_000_006, 1514, &bytes)];
    assert_eq!(
        read_bytes(&pcapng(1, 6, &records)),
        Ok(vec![(7_000_005_000, 60, 60), (8_000_006_000, 1514, 60)])
    );
    assert_eq!(read_bytes(&pcapng(1, 9, &records)), Ok(vec![(7_000_005, 60, 60), (8_000_006, 1514, 60)]));
    // Powers of two: a quarter of a second.
    let quarter = [(3, 60, &bytes[..])];
    assert_eq!(read_bytes(&pcapng(1, 0x82, &quarter)), Ok(vec![(750_000_000, 60, 60)]));
    assert_eq!(read_bytes(&pcapng(1, 0xff, &quarter)), Err(CaptureError::Resolution(0xff)));
}

#[test]
fn what_is_not_a_capture_of_packets_is_refused() {
    let bytes = [0; 60];
    let records = [(7, 5, 60, &bytes[..])];
    assert_eq!(read_bytes(b""), Err(CaptureError::NotACapture));
    assert_eq!(read_bytes(&[0x55; 4096]), Err(CaptureError::NotACapture));
    assert_eq!(read_bytes(&pcap(MICROS, 105, &records)), Err(CaptureError::LinkType(105)));
    assert_eq!(read_bytes(&pcapng(105, 6, &[])), Err(CaptureError::LinkType(105)));
    let whole = pcap(MICROS, 1, &records);
    assert_eq!(read_bytes(&whole[..whole.len() - 1]), Err(CaptureError::Truncated(1)));
    let mut huge = whole.clone();
    huge[32..36].copy_from_slice(&[0xff, 0xff, 0xff, 0x7f]);
    assert!(read_bytes(&huge).is_err());
}

/// Packets without an Ethernet header are judged like others, by their own length.
#[test]
fn captures_without_ethernet_headers_are_judged() {
    let [dns, arp] = own_frames();
    let packet = &dns[18..];
    let cooked = |kind: [u8; 2], payload: &[u8]| [&[0; 14][..], &kind, payload].concat();
    let cooked_2 = |kind: [u8; 2], payload: &[u8]| [&kind[..], &[0; 18], payload].concat();
    // The tag and the type behind it.
    let (tagged, tag) = (&dns[14..], [0x81, 0]);
    let (ip, not_ip) = ([8, 0], [8, 6]);
    let of_tag = tagged.len();
    for (link, frames, lengths) in [
        (101, vec![packet.to_vec()], vec![packet.len()]),
        (12, vec![packet.to_vec()], vec![packet.len()]),
        (228, vec![packet.to_vec()], vec![packet.len()]),
        (
            113,
            vec![cooked(ip, packet), cooked(tag, tagged), cooked(not_ip, &arp[14..])],
            vec![packet.len(), of_tag, 46],
        ),
        (
            276,
            vec![cooked_2(ip, packet), cooked_2(not_ip, &arp[14..]), vec![0; 7]],
            vec![packet.len(), 46, 0],
        ),
    ] {
        let records: Vec<(u64, u32, &[u8])> =
            frames.iter().map(|bytes| (7, bytes.len() as u32, bytes.as_slice())).collect();
        let older: Vec<Record<'_>> =
            frames.iter().map(|bytes| (7, 0, bytes.len() as u32, bytes.as_slice())).collect();
        for file in [pcapng(link, 6, &records), pcap(MICROS, link.into(), &older)] {
            let found: Vec<u64> = read_bytes(&file).unwrap().iter().map(|frame| frame.1).collect();
            assert_eq!(found, lengths.iter().map(|&length| length as u64).collect::<Vec<_>>(), "{link}");
            let (ok, said) = simulate(&["--output", "json"], ONE_DNS, &file);
            let is_dropped = said.contains("limited");
            assert!(ok, "{said}");
            let count = frames.iter().filter(|bytes| bytes.ends_with(&dns[34..])).count();
            assert_eq!(is_dropped, count > 1, "{link}: {said}");
        }
    }
    let mut six = vec![0x60, 0, 0, 0, 0, 0, 17, 64];
    six.resize(40, 1);
    let bytes = frames(Capture::new(Cursor::new(pcap(MICROS, 229, &[(7, 0, 40, &six)])))).unwrap();
    let packet = ratelimit_common::packet::parse(&bytes[0].bytes[..]).unwrap();
    assert_eq!((packet.source.family, bytes[0].wire_length), (1, 40));
}

const ONE_DNS: &str = "network: {interfaces: [eth0], rules: [{name: dns, rate: 1/h, \
                       match: {protocol: udp, destination_port: [53]}}]}\n";

#[test]
fn any_bytes_are_a_capture_or_an_error() {
    let bytes = [0xa5; 61];
    for whole in [pcap(MICROS, 1, &[(7, 5, 60, &bytes)]), pcapng(1, 6, &[(7, 61, &bytes), (8, 61, &bytes)])] {
        for position in 0..whole.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut file = whole.clone();
                file[position] = value;
                let _ = read_bytes(&file);
            }
            let _ = read_bytes(&whole[..position]);
        }
    }
}

/// DNS over UDP from 192.0.2.1 in VLAN 7, and something that is not IP.
fn own_frames() -> [Vec<u8>; 2] {
    let mut dns = vec![0; 12];
    dns.extend([
        0x81, 0, 0xe0, 7, 8, 0, 0x45, 0, 0, 32, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 198, 51, 100, 2,
    ]);
    dns.extend([0x30, 0x39, 0, 53, 0, 12, 0, 0, 1, 2, 3, 4]);
    let mut arp = vec![0; 60];
    arp[12..14].copy_from_slice(&[8, 6]);
    [dns, arp]
}

fn simulate(arguments: &[&str], configuration: &str, capture: &[u8]) -> (bool, String) {
    let folder = tempfile::tempdir().unwrap();
    let (rules, file) = (folder.path().join("rules.yaml"), folder.path().join("file.pcap"));
    std::fs::write(&rules, configuration).unwrap();
    std::fs::write(&file, capture).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_ratelimit"))
        .args(["simulate", "--config"])
        .arg(rules)
        .args(arguments)
        .arg(file)
        .output()
        .unwrap();
    (output.status.success(), String::from_utf8(output.stdout).unwrap())
}

const RULES: &str = "network:
  rules:
    - {name: dns, match: {protocol: udp, destination_port: 53, vlan: 7}, rate: 2/s}
    - {name: watched, rate: 1/s, action: observe}
";

/// Three packets within a second and one later, by the capture's own clock.
fn own_capture() -> Vec<u8> {
    let [dns, arp] = own_frames();
    let length = dns.len() as u32;
    let at = |millis: u32| (1_700_000_000 + millis / 1000, millis % 1000 * 1000, length, &dns[..]);
    pcap(MICROS, 1, &[at(0), at(100), at(200), (1_700_000_000, 300_000, 60, &arp), at(1_500)])
}

#[test]
fn one_object_a_frame_says_what_became_of_it() {
    let (success, output) = simulate(&["--output", "json"], RULES, &own_capture());
    assert!(success);
    let lines: Vec<Value> = output.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let dns = |frame: u64, verdict: &str, reason: &str| {
        json!({"frame": frame, "vlans": [7], "l3": "ip4", "src": "192.0.2.1", "dst": "198.51.100.2", "l4": 17,
            "sport": 12345, "dport": 53, "frag": "no", "tcp_flags": null, "icmp_type": null,
            "rules": ["dns", "watched"], "verdict": verdict, "reason": reason})
    };
    let arp = json!({"frame": 4, "vlans": null, "l3": "other", "src": null, "dst": null, "l4": null, "sport": null,
        "dport": null, "frag": null, "tcp_flags": null, "icmp_type": null, "rules": [], "verdict": "pass",
        "reason": "not_ip"});
    let expected = [
        dns(1, "pass", "passed"),
        dns(2, "pass", "passed"),
        dns(3, "drop", "limited"),
        arp,
        dns(5, "pass", "passed"),
    ];
    assert_eq!(lines, expected);
}

#[test]
fn the_summary_is_by_reason_rule_and_source() {
    let (success, output) = simulate(&[], RULES, &own_capture());
    assert!(success);
    let words: Vec<Vec<&str>> = output.lines().map(|line| line.split_whitespace().collect()).collect();
    for expected in [
        &["passed", "3", "150", "pass"][..],
        &["limited", "1", "50", "drop"],
        &["not_ip", "1", "60", "pass"],
        &["dns", "3", "1", "150", "50"],
        &["192.0.2.1", "3", "1", "150", "50"],
        &["watched", "2", "1", "100", "50"],
    ] {
        assert!(words.iter().any(|words| words == expected), "{expected:?} not in\n{output}");
    }
}

#[test]
fn what_a_rule_excepts_is_said_and_left_to_the_others() {
    let rules = "network:
  rules:
    - {name: tight, rate: 1/d, except: {source: 192.0.2.0/24, destination_port: 53}}
    - {name: loose, rate: 3/d}
";
    let (success, output) = simulate(&["--output", "json"], rules, &own_capture());
    assert!(success);
    let lines: Vec<Value> = output.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let shown: Vec<_> =
        lines.iter().map(|line| (&line["rules"], &line["excepted"], &line["reason"])).collect();
    let (loose, tight, nothing) = (json!(["loose"]), json!(["tight"]), Value::Null);
    let reasons = ["passed", "passed", "passed", "not_ip", "limited"].map(Value::from);
    assert_eq!(shown[4], (&loose, &tight, &reasons[4]), "{output}");
    assert_eq!(shown[2], (&loose, &tight, &reasons[2]), "{output}");
    assert_eq!(shown[3], (&json!([]), &nothing, &reasons[3]), "{output}");
    let (_, output) = simulate(&[], rules, &own_capture());
    let note = "tight              0        0             0              0\n  \
                not judged, since it excepts them: 4 frames, 200 bytes\n";
    assert!(output.contains(note), "{output}");
}
