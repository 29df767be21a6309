//! Recorded arrivals through limits, and captures through rules: what would have been decided, on a clock that comes from
//! the recording alone.
//!
//! Arrivals run through the [`Limiter`](crate::limiter::Limiter), captures through the XDP program's own stages, so what
//! it says is what these do.

mod arrivals;
mod capture;
mod engine;
mod line;
mod report;
mod seconds;
mod tally;
mod trial;

pub use self::{
    arrivals::{Arrival, ArrivalError, Arrivals, LineError},
    capture::{Capture, CaptureError, CapturedFrame},
    engine::{Engine, Host, Kernel, Verdict, compile_for},
    line::{write_json, write_json_summary, write_text},
    report::{CaptureSummary, FrameReport, Frames, RuleSummary, Tally, report},
    seconds::{Seconds, SecondsError, parse_seconds},
    tally::Summary,
    trial::Trial,
};
