//! Captures that others made, beside what a dissector sees in them. They are not part of this repository: where their
//! folder is not there, the test says so, and the fixtures beside it cover the same shapes.

use std::{fs, path::PathBuf};

use ratelimit::simulate::{CapturedFrame, FrameEngine as _, FrameVerdict, HostEngine, compile_for};
use ratelimit_common::{packet, time::Nanos};

use super::{recorded, traffic};

/// Frames of which the parser says something else on purpose, and why.
const DIFFERENCES: [(&str, &[u64], &str); 12] = [
    ("arista_ether.pcap", &[4, 6, 8, 12, 16], "a vendor's header before the tag: not followed"),
    (
        "bigtcp-ipv6-geneve-ipv4.pcap, bigtcp-ipv6-geneve-ipv6.pcap, bigtcp-ipv6-vxlan-ipv6.pcap",
        &[1],
        "UDP without a length in a packet too long for one: the dissector stops, the ports are there",
    ),
    ("dccp_options-oobr.pcap", &[1, 2, 3, 4, 5, 6, 7], "DCCP's ports are read too"),
    ("dccp_partial_csum_v6_simple.pcap", &[1, 2, 3, 4, 5, 6, 7], "DCCP's ports are read too"),
    ("gre-heapoverflow-1.pcap", &[2], "not version 4 behind the type of IPv4: not IP"),
    ("ip6_frag_asan.pcap", &[1], "the capture ends within the fragment header: the protocol can't be told"),
    ("ipv4_invalid_length.pcap", &[1], "the frame ends within the addresses: nothing to judge it by"),
    ("ipv4_invalid_total_length_2.pcap", &[1], "a broken length does not hide the addresses"),
    (
        "ipv6-srh-tlv-pad1-padn-5-trunc.pcap",
        &[1],
        "the routing header runs past the frame: nothing after it is read",
    ),
    ("ipv6_39_byte_header.pcap", &[1], "the frame ends within the addresses: nothing to judge it by"),
    ("kday1.pcap", &[1], "not version 4 behind the type of IPv4: not IP"),
    ("kday3.pcap", &[2], "not version 4 behind the type of IPv4: not IP"),
];

#[test]
fn captures_are_read_as_a_dissector_reads_them() {
    let Some(folder) = recorded::shared_captures() else { return };
    let rows = fs::read_to_string(folder.join("expected.tsv")).unwrap();
    let mut host = HostEngine::new(compile_for(&traffic::network(Vec::new()), Nanos(0)));
    let (mut file, mut frames, mut compared, mut differed) = (String::new(), Vec::new(), 0, 0);
    for row in rows.lines().skip(1) {
        let columns: Vec<&str> = row.split('\t').collect();
        if columns[0] != file {
            columns[0].clone_into(&mut file);
            frames = recorded::read(&folder.join(&file));
        }
        let number: u64 = columns[1].parse().unwrap();
        let frame: &CapturedFrame = &frames[number as usize - 1];
        let verdict = host.judge(&frame.bytes, frame.wire_length, Nanos(0)).unwrap();
        let is_same = describe(&verdict) == columns[4..13];
        let is_listed = DIFFERENCES.iter().any(|(files, numbers, _)| {
            files.split(", ").any(|name| name == file) && numbers.contains(&number)
        });
        assert_eq!(!is_same, is_listed, "{file} {number}: {:?}, expected {columns:?}", describe(&verdict));
        (compared, differed) = (compared + 1, differed + u32::from(!is_same));
    }
    assert!(compared > 1_900 && differed < 40, "{compared} frames, {differed} differ");
}

/// In the columns of the dissector's table.
fn describe(verdict: &FrameVerdict) -> [String; 9] {
    let dash = || "-".to_owned();
    let vlans = match &verdict.packet {
        Ok(packet) => packet.vlans,
        Err(not_ip) => not_ip.vlans,
    };
    let vlans: Vec<String> =
        vlans.iter().filter(|&&vlan| vlan != packet::NO_VLAN).map(ToString::to_string).collect();
    let vlans = if vlans.is_empty() { dash() } else { vlans.join(",") };
    let Ok(packet) = &verdict.packet else {
        return [vlans, "other".to_owned(), dash(), dash(), dash(), dash(), dash(), dash(), dash()];
    };
    let below = |value: u32, end: u32| if value < end { value.to_string() } else { dash() };
    let fragment = ["no", "first", "later"][packet.fragment as usize];
    let flags = packet.tcp_flags;
    [
        vlans,
        if packet.source.family == 0 { "ip4" } else { "ip6" }.to_owned(),
        packet.source.to_ip().to_string(),
        packet.destination.to_ip().to_string(),
        below(packet.protocol, packet::UNKNOWN_PROTOCOL),
        below(packet.source_port, packet::NO_PORT),
        below(packet.destination_port, packet::NO_PORT),
        fragment.to_owned(),
        if flags < packet::NO_FLAGS { format!("0x{flags:04x}") } else { dash() },
    ]
}

#[test]
fn every_listed_difference_names_a_file_that_is_there() {
    let Some(folder) = recorded::shared_captures() else { return };
    for (files, ..) in DIFFERENCES {
        for file in files.split(", ") {
            assert!(PathBuf::from(&folder).join(file).exists(), "{file}");
        }
    }
}
