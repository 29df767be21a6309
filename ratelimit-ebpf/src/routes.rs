//! Where the host would send a packet.

use aya_ebpf::{
    bindings::{
        BPF_FIB_LKUP_RET_FRAG_NEEDED, BPF_FIB_LKUP_RET_NO_NEIGH, BPF_FIB_LKUP_RET_SUCCESS,
        BPF_FIB_LKUP_RET_UNSUPP_LWT, bpf_fib_lookup, xdp_md,
    },
    helpers::generated,
};
use ratelimit_common::packet::{LinkLayer, Packet};

use crate::{globals::globals, verified::verified_once};

const AF_INET6: u8 = 10;
/// The first ten bits of such an address.
const LINK_LOCAL: u64 = 0xfe80 >> 6;

verified_once! {
    /// Whether the host would forward this IPv6 packet, by its routes: not what is for itself, nor what is link-local
    /// or multicast, nor anything if it is no router. A function of its own, with a symbol, because the kernel's
    /// question needs stack.
    ///
    /// In a tunnel with many others a router sends on what is for a link-local address of one of these. There nobody's
    /// address has to be found, so what is for one may have to wait.
    pub fn forwards(context: *mut xdp_md, packet: &Packet) -> bool {
        if globals().link != LinkLayer::Ethernet as u32 && packet.destination.bits[0] >> 54 == LINK_LOCAL {
            return true;
        }
        // SAFETY: all of it are numbers.
        let mut asked: bpf_fib_lookup = unsafe { core::mem::zeroed() };
        asked.family = AF_INET6;
        // SAFETY: a program's context is never null.
        asked.ifindex = unsafe { (*context).ingress_ifindex };
        asked.__bindgen_anon_3.ipv6_src = words(packet.source.bits);
        asked.__bindgen_anon_4.ipv6_dst = words(packet.destination.bits);
        let length = size_of::<bpf_fib_lookup>() as i32;
        // SAFETY: the helper reads and writes as many bytes as it is told, which are all there.
        let answer = unsafe { generated::bpf_fib_lookup(context.cast(), &raw mut asked, length, 0) };
        let Ok(answer) = u32::try_from(answer) else { return false };
        matches!(
            answer,
            BPF_FIB_LKUP_RET_SUCCESS
                | BPF_FIB_LKUP_RET_NO_NEIGH
                | BPF_FIB_LKUP_RET_FRAG_NEEDED
                | BPF_FIB_LKUP_RET_UNSUPP_LWT
        )
    } else false;
}

/// An address as it lies in a packet.
#[inline(always)]
fn words([high, low]: [u64; 2]) -> [u32; 4] {
    [(high >> 32) as u32, high as u32, (low >> 32) as u32, low as u32].map(u32::to_be)
}
