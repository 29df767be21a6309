//! The frame as the parser reads it.

use core::{arch::asm, ffi::c_void, hint::assert_unchecked, mem::MaybeUninit};

use aya_ebpf::{
    EbpfContext as _,
    bindings::xdp_md,
    helpers::generated::{bpf_xdp_get_buff_len, bpf_xdp_load_bytes},
    programs::XdpContext,
};
use ratelimit_common::{
    packet::{self, Chain, Flag, Frame, LinkLayer, Packet},
    verifier::opaque,
};

use crate::{dry_run, globals::globals, verified::verified_once};

/// The first buffer of a packet, and the length of all. `WHOLE`: whether more than the source address is read.
/// `ANY_LINK`: whether it may begin otherwise than with an Ethernet header.
pub struct XdpFrame<const WHOLE: bool, const ANY_LINK: bool = false> {
    context: *mut c_void,
    start: usize,
    end: usize,
    length: u64,
}

impl<const WHOLE: bool, const ANY_LINK: bool> XdpFrame<WHOLE, ANY_LINK> {
    #[inline(always)]
    pub fn new(ctx: &XdpContext) -> Self {
        // SAFETY: the helper takes the program's own context.
        Self::of_length(ctx, unsafe { bpf_xdp_get_buff_len(ctx.ctx) })
    }

    /// A frame whose length is known.
    #[inline(always)]
    pub fn of_length(ctx: &XdpContext, length: u64) -> Self {
        Self { context: ctx.as_ptr(), start: ctx.data(), end: ctx.data_end(), length }
    }

    /// All bytes of the packet, those in further buffers included, those of an outer tunnel not.
    #[inline(always)]
    pub fn wire_length(&self) -> u64 {
        dry_run::wire_length().unwrap_or(self.length.saturating_sub(packet::outer_length(self)))
    }
}

impl<const WHOLE: bool, const ANY_LINK: bool> Frame for XdpFrame<WHOLE, ANY_LINK> {
    const IS_READ_WHOLE: bool = WHOLE;

    #[inline(always)]
    fn link(&self) -> LinkLayer {
        if ANY_LINK { LinkLayer::of(globals().link) } else { LinkLayer::Ethernet }
    }

    #[inline(always)]
    fn length(&self) -> u64 {
        self.length
    }

    #[inline(always)]
    fn follow(&self, chain: &mut Chain) -> bool {
        follow(self.context.cast(), chain)
    }

    #[inline(always)]
    fn read<const N: usize>(&self, offset: usize) -> Option<&[u8; N]> {
        let address = address(self.start + offset);
        // SAFETY: no packet lies at address zero.
        unsafe { assert_unchecked(address != 0) };
        if address + N > self.end {
            return None;
        }
        // SAFETY: the bytes lie between the packet's start and end, as just checked.
        Some(unsafe { &*(address as *const [u8; N]) })
    }

    #[inline(always)]
    fn read_far<const N: usize>(&self, offset: usize) -> Option<[u8; N]> {
        if let Some(bytes) = self.read(offset) {
            return Some(*bytes);
        }
        let mut bytes = MaybeUninit::<[u8; N]>::uninit();
        // SAFETY: the helper writes `N` bytes, or says that it could not.
        let failed = unsafe {
            bpf_xdp_load_bytes(self.context.cast(), offset as u32, bytes.as_mut_ptr().cast(), N as u32)
        };
        // SAFETY: they are written.
        if failed == 0 { Some(unsafe { bytes.assume_init() }) } else { None }
    }
}

/// Reads all that rules and people may ask of a packet into `packet`. An error says whether what is not IP hides
/// something; then `packet` has its VLAN tags.
#[inline(always)]
pub fn parse_whole(context: *mut xdp_md, packet: &mut Packet) -> Result<(), Flag> {
    let start = read_link(context, packet);
    if !start.is_there() {
        return Err(start.hides());
    }
    if read_packet(context, packet, start) { Ok(()) } else { Err(0) }
}

/// The type of a packet and where it begins, or that there is none.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct PacketStart(u64);

impl PacketStart {
    const NONE: u64 = 1 << 32;

    /// The one with this number.
    #[inline(always)]
    pub const fn from_number(number: u64) -> Self {
        Self(number)
    }

    /// Its number.
    #[inline(always)]
    pub const fn number(self) -> u64 {
        self.0
    }

    /// There is none; whether the frame hides one.
    #[inline(always)]
    const fn none(hides: Flag) -> Self {
        Self(Self::NONE | hides)
    }

    #[inline(always)]
    const fn of(kind: u16, offset: usize) -> Self {
        Self((kind as u64) << 16 | offset as u64)
    }

    #[inline(always)]
    const fn is_there(self) -> bool {
        self.0 < Self::NONE
    }

    #[inline(always)]
    fn hides(self) -> Flag {
        opaque(self.0) & 1
    }

    #[inline(always)]
    const fn kind(self) -> u16 {
        (self.0 >> 16) as u16
    }

    /// The mask tells the verifier how far it may be.
    #[inline(always)]
    fn offset(self) -> usize {
        opaque(self.0) as usize & 0xff
    }
}

// Side by side, so that they share their stack.

verified_once! {
    fn read_link(context: *mut xdp_md, packet: &mut Packet) -> PacketStart {
        match packet::read_link(&XdpFrame::<true, true>::new(&XdpContext::new(context)), &mut packet.vlans) {
            Ok((kind, offset)) => PacketStart::of(kind, offset),
            Err(hides) => PacketStart::none(hides),
        }
    } else PacketStart::none(0);
}

verified_once! {
    /// Whether it is IP.
    fn read_packet(context: *mut xdp_md, packet: &mut Packet, start: PacketStart) -> bool {
        let frame = XdpFrame::<true, true>::new(&XdpContext::new(context));
        packet::read_packet(&frame, start.kind(), start.offset(), packet)
    } else false;
}

verified_once! {
    /// Whether there may be a further extension header.
    fn follow(context: *mut xdp_md, chain: &mut Chain) -> bool {
        chain.follow(&XdpFrame::<true, true>::new(&XdpContext::new(context)))
    } else false;
}

/// The same address, which the compiler must not compute a second time: the verifier would not know that one to be
/// checked.
#[inline(always)]
fn address(address: usize) -> usize {
    let mut address = address;
    // SAFETY: the instruction changes nothing.
    unsafe { asm!("{0} = {0}", inout(reg) address, options(pure, nomem, nostack)) };
    address
}
