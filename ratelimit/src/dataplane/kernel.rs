//! Values as bytes of the kernel's maps.

use aya::Pod;
use ratelimit_common::wire::{
    Counter, DryRun, Globals, META_BYTES, MOST_LIMITS, Rule, RuleCounters, TableCounters,
};

/// A type that crosses the kernel boundary.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(super) struct Wire<T>(pub T);

/// Types without padding, of which any bytes that the kernel holds are a value.
trait Plain: Copy + 'static {}

impl Plain for Counter {}
impl Plain for RuleCounters {}
impl Plain for TableCounters {}
impl Plain for Globals {}
impl Plain for Rule {}
impl Plain for DryRun {}
impl Plain for [u8; META_BYTES] {}
impl Plain for [u8; MOST_LIMITS * size_of::<Rule>()] {}

// SAFETY: a transparent wrapper of a type without padding. `Rule` is only written, never read back.
unsafe impl<T: Plain> Pod for Wire<T> {}

impl Wire<Rule> {
    pub(super) fn as_bytes(&self) -> &[u8] {
        // SAFETY: the type has no padding.
        unsafe { std::slice::from_raw_parts(std::ptr::from_ref(self).cast(), size_of::<Self>()) }
    }
}
