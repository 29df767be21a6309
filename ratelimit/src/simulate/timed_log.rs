//! When the requests of a log came. Logs are nearly in order, but not wholly: a request is logged when it ends, files
//! are put together, and a clock may have been wrong. Time never goes back, and no odd line carries it away.

use std::{
    collections::VecDeque,
    io::{self, BufRead},
};

use ratelimit_common::time::Nanos;

use super::access_log::{AccessLog, LogLine};

/// Further away from the lines around it, a line's time is worth a look.
const FAR: Nanos = Nanos::from_secs(60);

/// Lines that are asked whether a time far ahead is the log's.
const WITNESSES: usize = 16;

/// Lines of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NotedLines {
    /// How many there are.
    pub count: u64,
    /// The number of the first.
    pub first: Option<u64>,
}

/// Requests whose own time is not the one that they are judged at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Disorder {
    /// Those before one that stands earlier in the log, by however little.
    pub late: NotedLines,
    /// Those that are late by more than a minute.
    pub very_late: NotedLines,
    /// Those more than a minute ahead of what stands before them and of most that follows.
    pub ahead: NotedLines,
}

/// A log, and the time at which each of its requests is judged.
#[derive(Debug)]
pub struct TimedLog<R> {
    log: AccessLog<R>,
    /// Lines that have been read as witnesses.
    waiting: VecDeque<(u64, LogLine)>,
    now: Option<Nanos>,
    disorder: Disorder,
}

impl NotedLines {
    /// One more.
    pub fn note(&mut self, line: u64) {
        self.count += 1;
        self.first.get_or_insert(line);
    }
}

impl<R: BufRead> TimedLog<R> {
    /// A log from its beginning.
    pub fn new(log: AccessLog<R>) -> Self {
        Self { log, waiting: VecDeque::new(), now: None, disorder: Disorder::default() }
    }

    /// The next line with its number; `None` at the end.
    ///
    /// # Errors
    /// The log can't be read.
    pub fn next_line(&mut self) -> io::Result<Option<(u64, LogLine)>> {
        let next = match self.waiting.pop_front() {
            Some(line) => Some(line),
            None => self.log.next_line()?,
        };
        if let Some((number, LogLine::Request(request))) = &next {
            self.advance(*number, request.time)?;
        }
        Ok(next)
    }

    /// The time of the request that came last: its own, unless it is noted as disorder.
    pub fn now(&self) -> Nanos {
        self.now.unwrap_or_default()
    }

    /// What was not in order so far.
    pub const fn disorder(&self) -> &Disorder {
        &self.disorder
    }

    fn advance(&mut self, line: u64, time: Nanos) -> io::Result<()> {
        match self.now {
            Some(now) if time < now => {
                self.disorder.late.note(line);
                if time.0.saturating_add(FAR.0) < now.0 {
                    self.disorder.very_late.note(line);
                }
            }
            Some(now) if time.0 - now.0 <= FAR.0 => self.now = Some(time),
            _ => match self.contradiction(time)? {
                Some(earlier) => {
                    self.disorder.ahead.note(line);
                    self.now = self.now.max(Some(earlier));
                }
                None => self.now = Some(time),
            },
        }
        Ok(())
    }

    /// The earliest of the lines that follow, if most of them are far from having come to this time.
    fn contradiction(&mut self, time: Nanos) -> io::Result<Option<Nanos>> {
        while self.waiting.len() < WITNESSES {
            let Some(line) = self.log.next_line()? else { break };
            self.waiting.push_back(line);
        }
        let times = self.waiting.iter().filter_map(|(_, line)| match line {
            LogLine::Request(request) => Some(request.time),
            LogLine::Unread => None,
        });
        let (earlier, others): (Vec<Nanos>, Vec<Nanos>) =
            times.partition(|at| at.0.saturating_add(FAR.0) < time.0);
        let is_odd = earlier.len() > others.len();
        Ok(earlier.into_iter().min().filter(|_| is_odd))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600;

    /// At which seconds of a day requests that were logged at these are judged, and what was noted.
    fn judged(seconds: &[u64]) -> (Vec<u64>, Disorder) {
        let line = |second: &u64| {
            let (day, hour, minute) = (second / 86_400 + 1, second / HOUR % 24, second / 60 % 60);
            let time = format!("{day:02}/Jan/1970:{hour:02}:{minute:02}:{:02} +0000", second % 60);
            format!("192.0.2.1 - - [{time}] \"GET / HTTP/1.1\" 200 1\nno line of a log\n")
        };
        let text: String = seconds.iter().map(line).collect();
        let mut log = TimedLog::new(AccessLog::new(text.as_bytes()));
        let mut found = Vec::new();
        while let Some((_, line)) = log.next_line().unwrap() {
            if line != LogLine::Unread {
                found.push(log.now().0 / Nanos::SECOND.0);
            }
        }
        (found, *log.disorder())
    }

    fn noted(count: u64, first: u64) -> NotedLines {
        NotedLines { count, first: Some(first) }
    }

    #[test]
    fn time_is_the_logs_and_stands_still_for_requests_that_ended_later() {
        let (found, disorder) = judged(&[10, 20, 15, 18, 21]);
        assert_eq!(found, [10, 20, 20, 20, 21]);
        assert_eq!(disorder, Disorder { late: noted(2, 5), ..Disorder::default() });
    }

    #[test]
    fn a_line_far_ahead_of_its_neighbours_does_not_move_time() {
        for odd in [200, 20 * 86_400] {
            let (found, disorder) = judged(&[10, 11, odd, 12, 13, odd, odd, 14, 15, 16]);
            assert_eq!(found, [10, 11, 12, 12, 13, 14, 14, 14, 15, 16], "{odd}");
            assert_eq!(disorder, Disorder { ahead: noted(3, 5), ..Disorder::default() }, "{odd}");
        }
    }

    #[test]
    fn the_first_line_may_be_the_odd_one() {
        let (found, disorder) = judged(&[HOUR, 10, 11, 12]);
        assert_eq!((found, disorder.ahead), (vec![10, 10, 11, 12], noted(1, 1)));
    }

    #[test]
    fn a_gap_that_all_that_follows_agrees_with_is_one() {
        let night = 8 * HOUR;
        assert_eq!(judged(&[10, night, night + 1]), (vec![10, night, night + 1], Disorder::default()));
        assert_eq!(judged(&[10, night]), (vec![10, night], Disorder::default()), "nobody contradicts");
        assert_eq!(judged(&[10, night, 20 * HOUR]).0, [10, night, 20 * HOUR]);
    }

    #[test]
    fn an_older_file_behind_a_newer_one_is_noted() {
        let (found, disorder) = judged(&[HOUR, HOUR + 1, 10, 11, HOUR]);
        assert_eq!(found, [HOUR, HOUR + 1, HOUR + 1, HOUR + 1, HOUR + 1]);
        assert_eq!((disorder.late, disorder.very_late), (noted(3, 5), noted(2, 5)));
    }
}
