//! Windows of real time. Those of an hour, a day or a week end with the hour, and with them the counts that a test is
//! about.

use std::{
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

const HOUR: u64 = 3_600;
/// Longer than a test takes that counts in one.
const LONGEST: Duration = Duration::from_secs(60);

/// Waits for the next hour if this one is about to end.
pub fn wait_for_whole_ones() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let left = Duration::from_secs(HOUR - now.as_secs() % HOUR);
    if left < LONGEST {
        thread::sleep(left); // tidy: sleep, only time ends an hour
    }
}
