//! `ratelimit simulate` with both engines: the XDP program of this kernel and the host's build of it say the same of
//! each frame.

use std::{fs, net::IpAddr, path::Path};

use crate::{
    daemon::{command, config, text},
    frames, net, packets,
};

/// One of each algorithm, of which some observe, so that those behind them have something to judge.
const RULES: [&str; 6] = [
    "{name: dns, match: {protocol: udp, destination_port: [53, 8192]}, rate: 1/s, burst: 5}",
    "{name: opening, match: {protocol: tcp, tcp_flags: [syn]}, key: destination, rate: 1/s}",
    "{name: bytes, key: {source: {ipv4: 24, ipv6: 56}}, rate: 1kB/s, burst: 4kB, action: observe}",
    "{name: window, algorithm: fixed_window, rate: 3/s, count_denied: true, action: observe}",
    "{name: sliding, algorithm: sliding_window_counter, rate: 5/s, action: observe}",
    "{name: leaky, algorithm: leaky_bucket, rate: 10/s, burst: 20, ban: {after: 5, within: 10s, for: 1m}}",
];

/// What an engine makes of a capture, a line for each frame, then a summary.
fn simulated(engine: &str, config: &Path, capture: &Path) -> String {
    let mut simulate = command(&["simulate", "--output", "json", "--engine", engine, "--config"]);
    // It says more than a pipe holds, so somebody has to read it meanwhile.
    let output = simulate.arg(config).arg(capture).output().expect("starting it");
    let (stdout, stderr) = text(&output);
    assert!(output.status.success(), "{engine}, {}: {stderr}", capture.display());
    stdout
}

/// A capture of these frames, one each ten milliseconds.
fn write_capture(path: &Path, all: &[Vec<u8>]) {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let mut file = words(&[0xa1b2_c3d4, 4 << 16 | 2, 0, 0, 1 << 18, 1]);
    for (index, frame) in (0..).zip(all) {
        let (time, length) = (index * 10_000_u32, frame.len() as u32);
        file.extend(words(&[1_700_000_000 + time / 1_000_000, time % 1_000_000, length, length]));
        file.extend(frame);
    }
    fs::write(path, file).unwrap();
}

fn all_kinds_of_frames() -> Vec<Vec<u8>> {
    let sources: [IpAddr; 3] = [packets::V4.into(), packets::V6.into(), "192.0.2.7".parse().unwrap()];
    let mut all = Vec::new();
    for turn in 0..40 {
        all.extend(sources.map(frames::udp));
        all.push(packets::v4(packets::TCP, &packets::tcp(packets::SYN)));
        all.push(packets::v4(packets::ICMP, &packets::message(8)));
        all.push(packets::v4_with_options(8, packets::UDP, &packets::PORTS));
        all.push(packets::fragment(packets::v4(packets::UDP, &packets::PORTS), turn % 3 * 8, turn % 2 == 0));
        all.push(frames::ethernet(frames::ARP, &[0; 46]));
        // Broken: no more of its header than this.
        all.push(frames::udp(packets::V4.into())[..20].to_vec());
    }
    all
}

#[test]
fn both_engines_say_the_same_of_each_frame() {
    net::isolated(|| {
        let config = config(&["deny: [192.0.2.0/24]"], &RULES);
        let written = Path::new("/run/all-kinds.pcap");
        write_capture(written, &all_kinds_of_frames());
        let user = simulated("user", &config, written);
        assert!(
            user.contains("\"limited\"") && user.contains("\"banned\"") && user.contains("\"denied\""),
            "{user}"
        );
        assert_eq!(simulated("kernel", &config, written), user);
    });
}
