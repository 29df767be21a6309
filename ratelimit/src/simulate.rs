//! Recorded arrivals through limits, captures and access logs through rules: what would have been decided, on a clock
//! that comes from the recording alone.
//!
//! Arrivals run through the [`Limiter`](crate::limiter::Limiter), captures through the XDP program's own stages, logged
//! requests through the [`Service`](crate::application::Service), so what it says is what these do.

mod access_log;
mod arrivals;
mod capture;
mod engine;
mod line;
mod report;
mod requests;
mod seconds;
mod tally;
mod timed_log;
mod trial;

pub use self::{
    access_log::{AccessLog, LogLine, LoggedRequest},
    arrivals::{Arrival, ArrivalError, Arrivals, LineError},
    capture::{Capture, CaptureError, CapturedFrame},
    engine::{FrameEngine, FrameVerdict, HostEngine, KernelEngine, compile_for},
    line::{write_json, write_json_summary, write_text},
    report::{CaptureSummary, FrameCount, FrameReport, FrameTally, RuleSummary, report},
    requests::{RequestReport, RequestSummary, RequestTrial},
    seconds::{Seconds, SecondsError, parse_seconds},
    tally::Summary,
    timed_log::{Disorder, NotedLines, TimedLog},
    trial::LimitTrial,
};
