//! The frame as the parser reads it.

use core::{arch::asm, ffi::c_void, hint::assert_unchecked, mem::MaybeUninit};

use aya_ebpf::{
    EbpfContext as _,
    bindings::xdp_md,
    helpers::generated::{bpf_xdp_get_buff_len, bpf_xdp_load_bytes},
    programs::XdpContext,
};
use ratelimit_common::packet::{self, Flag, Frame, Packet};

use crate::dry_run;

/// The first buffer of a packet, and the length of all. `WHOLE`: whether more than the source address is read.
pub struct XdpFrame<const WHOLE: bool> {
    context: *mut c_void,
    start: usize,
    end: usize,
    length: u64,
}

impl<const WHOLE: bool> XdpFrame<WHOLE> {
    #[inline(always)]
    pub fn new(ctx: &XdpContext) -> Self {
        // SAFETY: the helper takes the program's own context.
        let length = unsafe { bpf_xdp_get_buff_len(ctx.ctx) };
        Self { context: ctx.as_ptr(), start: ctx.data(), end: ctx.data_end(), length }
    }

    /// All bytes of the packet, those in further buffers included.
    #[inline(always)]
    pub fn wire_length(&self) -> u64 {
        dry_run::wire_length().unwrap_or(self.length)
    }
}

impl<const WHOLE: bool> Frame for XdpFrame<WHOLE> {
    const IS_READ_WHOLE: bool = WHOLE;

    #[inline(always)]
    fn length(&self) -> u64 {
        self.length
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

/// Reads all that rules and people may ask of a packet into `packet`. An error says whether what is not IP hides something;
/// then `packet` has its VLAN tags.
#[inline(always)]
pub fn parse_whole(context: *mut xdp_md, packet: &mut Packet) -> Result<(), Flag> {
    match parse_into(context, packet) {
        IS_IP => Ok(()),
        hides => Err(hides),
    }
}

const IS_IP: u64 = 2;

/// A function with a symbol, so that it is verified once for all who call it. Returns [`IS_IP`], or whether what is not IP
/// hides something.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn parse_into(context: *mut xdp_md, packet: *mut Packet) -> u64 {
    // SAFETY: the caller's, or null, which it never is.
    let Some(packet) = (unsafe { packet.as_mut() }) else { return 0 };
    match packet::parse(&XdpFrame::<true>::new(&XdpContext::new(context))) {
        Ok(found) => {
            *packet = found;
            IS_IP
        }
        Err(not_ip) => {
            packet.vlans = not_ip.vlans;
            not_ip.hides
        }
    }
}

/// The same address, which the compiler must not compute a second time: the verifier would not know that one to be checked.
#[inline(always)]
fn address(address: usize) -> usize {
    let mut address = address;
    // SAFETY: the instruction changes nothing.
    unsafe { asm!("{0} = {0}", inout(reg) address, options(pure, nomem, nostack)) };
    address
}
