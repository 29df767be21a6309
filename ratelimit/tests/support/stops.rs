//! The end of what goes on beside a test.

use std::sync::atomic::{AtomicBool, Ordering};

/// Tells threads to stop, however the test ends: one that fails would wait for them for ever.
pub struct StopsAtEnd<'s>(pub &'s AtomicBool);

impl Drop for StopsAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
