//! Sources for benchmarks: the kernel's test run repeats one packet, so that many sources must come from here.

use crate::globals::globals;
use aya_ebpf::helpers::generated::bpf_get_prandom_u32;

/// The packet's own source, unless this generation is loaded for a benchmark.
#[inline(always)]
pub fn source(own: [u64; 2]) -> [u64; 2] {
    let sources = globals().random_sources as u64;
    if sources == 0 {
        return own;
    }
    // SAFETY: the helper takes nothing.
    let random = unsafe { bpf_get_prandom_u32() } as u64;
    [(random * sources >> 32) << 32, 0]
}
