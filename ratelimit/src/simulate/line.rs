//! An arrival and its decision as a line, for people or for programs.

use std::io::{self, Write};

use super::{arrivals::Arrival, seconds::Seconds, tally::Summary};
use crate::{limiter::Decision, text::ShownBytes};

/// `SECONDS KEY allow|deny remaining=N ...`.
///
/// # Errors
/// It can't be written.
pub fn write_text(out: &mut impl Write, arrival: &Arrival<'_>, decision: &Decision<'_>) -> io::Result<()> {
    write!(out, "{} {}", arrival.seconds, ShownBytes(arrival.key))?;
    let verdict = if decision.allowed() { "allow" } else { "deny" };
    write!(out, " {verdict} remaining={}", decision.remaining())?;
    if let Some(wait) = decision.retry_after() {
        write!(out, " retry_after={}", Seconds(wait))?;
    }
    if let Some(wait) = decision.leaves_after() {
        write!(out, " leaves_after={}", Seconds(wait))?;
    }
    if decision.never() {
        write!(out, " never=true")?;
    }
    writeln!(out)
}

/// The same as a JSON object. Its numbers are exact decimals.
///
/// # Errors
/// It can't be written.
pub fn write_json(out: &mut impl Write, arrival: &Arrival<'_>, decision: &Decision<'_>) -> io::Result<()> {
    write!(out, "{{\"seconds\":{},\"key\":", Seconds(arrival.at))?;
    serde_json::to_writer(&mut *out, &String::from_utf8_lossy(arrival.key))?;
    write!(out, ",\"allow\":{},\"remaining\":{}", decision.allowed(), decision.remaining())?;
    if let Some(wait) = decision.retry_after() {
        write!(out, ",\"retry_after\":{}", Seconds(wait))?;
    }
    if let Some(wait) = decision.leaves_after() {
        write!(out, ",\"leaves_after\":{}", Seconds(wait))?;
    }
    if decision.never() {
        write!(out, ",\"never\":true")?;
    }
    writeln!(out, "}}")
}

/// The sums over all arrivals as a JSON object.
///
/// # Errors
/// It can't be written.
pub fn write_json_summary(out: &mut impl Write, limit: &str, summary: &Summary) -> io::Result<()> {
    write!(out, "{{\"summary\":{{\"limit\":")?;
    serde_json::to_writer(&mut *out, limit)?;
    let Summary { allowed, denied, longest_wait, largest_burst } = *summary;
    write!(out, ",\"allowed\":{allowed},\"denied\":{denied},\"longest_wait\":{}", Seconds(longest_wait))?;
    writeln!(out, ",\"largest_burst\":{largest_burst}}}}}")
}
