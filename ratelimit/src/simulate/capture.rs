//! Captures: frames and their times from pcap and pcapng files. Packets that were captured without an Ethernet header
//! get one, whose bytes do not count: so rules meet all captures in one form.

use std::io::Read;

use pcap_parser::{Block, Linktype, PcapBlockOwned, PcapError, create_reader, traits::PcapReaderIterator};
use ratelimit_common::time::Nanos;

/// A frame of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapturedFrame {
    /// From 1.
    pub number: u64,
    /// Since the Unix epoch.
    pub time: Nanos,
    /// How long it was on the wire; of one that was captured without an Ethernet header, the packet's length.
    pub wire_length: u64,
    /// As much of it as was captured, from an Ethernet header on.
    pub bytes: Vec<u8>,
}

/// Why a capture can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CaptureError {
    /// Something else.
    #[error("not a capture; pcap and pcapng files are read")]
    NotACapture,
    /// Frames of another kind.
    #[error(
        "link type {0}: Ethernet (1), raw IP (101, 228, 229) and Linux cooked captures (113, 276) can be judged"
    )]
    LinkType(i32),
    /// The file ends within a frame.
    #[error("ends within frame {0}")]
    Truncated(u64),
    /// Lengths that contradict each other, and the like.
    #[error("frame {0}: broken")]
    Broken(u64),
    /// Times that are finer than 64 bits count in a second.
    #[error("times in units of {0:#04x} (if_tsresol), which is too fine")]
    Resolution(u8),
    /// Frames in a form that nobody writes any more.
    #[error("has Packet Blocks, which are obsolete; `editcap` from Wireshark writes them anew")]
    Obsolete,
    /// A frame that nobody can have captured.
    #[error("frame {0}: longer than {MOST_BYTES} bytes")]
    TooLong(u64),
}

/// Bytes of a frame, with what the file says about it, at most.
const MOST_BYTES: usize = 1 << 24;

/// A capture, read frame by frame.
pub struct Capture {
    reader: Box<dyn PcapReaderIterator + Send>,
    /// Nanoseconds in a unit of the older format's fractions.
    fraction: u64,
    /// What frames of the older format begin with.
    link: LinkType,
    /// The interfaces of the newer format.
    interfaces: Vec<CaptureInterface>,
    frames: u64,
    room: usize,
    last: Nanos,
}

/// What its frames begin with, and how it counts time: units in a second, and seconds to add.
#[derive(Clone, Copy)]
struct CaptureInterface {
    link: LinkType,
    resolution: u64,
    offset: i64,
}

/// What a block of a file is for us.
enum Step {
    Frame(CapturedFrame),
    Other,
}

impl Capture {
    /// Begins to read.
    ///
    /// # Errors
    /// It is not a capture.
    pub fn new(file: impl Read + Send + 'static) -> Result<Self, CaptureError> {
        let room = 1 << 16;
        let reader = create_reader(room, file).map_err(|_| CaptureError::NotACapture)?;
        Ok(Self {
            reader,
            fraction: 1_000,
            link: LinkType::Ethernet,
            interfaces: Vec::new(),
            frames: 0,
            room,
            last: Nanos(0),
        })
    }

    /// The next frame, if there is one.
    ///
    /// # Errors
    /// What comes next can't be read; nothing after it can.
    pub fn next_frame(&mut self) -> Result<Option<CapturedFrame>, CaptureError> {
        loop {
            match self.reader.next() {
                Ok((length, block)) => {
                    let step = match block {
                        PcapBlockOwned::LegacyHeader(header) => {
                            self.link = LinkType::of(header.network)?;
                            self.fraction = if header.is_nanosecond_precision() { 1 } else { 1_000 };
                            Step::Other
                        }
                        PcapBlockOwned::Legacy(block) => {
                            self.frames += 1;
                            let nanos = u64::from(block.ts_usec) * self.fraction;
                            let time = u64::from(block.ts_sec) * Nanos::SECOND.0 + nanos;
                            self.last = Nanos(time);
                            Step::Frame(self.link.frame(self.frames, self.last, block.origlen, block.data))
                        }
                        PcapBlockOwned::NG(block) => {
                            read_block(&block, &mut self.interfaces, &mut self.frames, &mut self.last)?
                        }
                    };
                    self.reader.consume(length);
                    if let Step::Frame(frame) = step {
                        return Ok(Some(frame));
                    }
                }
                Err(PcapError::Eof) => return Ok(None),
                Err(PcapError::Incomplete(_)) => self.refill()?,
                Err(PcapError::BufferTooSmall) => self.grow()?,
                Err(PcapError::UnexpectedEof) => return Err(CaptureError::Truncated(self.frames + 1)),
                Err(_) => return Err(CaptureError::Broken(self.frames + 1)),
            }
        }
    }

    fn refill(&mut self) -> Result<(), CaptureError> {
        if self.reader.reader_exhausted() {
            return Err(CaptureError::Truncated(self.frames + 1));
        }
        match self.reader.refill() {
            Ok(()) => Ok(()),
            Err(PcapError::BufferTooSmall) => self.grow(),
            Err(_) => Err(CaptureError::Truncated(self.frames + 1)),
        }
    }

    fn grow(&mut self) -> Result<(), CaptureError> {
        self.room *= 2;
        if self.room > MOST_BYTES || !self.reader.grow(self.room) {
            return Err(CaptureError::TooLong(self.frames + 1));
        }
        self.reader.refill().map_err(|_| CaptureError::Truncated(self.frames + 1))
    }
}

fn read_block(
    block: &Block<'_>,
    interfaces: &mut Vec<CaptureInterface>,
    frames: &mut u64,
    last: &mut Nanos,
) -> Result<Step, CaptureError> {
    match block {
        Block::SectionHeader(_) => interfaces.clear(),
        Block::InterfaceDescription(interface) => {
            let link = LinkType::of(interface.linktype)?;
            let resolution = resolution(interface.if_tsresol)?;
            interfaces.push(CaptureInterface { link, resolution, offset: interface.ts_offset() });
        }
        Block::EnhancedPacket(packet) => {
            *frames += 1;
            let interface = interfaces.get(packet.if_id as usize).ok_or(CaptureError::Broken(*frames))?;
            *last = interface.nanos(u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low));
            let bytes = packet.data.get(..packet.caplen as usize).ok_or(CaptureError::Broken(*frames))?;
            return Ok(Step::Frame(interface.link.frame(*frames, *last, packet.origlen, bytes)));
        }
        Block::SimplePacket(packet) => {
            *frames += 1;
            let there = packet.data.len().min(packet.origlen as usize);
            let bytes = packet.data.get(..there).unwrap_or_default();
            // They are of the first interface.
            let interface = interfaces.first().ok_or(CaptureError::Broken(*frames))?;
            return Ok(Step::Frame(interface.link.frame(*frames, *last, packet.origlen, bytes)));
        }
        Block::Unknown(block) if block.block_type == OBSOLETE_PACKET => return Err(CaptureError::Obsolete),
        _ => {}
    }
    Ok(Step::Other)
}

/// The type of the Packet Block, which the Enhanced Packet Block has replaced.
const OBSOLETE_PACKET: u32 = 2;

/// Units in a second: a power of two if the first bit is set, else of ten.
fn resolution(exponent: u8) -> Result<u64, CaptureError> {
    let base: u64 = if exponent & 0x80 == 0 { 10 } else { 2 };
    base.checked_pow(u32::from(exponent & 0x7f)).ok_or(CaptureError::Resolution(exponent))
}

impl CaptureInterface {
    /// Saturates outside the times that 64 bits of nanoseconds hold.
    fn nanos(self, units: u64) -> Nanos {
        let resolution = u128::from(self.resolution.max(1));
        let nanos = u128::from(units) * u128::from(Nanos::SECOND.0) / resolution;
        let offset = i128::from(self.offset) * i128::from(Nanos::SECOND.0);
        let sum = i128::try_from(nanos).unwrap_or(i128::MAX).saturating_add(offset);
        Nanos(u64::try_from(sum.max(0)).unwrap_or(u64::MAX))
    }
}

/// What the frames of an interface begin with in a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinkType {
    /// An Ethernet header.
    Ethernet,
    /// An IP header, whose first bits say which version it is.
    RawIp,
    /// So many bytes of which two, at a place, are the type that an Ethernet header would have.
    Cooked { length: usize, kind: usize },
}

impl LinkType {
    fn of(kind: Linktype) -> Result<Self, CaptureError> {
        // The other bits say whether frames have their check sequences, and how long these are.
        match Linktype(kind.0 & 0xffff) {
            Linktype::ETHERNET => Ok(Self::Ethernet),
            Linktype::RAW | Linktype::IPV4 | Linktype::IPV6 => Ok(Self::RawIp),
            // What some systems write instead of 101.
            Linktype(12 | 14) => Ok(Self::RawIp),
            Linktype::LINUX_SLL => Ok(Self::Cooked { length: 16, kind: 14 }),
            Linktype::LINUX_SLL2 => Ok(Self::Cooked { length: 20, kind: 0 }),
            Linktype(other) => Err(CaptureError::LinkType(other)),
        }
    }

    fn frame(self, number: u64, time: Nanos, wire_length: u32, bytes: &[u8]) -> CapturedFrame {
        let wire_length = u64::from(wire_length).max(bytes.len() as u64);
        let (kind, before) = match self {
            Self::Ethernet => {
                return CapturedFrame { number, time, wire_length, bytes: bytes.to_vec() };
            }
            Self::RawIp => (if bytes.first().is_some_and(|first| first >> 4 == 6) { IPV6 } else { IPV4 }, 0),
            Self::Cooked { length, kind } => {
                let kind = bytes.get(kind..).and_then(|bytes| bytes.first_chunk()).copied();
                (kind.unwrap_or_default(), length)
            }
        };
        let packet = bytes.get(before..).unwrap_or_default();
        let bytes = [&NO_ADDRESSES[..], &kind, packet].concat();
        CapturedFrame { number, time, wire_length: wire_length.saturating_sub(before as u64), bytes }
    }
}

const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xdd];
const NO_ADDRESSES: [u8; 12] = [0; 12];
