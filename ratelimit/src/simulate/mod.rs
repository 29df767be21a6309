//! Recorded arrivals through limits: what a limit would have decided, on a clock that comes from the recording alone.
//!
//! It runs the [`Limiter`](crate::limiter::Limiter), so what it says is what the limiter does.

mod arrivals;
mod line;
mod seconds;
mod tally;
mod trial;

pub use self::{
    arrivals::{Arrival, ArrivalError, Arrivals, LineError},
    line::{write_json, write_json_summary, write_text},
    seconds::{Seconds, SecondsError, parse_seconds},
    tally::Summary,
    trial::Trial,
};
