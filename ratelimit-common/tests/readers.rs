//! Packets as the fast paths read them, and as all others do: each byte of some packets with each value, and packets
//! that end early.

#[path = "support/readers.rs"]
mod readers;

/// TCP, UDP, ICMP and neighbour discovery, over both versions of IP, with tags and without.
fn frames() -> Vec<Vec<u8>> {
    let transport = [0x10, 0, 0, 53, 0, 20, 0, 0, 0, 0, 0, 0, 0x50, 2, 0, 0, 0, 0, 0, 0];
    let tags: [&[u8]; 3] = [&[], &[0x81, 0, 0, 7], &[0x88, 0xa8, 0, 9, 0x81, 0, 0, 7]];
    let mut frames = Vec::new();
    for tags in tags {
        for protocol in [6, 17, 1] {
            let header = [8, 0, 0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, protocol, 0, 0, 10, 1, 0, 2, 10, 2, 0, 1];
            frames.push([&[0; 12], tags, &header, &transport].concat());
        }
        for (next, kind) in [(6, 0x10), (17, 0x10), (58, 135)] {
            let header = [0x86, 0xdd, 0x60, 0, 0, 0, 0, 20, next, 255];
            let mut frame = [&[0; 12], tags, &header, &[0xfd; 32], &transport].concat();
            let at = frame.len() - transport.len();
            frame[at] = kind;
            frames.push(frame);
        }
    }
    frames
}

#[test]
fn all_readers_say_the_same() {
    let mut plain = [0; 2];
    for frame in frames() {
        for at in 12..frame.len() {
            for value in 0..=u8::MAX {
                let mut changed = frame.clone();
                changed[at] = value;
                let found = readers::check(&changed);
                plain.iter_mut().zip(found).for_each(|(count, found)| *count += usize::from(found.is_some()));
            }
            readers::check(&frame[..at]);
        }
    }
    // Most are plain: else nothing was compared.
    let all: usize = frames().iter().map(|frame| (frame.len() - 12) * 256).sum();
    assert!(plain.iter().all(|&count| count > all / 3), "{plain:?} of {all}");
}
