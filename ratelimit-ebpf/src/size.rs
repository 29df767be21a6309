//! How large a frame is, in both units that limits and counters have.

use aya_ebpf::{bindings::xdp_md, helpers::generated::bpf_check_mtu, programs::XdpContext};
use ratelimit_common::{
    packet::{LEAST_MTU, Link, packets_in},
    verifier::in_order,
};

use crate::{
    frame::XdpFrame,
    globals::{globals, joins},
};

/// Bytes, and packets in the upper half: one word, because the kernel has little stack. Functions with a symbol take it as
/// the number that it is.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Size(pub u64);

const BYTES: u64 = u32::MAX as u64;

impl Size {
    /// Of a frame.
    #[inline(always)]
    pub fn of(context: *mut xdp_md) -> Self {
        Self(if joins() { measure(context) } else { wire_length::<false>(context) })
    }

    /// The same, taken apart only here.
    #[inline(always)]
    pub fn in_order(self) -> Self {
        Self(in_order(self.0))
    }

    /// Its bytes on the wire; if several packets were joined, without the headers of all but the first.
    #[inline(always)]
    pub const fn bytes(self) -> u64 {
        self.0 & BYTES
    }

    /// The bytes of one of its packets.
    #[inline(always)]
    pub fn bytes_each(self) -> u64 {
        self.bytes() / self.packets().max(1)
    }

    /// As how many packets it counts.
    #[inline(always)]
    pub fn packets(self) -> u64 {
        // So the verifier knows the number where frames stand for one packet each.
        if joins() { self.0 >> 32 } else { 1 }
    }
}

#[inline(always)]
fn wire_length<const ANY_LINK: bool>(context: *mut xdp_md) -> u64 {
    XdpFrame::<false, ANY_LINK>::new(&XdpContext::new(context)).wire_length() & BYTES
}

/// Of a frame that several packets may have been joined to, by the MTU that its interface has now. A function of its own,
/// so that its stack is free again.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn measure(context: *mut xdp_md) -> u64 {
    let link = Link::of(globals().link);
    let bytes = wire_length::<true>(context);
    let mut mtu = 0;
    if bytes <= LEAST_MTU {
        return bytes | 1 << 32;
    }
    // SAFETY: the helper takes the program's own context and writes the number; whether the frame would fit is of no
    // interest. Zero is the interface that it came on.
    unsafe { bpf_check_mtu(context.cast(), 0, &mut mtu, 0, 0) };
    bytes | packets_in(bytes, mtu.into(), link) << 32
}
