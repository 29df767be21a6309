//! The heaviest sources, as samples tell: `ratelimit_common::sketch` in a map that user space reads by mmap.

use aya_ebpf::{
    bindings::BPF_F_MMAPABLE, helpers::generated::bpf_get_smp_processor_id, macros::map, maps::Array,
};
use ratelimit_common::{
    packet::Packet,
    sketch::{Group, SETS, Sample, SketchSet, first_set, stamp},
    table::Tag,
};

use crate::{bench, globals::globals, verified::verified_once};

#[map]
static SKETCH: Array<SketchSet> = Array::with_max_entries(1, BPF_F_MMAPABLE);

/// Counts a sample under its source, and in the sum of all; an IPv6 source also under its network of 64 bits, in which
/// one sender can have as many addresses as it likes.
#[inline(always)]
pub fn count(packet: Option<&Packet>, now: u64, is_drop: u64, weight: u64, bytes: u64) {
    // One for all, because the kernel has little stack.
    let mut sample = Sample { stamp: stamp(now, Group::All), source: [0; 2], weight, bytes };
    add_to_set(is_drop, &sample);
    let Some(packet) = packet else { return };
    let is_v4 = packet.source.family == 0;
    sample.source = bench::source(packet.source.bits);
    sample.stamp = stamp(now, if is_v4 { Group::V4 } else { Group::V6 });
    add_to_set(is_drop, &sample);
    if !is_v4 {
        sample.source[1] = 0;
        sample.stamp = stamp(now, Group::V6Network);
        add_to_set(is_drop, &sample);
    }
}

verified_once! {
        fn add_to_set(kind: u64, sample: &Sample) -> () {
        // SAFETY: the helper takes nothing.
        let processor = unsafe { bpf_get_smp_processor_id() };
        let set = if sample.stamp & 3 == Group::All as u64 {
            SETS
        } else {
            // With the secret: nobody outside can crowd one set.
            let secret = &globals().secret;
            let identity = secret.fold(sample.source[0], sample.source[1]);
            secret.key(Tag::new(0), identity).first() as u32 % SETS
        };
        let index = first_set(processor, sample.stamp, kind as u32) + set;
        if let Some(set) = SKETCH.get_ptr_mut(index) {
            // SAFETY: the map's own memory; only this processor writes these sets.
            unsafe { (*set).count(sample) };
        }
    } else ();
}
