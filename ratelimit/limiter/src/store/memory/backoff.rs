//! Waiting for another thread that is about to be done.

use std::{hint, thread};

/// Waits a little longer each time, then lets other threads run.
#[derive(Debug, Default)]
pub struct Backoff {
    tries: u32,
}

impl Backoff {
    /// More than this many in a row, and the thread that is waited for may not be running.
    const SPINS: u32 = 6;

    /// Waits.
    #[cold]
    pub fn wait(&mut self) {
        if self.tries < Self::SPINS {
            for _ in 0..1 << self.tries {
                hint::spin_loop();
            }
            self.tries += 1;
        } else {
            thread::yield_now();
        }
    }
}
