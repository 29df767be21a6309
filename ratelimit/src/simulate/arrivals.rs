//! Reads arrivals, a line each: `SECONDS [KEY [COST]]`, in order of time. One line is in memory at a time.

use std::{
    fmt::Display,
    io::{self, BufRead, Read as _},
    str,
};

use ratelimit_common::time::Nanos;

use super::seconds::{Seconds, SecondsError, parse_seconds};

/// One request as it was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival<'a> {
    /// When it came, since the Unix epoch.
    pub at: Nanos,
    /// The same as it was written.
    pub seconds: &'a str,
    /// Whose request it is.
    pub key: &'a [u8],
    /// What it takes.
    pub cost: u32,
}

/// The key of an arrival without one.
const NO_KEY: &[u8] = b"-";

/// Longer lines are no arrivals.
const LONGEST_LINE: usize = 64 * 1024;

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// Its time.
    #[error("`{text}`: {error}")]
    Seconds {
        /// As written.
        text: String,
        /// What is wrong with it.
        error: SecondsError,
    },
    /// Its cost.
    #[error("`{0}` is not a cost; it must be a whole number up to 4294967295")]
    Cost(String),
    /// Too many words.
    #[error("`{0}` is too much; a line is SECONDS [KEY [COST]]")]
    Surplus(String),
    /// Its time is before that of the line before.
    #[error("{} is earlier than the line before, {}; lines must be in order of time", Seconds(*.0), Seconds(*.1))]
    NotAscending(Nanos, Nanos),
    /// It never ends.
    #[error("longer than {LONGEST_LINE} bytes")]
    TooLong,
}

/// Arrivals can't be read.
#[derive(Debug, thiserror::Error)]
pub enum ArrivalError {
    /// A line is wrong.
    #[error("{file}:{line}: {error}")]
    Line {
        /// The file's name.
        file: String,
        /// The line's number, from one.
        line: u64,
        /// What is wrong.
        error: LineError,
    },
    /// The file can't be read.
    #[error("{file}: {error}")]
    Read {
        /// The file's name.
        file: String,
        /// Why.
        error: io::Error,
    },
}

/// Arrivals from a file.
#[derive(Debug)]
pub struct Arrivals<R> {
    reader: R,
    file: String,
    line: Vec<u8>,
    number: u64,
    last: Nanos,
}

impl<R: BufRead> Arrivals<R> {
    /// Arrivals from `reader`; errors call it `file`.
    pub fn new(reader: R, file: impl Display) -> Self {
        Self { reader, file: file.to_string(), line: Vec::new(), number: 0, last: Nanos(0) }
    }

    /// The next arrival; `None` at the end. Lines of white space are passed over.
    ///
    /// # Errors
    /// The file can't be read, or the line is wrong.
    pub fn next_arrival(&mut self) -> Result<Option<Arrival<'_>>, ArrivalError> {
        loop {
            if !self.read_line()? {
                return Ok(None);
            }
            if !self.line.trim_ascii().is_empty() {
                break;
            }
        }
        match parse(&self.line, self.last) {
            Ok(arrival) => {
                self.last = arrival.at;
                Ok(Some(arrival))
            }
            Err(error) => Err(wrong(&self.file, self.number, error)),
        }
    }

    /// False at the end.
    fn read_line(&mut self) -> Result<bool, ArrivalError> {
        self.line.clear();
        self.number += 1;
        let mut bounded = self.reader.by_ref().take(LONGEST_LINE as u64 + 1);
        let read = bounded.read_until(b'\n', &mut self.line);
        let length = read.map_err(|error| ArrivalError::Read { file: self.file.clone(), error })?;
        if self.line.len() > LONGEST_LINE {
            return Err(wrong(&self.file, self.number, LineError::TooLong));
        }
        Ok(length > 0)
    }
}

fn wrong(file: &str, line: u64, error: LineError) -> ArrivalError {
    ArrivalError::Line { file: file.to_owned(), line, error }
}

fn parse(line: &[u8], last: Nanos) -> Result<Arrival<'_>, LineError> {
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let word = words.next().unwrap_or_default();
    let wrong_time = |error| LineError::Seconds { text: String::from_utf8_lossy(word).into_owned(), error };
    let seconds = str::from_utf8(word).map_err(|_| wrong_time(SecondsError::NotDecimal))?;
    let at = parse_seconds(seconds).map_err(wrong_time)?;
    let key = words.next().unwrap_or(NO_KEY);
    let cost = words.next().map_or(Ok(1), parse_cost)?;
    if let Some(word) = words.next() {
        return Err(LineError::Surplus(String::from_utf8_lossy(word).into_owned()));
    }
    if at < last {
        return Err(LineError::NotAscending(at, last));
    }
    Ok(Arrival { at, seconds, key, cost })
}

fn parse_cost(word: &[u8]) -> Result<u32, LineError> {
    // The standard parser takes a plus sign.
    let digits = Some(word).filter(|word| word.iter().all(u8::is_ascii_digit));
    let cost = digits.and_then(|word| str::from_utf8(word).ok()).and_then(|text| text.parse().ok());
    cost.ok_or_else(|| LineError::Cost(String::from_utf8_lossy(word).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Row = (u64, String, Vec<u8>, u32);

    fn read(text: &[u8]) -> Result<Vec<Row>, String> {
        let mut arrivals = Arrivals::new(text, "arrivals.txt");
        let mut rows = Vec::new();
        while let Some(Arrival { at, seconds, key, cost }) =
            arrivals.next_arrival().map_err(|error| error.to_string())?
        {
            rows.push((at.0, seconds.to_owned(), key.to_owned(), cost));
        }
        Ok(rows)
    }

    #[test]
    fn lines_have_up_to_three_words() {
        let text = b"0\n 0.50\tclient \r\n\n1 \xff\xfe 0\n1 x 4294967295";
        let row = |at, seconds: &str, key: &[u8], cost| (at, seconds.to_owned(), key.to_owned(), cost);
        let rows = [
            row(0, "0", b"-", 1),
            row(500_000_000, "0.50", b"client", 1),
            row(1_000_000_000, "1", b"\xff\xfe", 0),
            row(1_000_000_000, "1", b"x", u32::MAX),
        ];
        assert_eq!(read(text).unwrap(), rows);
        assert_eq!(read(b"").unwrap(), []);
        assert_eq!(read(b"\n \n").unwrap(), []);
    }

    #[test]
    fn wrong_lines_are_named() {
        let cases: [(&[u8], &str); 9] = [
            (b"0\n\nx\n", "arrivals.txt:3: `x`: not a decimal"),
            (b"1\n0.999\n", "arrivals.txt:2: 0.999 is earlier than the line before, 1; lines"),
            (b"-1\n", "arrivals.txt:1: `-1`: a time before"),
            (b"0 k 4294967296\n", "arrivals.txt:1: `4294967296` is not a cost"),
            (b"0 k -1\n", "arrivals.txt:1: `-1` is not a cost"),
            (b"0 k +1\n", "arrivals.txt:1: `+1` is not a cost"),
            (b"0 k 1.5\n", "arrivals.txt:1: `1.5` is not a cost"),
            (b"0 k 1 more\n", "arrivals.txt:1: `more` is too much"),
            (b"\xff\n", "arrivals.txt:1: `\u{fffd}`: not a decimal"),
        ];
        for (text, expected) in cases {
            let error = read(text).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn a_line_without_end_is_not_read_to_its_end() {
        let mut endless = io::repeat(b'1');
        let mut arrivals = Arrivals::new(io::BufReader::new(&mut endless), "-");
        assert_eq!(arrivals.next_arrival().unwrap_err().to_string(), "-:1: longer than 65536 bytes");
    }
}
