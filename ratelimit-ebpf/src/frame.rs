//! The frame as the parser reads it.

use aya_ebpf::{helpers::generated::bpf_xdp_get_buff_len, programs::XdpContext};
use ratelimit_common::packet::Frame;

/// The first buffer of a packet, and the length of all.
pub struct XdpFrame {
    start: usize,
    end: usize,
    wire_length: u64,
}

impl XdpFrame {
    #[inline(always)]
    pub fn new(ctx: &XdpContext) -> Self {
        // SAFETY: the helper takes the program's own context.
        let wire_length = unsafe { bpf_xdp_get_buff_len(ctx.ctx) };
        Self { start: ctx.data(), end: ctx.data_end(), wire_length }
    }

    /// All bytes of the packet, those in further buffers included.
    #[inline(always)]
    pub const fn wire_length(&self) -> u64 {
        self.wire_length
    }
}

impl Frame for XdpFrame {
    #[inline(always)]
    fn read<const N: usize>(&self, offset: usize) -> Option<&[u8; N]> {
        if self.start + offset + N > self.end {
            return None;
        }
        // SAFETY: the bytes lie between the packet's start and end, as just checked.
        Some(unsafe { &*((self.start + offset) as *const [u8; N]) })
    }
}
