//! Captures: Ethernet frames and their times from pcap and pcapng files.

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
    /// How long it was on the wire.
    pub wire_length: u64,
    /// As much of it as was captured.
    pub bytes: Vec<u8>,
}

/// Why a capture can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CaptureError {
    /// Something else.
    #[error("not a capture; pcap and pcapng files are read")]
    NotACapture,
    /// Frames of another kind.
    #[error("link type {0}: only Ethernet (1) can be judged")]
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
    /// How an interface of the newer format counts time.
    interfaces: Vec<Clock>,
    frames: u64,
    room: usize,
    last: Nanos,
}

/// Units in a second, and seconds to add.
#[derive(Clone, Copy)]
struct Clock {
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
        Ok(Self { reader, fraction: 1_000, interfaces: Vec::new(), frames: 0, room, last: Nanos(0) })
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
                            check_link(header.network)?;
                            self.fraction = if header.is_nanosecond_precision() { 1 } else { 1_000 };
                            Step::Other
                        }
                        PcapBlockOwned::Legacy(block) => {
                            self.frames += 1;
                            let nanos = u64::from(block.ts_usec) * self.fraction;
                            let time = u64::from(block.ts_sec) * Nanos::SECOND.0 + nanos;
                            self.last = Nanos(time);
                            Step::Frame(frame(self.frames, self.last, block.origlen, block.data))
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
    interfaces: &mut Vec<Clock>,
    frames: &mut u64,
    last: &mut Nanos,
) -> Result<Step, CaptureError> {
    match block {
        Block::SectionHeader(_) => interfaces.clear(),
        Block::InterfaceDescription(interface) => {
            check_link(interface.linktype)?;
            let resolution = resolution(interface.if_tsresol)?;
            interfaces.push(Clock { resolution, offset: interface.ts_offset() });
        }
        Block::EnhancedPacket(packet) => {
            *frames += 1;
            let clock = interfaces.get(packet.if_id as usize).ok_or(CaptureError::Broken(*frames))?;
            *last = clock.nanos(u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low));
            let bytes = packet.data.get(..packet.caplen as usize).ok_or(CaptureError::Broken(*frames))?;
            return Ok(Step::Frame(frame(*frames, *last, packet.origlen, bytes)));
        }
        Block::SimplePacket(packet) => {
            *frames += 1;
            let there = packet.data.len().min(packet.origlen as usize);
            let bytes = packet.data.get(..there).unwrap_or_default();
            return Ok(Step::Frame(frame(*frames, *last, packet.origlen, bytes)));
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

impl Clock {
    /// Saturates outside the times that 64 bits of nanoseconds hold.
    fn nanos(self, units: u64) -> Nanos {
        let resolution = u128::from(self.resolution.max(1));
        let nanos = u128::from(units) * u128::from(Nanos::SECOND.0) / resolution;
        let offset = i128::from(self.offset) * i128::from(Nanos::SECOND.0);
        let sum = i128::try_from(nanos).unwrap_or(i128::MAX).saturating_add(offset);
        Nanos(u64::try_from(sum.max(0)).unwrap_or(u64::MAX))
    }
}

fn frame(number: u64, time: Nanos, wire_length: u32, bytes: &[u8]) -> CapturedFrame {
    let wire_length = u64::from(wire_length).max(bytes.len() as u64);
    CapturedFrame { number, time, wire_length, bytes: bytes.to_vec() }
}

fn check_link(kind: Linktype) -> Result<(), CaptureError> {
    // The other bits say whether frames have their check sequences, and how long these are.
    let kind = kind.0 & 0xffff;
    if kind == Linktype::ETHERNET.0 { Ok(()) } else { Err(CaptureError::LinkType(kind)) }
}
