//! Memory for the largest table, reserved at once, so that its address never changes. Pages that are not touched cost
//! nothing.

use std::{ops::Deref, slice, sync::atomic::AtomicU64};

use memmap2::{Advice, MmapOptions, MmapRaw};
use ratelimit_common::table::SLOTS;

/// A slot's words.
#[derive(Debug, Default)]
#[repr(C)]
pub struct SlotWords {
    /// Whose bucket it is.
    pub key: AtomicU64,
    /// The bucket.
    pub state: AtomicU64,
}

/// A set's slots: two cache lines.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct ReservedSet(pub [SlotWords; SLOTS]);

/// Sets of zeros.
#[derive(Debug)]
pub struct Reserve {
    memory: MmapRaw,
    sets: usize,
}

impl Reserve {
    /// Room for `sets`; `None` if there is no address space for so many.
    pub fn new(sets: u64) -> Option<Self> {
        let sets = usize::try_from(sets).ok().filter(|&sets| sets > 0)?;
        let bytes = sets.checked_mul(size_of::<ReservedSet>())?;
        let memory = MmapRaw::from(MmapOptions::new().len(bytes).no_reserve_swap().map_anon().ok()?);
        // With large pages a random look-up finds its page sooner. A system that has none works too.
        let _ = memory.advise(Advice::HugePage);
        Some(Self { memory, sets })
    }

    /// Starts to read a set, so that a key's two sets take as long as one.
    #[inline]
    pub fn prefetch(set: &ReservedSet) {
        #[cfg(target_arch = "x86_64")]
        for slot in [&set.0[0], &set.0[SLOTS / 2]] {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: every x86-64 has the instruction, and it changes nothing that the program sees.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(slot).cast()) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = set;
    }
}

impl Deref for Reserve {
    type Target = [ReservedSet];

    #[inline]
    fn deref(&self) -> &[ReservedSet] {
        // SAFETY: the mapping is this long, aligned to pages, and written through these atomics only; it is mapped as
        // long as `self` lives, and the zeros that it began with are valid sets.
        unsafe { slice::from_raw_parts(self.memory.as_mut_ptr().cast(), self.sets) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn sets_are_empty_and_as_many_as_asked_for() {
        let reserve = Reserve::new(100).unwrap();
        assert_eq!(reserve.len(), 100);
        for (number, set) in reserve.iter().enumerate() {
            for slot in &set.0 {
                assert_eq!((slot.key.load(Ordering::Relaxed), slot.state.load(Ordering::Relaxed)), (0, 0));
                slot.key.store(number as u64, Ordering::Relaxed);
            }
        }
        assert!(reserve[99].0.iter().all(|slot| slot.key.load(Ordering::Relaxed) == 99));
    }

    #[test]
    fn more_than_the_address_space_is_refused() {
        assert!(Reserve::new(1 << 57).is_none());
        assert!(Reserve::new(1 << 50).is_none());
        assert!(Reserve::new(u64::MAX).is_none());
        assert!(Reserve::new(0).is_none());
    }
}
