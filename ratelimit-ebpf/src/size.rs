//! How large a frame is, in both units that limits and counters have.

use aya_ebpf::{bindings::xdp_md, helpers::generated::bpf_check_mtu, programs::XdpContext};
use ratelimit_common::{
    packet::{LEAST_MTU, LinkLayer, packets_in},
    pipeline::FrameSize,
    verifier,
};

use crate::{frame::XdpFrame, globals::globals, verified::verified_once};

/// A frame's size.
#[inline(always)]
pub fn of(context: *mut xdp_md) -> FrameSize {
    if joins() { measure(context) } else { FrameSize(wire_length::<false>(context)) }
}

/// The same, taken apart only here.
#[inline(always)]
pub fn in_order(size: FrameSize) -> FrameSize {
    FrameSize(verifier::in_order(size.0))
}

/// Whether a frame may stand for several packets.
#[inline(always)]
fn joins() -> bool {
    globals().joins != 0
}

/// Packets and bytes.
#[inline(always)]
pub fn parts(size: FrameSize) -> (u64, u64) {
    // Where frames stand for one packet each there is nothing to take apart.
    if joins() { (size.joined(), size.bytes()) } else { (1, size.0) }
}

/// As how many packets it counts.
#[inline(always)]
pub fn packets(size: FrameSize) -> u64 {
    // So the verifier knows the number where frames stand for one packet each.
    if joins() { size.joined() } else { 1 }
}

/// The bytes of one of its packets.
#[inline(always)]
pub fn bytes_each(size: FrameSize) -> u64 {
    size.bytes() / packets(size).max(1)
}

#[inline(always)]
fn wire_length<const ANY_LINK: bool>(context: *mut xdp_md) -> u64 {
    XdpFrame::<false, ANY_LINK>::new(&XdpContext::new(context)).wire_length()
}

verified_once! {
    /// Measures a frame to which several packets may have been joined, by the MTU that its interface has now. A
    /// function of its own, so that its stack is free again.
    fn measure(context: *mut xdp_md) -> FrameSize {
        let link = LinkLayer::of(globals().link);
        let bytes = wire_length::<true>(context) & FrameSize::BYTES;
        let mut mtu = 0;
        if bytes <= LEAST_MTU {
            return FrameSize::of(bytes, 1);
        }
        // SAFETY: the helper takes the program's own context and writes the number; whether the frame would fit is of
        // no interest. Zero is the interface that it came on.
        unsafe { bpf_check_mtu(context.cast(), 0, &mut mtu, 0, 0) };
        FrameSize::of(bytes, packets_in(bytes, mtu.into(), link))
    } else FrameSize(0);
}
