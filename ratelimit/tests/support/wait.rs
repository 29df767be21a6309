//! Waiting for what will be, but not for long.

use std::{
    thread,
    time::{Duration, Instant},
};

/// How long anything may take on a busy machine, or in a virtual one that runs on it.
pub const LONGEST: Duration = Duration::from_secs(120);

/// Between two questions.
const PAUSE: Duration = Duration::from_millis(2);

/// Asks until there is an answer.
pub fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + LONGEST;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "in {LONGEST:?} not so: {what}");
        thread::sleep(PAUSE); // tidy: sleep, asking all the time takes the processor from what it waits for
    }
}
