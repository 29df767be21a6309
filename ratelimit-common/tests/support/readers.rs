//! The readers of a packet: whole or its source alone, in few steps or in all. They say the same.

use ratelimit_common::packet::{self, Frame, Packet, parse_plain};

/// A frame of which the source is read and nothing behind it.
pub struct Source<'f>(pub &'f [u8]);

impl Frame for Source<'_> {
    const IS_READ_WHOLE: bool = false;

    fn read<const N: usize>(&self, offset: usize) -> Option<&[u8; N]> {
        self.0.read(offset)
    }

    fn length(&self) -> u64 {
        self.0.length()
    }

    fn read_far<const N: usize>(&self, offset: usize) -> Option<[u8; N]> {
        self.0.read_far(offset)
    }
}

/// Checks that all readers say the same of a frame, and returns what those in few steps say.
pub fn check(frame: &[u8]) -> [Option<Packet>; 2] {
    let (whole, source) = (packet::parse(frame), packet::parse(&Source(frame)));
    let of_source = |packet: Packet| (packet.source, packet.malformed, packet.is_neighbour_discovery);
    assert_eq!(
        whole.map(of_source).map_err(|not_ip| not_ip.hides),
        source.map(of_source).map_err(|not_ip| not_ip.hides)
    );
    let plain = parse_plain(frame);
    assert!(plain.is_none_or(|plain| whole == Ok(plain)), "{plain:?} {whole:?}");
    let plain_source = parse_plain(&Source(frame));
    assert!(
        plain_source.is_none_or(|plain| whole.map(of_source) == Ok((plain.source, 0, 0))),
        "{plain_source:?} {whole:?}"
    );
    [plain, plain_source]
}
