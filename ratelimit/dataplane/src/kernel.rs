//! Values as bytes of the kernel's maps.

use aya::Pod;
use ratelimit_common::bans::TEXT_BYTES;
use ratelimit_common::wire::{
    CompiledRule, Counter, DropEvent, DryRun, EventCounters, Globals, META_BYTES, MOST_LIMITS, RuleCounters,
    Sampled, TableCounters,
};

/// A type that crosses the kernel boundary.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(super) struct Wire<T>(pub T);

/// Types without padding, of which any bytes that the kernel holds are a value.
trait Plain: Copy + 'static {}

impl Plain for u64 {}
impl Plain for Counter {}
impl Plain for RuleCounters {}
impl Plain for Sampled {}
impl Plain for EventCounters {}
impl Plain for TableCounters {}
impl Plain for Globals {}
impl Plain for CompiledRule {}
impl Plain for DryRun {}
impl Plain for [u8; META_BYTES] {}
impl Plain for [u8; TEXT_BYTES] {}
impl Plain for [u8; MOST_LIMITS * size_of::<CompiledRule>()] {}

// SAFETY: a transparent wrapper of a type without padding. `Rule` is only written, never read back.
unsafe impl<T: Plain> Pod for Wire<T> {}

/// An event, as it lies in the ring; `None` if it is none.
pub(super) fn event(bytes: &[u8]) -> Option<DropEvent> {
    let is_whole = bytes.len() == size_of::<DropEvent>();
    // SAFETY: it is as long as an event, which is made of numbers without padding; it need not be aligned.
    is_whole.then(|| unsafe { bytes.as_ptr().cast::<DropEvent>().read_unaligned() })
}

impl Wire<CompiledRule> {
    pub(super) fn as_bytes(&self) -> &[u8] {
        // SAFETY: the type has no padding.
        unsafe { std::slice::from_raw_parts(std::ptr::from_ref(self).cast(), size_of::<Self>()) }
    }
}
