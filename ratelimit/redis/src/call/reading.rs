//! What the script says: the server's time, what became of each request, and the states that its buckets had before.

use ratelimit_common::{
    algorithm::{outside, sliding_window_counter::WideState},
    limit::{Limit, StateKind},
    time::{Nanos, Now},
};
use ratelimit_limiter::store::{
    Log, State, WideRecord, Zero,
    remote::{Found, Reading},
};
use redis::Value;
use smallvec::SmallVec;

use super::{
    number::{Micros, ahead},
    request::ShardRequest,
};

/// Where the times of states begin that the limiter is given.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Epoch {
    pub(crate) zero: Zero,
    /// The same in nanoseconds since the Unix epoch.
    nanos: u64,
}

/// So much lies behind the present when an epoch begins: more than a clock steps back, and than a state can be old that
/// matters.
const BEHIND: Nanos = Nanos::from_secs(400 * 86_400);

/// When it is so much older, another one begins, long before 64 bits of ticks are full.
const OLDEST: u64 = 2 * Nanos::YEAR.0;

/// No state lies further ahead that a limit has written.
const FURTHEST: u64 = 2 * Nanos::YEAR.0;

/// What buckets were, as they are kept, mostly without memory of their own.
pub(crate) type StateTexts = SmallVec<[StateText; 2]>;
pub(crate) type StateText = SmallVec<[u8; 24]>;

/// What the script said about one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// It was decided, with these states before.
    Decided {
        /// Whether it was admitted.
        admitted: bool,
        /// What each bucket was, as it is kept.
        states: StateTexts,
    },
    /// It came too late, or too early for a clock that was set back.
    Late,
    /// The windows that it was asked with are not the present ones.
    OtherWindow,
    /// Something else is kept under a key, counted from 1.
    Foreign(usize),
}

/// The script's reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) now: Micros,
    pub(crate) said: Vec<Said>,
}

impl Reply {
    /// Reads a reply to so many buckets of each request; `None` if it is none of the script's.
    pub(crate) fn of(value: &Value, buckets: impl Iterator<Item = usize>) -> Option<Self> {
        let Value::Array(values) = value else { return None };
        let [Value::Int(now), Value::BulkString(letters), Value::BulkString(texts)] = &**values else {
            return None;
        };
        let mut texts = ReplyText(texts);
        let mut said = Vec::with_capacity(letters.len());
        let mut letters = letters.iter();
        for count in buckets {
            said.push(match letters.next()? {
                letter @ (b'A' | b'D') => {
                    let states = (0..count).map(|_| texts.text().map(StateText::from_slice));
                    Said::Decided { admitted: *letter == b'A', states: states.collect::<Option<_>>()? }
                }
                b'L' => Said::Late,
                b'W' => Said::OtherWindow,
                b'F' => Said::Foreign(digits(texts.text()?)?),
                _ => return None,
            });
        }
        Some(Self { now: Micros(u64::try_from(*now).ok()?), said })
    }
}

/// A number as decimal digits.
fn digits(text: &[u8]) -> Option<usize> {
    str::from_utf8(text).ok()?.parse().ok()
}

impl Epoch {
    /// One that begins long before this time.
    pub(crate) fn at(now: Micros) -> Self {
        let now = Nanos(now.0.saturating_mul(1_000));
        let behind = Now(Nanos(BEHIND.0.min(now.0)));
        Self { zero: Zero::at(now, behind, now), nanos: now.0 - behind.0.0 }
    }

    /// Whether times near this one are well within it.
    pub(crate) fn has(&self, now: Micros) -> bool {
        let since = now.0.saturating_mul(1_000).checked_sub(self.nanos);
        since.is_some_and(|since| (BEHIND.0 - 30 * 86_400 * Nanos::SECOND.0..=OLDEST).contains(&since))
    }

    /// A time since it began; zero if it lies before that.
    fn since(&self, micros: u64) -> Nanos {
        Nanos(micros.saturating_mul(1_000).saturating_sub(self.nanos))
    }

    /// What a request's buckets were; `None` if one is kept as the script does not keep it.
    pub(crate) fn reading(
        &self,
        now: Micros,
        request: &ShardRequest,
        admitted: bool,
        states: &[StateText],
    ) -> Option<Reading> {
        self.moved(now, now, request, states).map(|reading| Reading { admitted, ..reading })
    }

    /// The same as it would have been by another clock: as much later as that says, and in the present window if they
    /// were.
    pub(crate) fn moved(
        &self,
        from: Micros,
        to: Micros,
        request: &ShardRequest,
        states: &[StateText],
    ) -> Option<Reading> {
        let mut reading = Reading::at(self.zero, Now(self.since(to.0)), true);
        for (index, state) in states.iter().enumerate() {
            let limit = &request.reader(index)?.limit;
            let moved = Moved { epoch: *self, now: to, by: distance(limit, from, to) };
            reading.buckets.push(moved.found(limit, state)?);
        }
        Some(reading)
    }
}

/// States as they would have been by a clock that says `now`, and so much more than theirs.
struct Moved {
    epoch: Epoch,
    now: Micros,
    by: i64,
}

/// By how much times of a limit's states move with the clock: windows as a whole.
fn distance(limit: &Limit, from: Micros, to: Micros) -> i64 {
    let of = |now: Micros| {
        let window = if limit.has_windows() { Micros::up(limit.period()).0.max(1) } else { 1 };
        now.0 - now.0 % window
    };
    of(to).wrapping_sub(of(from)) as i64
}

impl Moved {
    /// A time since the epoch began.
    fn since(&self, micros: u64) -> Nanos {
        self.epoch.since(micros.saturating_add_signed(self.by))
    }

    /// A bucket that a limit reads, from the text it is kept as.
    fn found(&self, limit: &Limit, text: &[u8]) -> Option<Found> {
        let mut text = ReplyText(text);
        let state = self.state(limit, &mut text)?;
        let since = if text.0.is_empty() { 0 } else { text.number(7)? };
        let above_since = (since > 0).then(|| Now(self.since(since)));
        text.0.is_empty().then_some(Found { state, above_since })
    }

    fn state(&self, limit: &Limit, text: &mut ReplyText<'_>) -> Option<State> {
        let present = Now(self.epoch.since(self.now.0));
        let end = |micros| Nanos(self.since(micros).0.min(present.0.0.saturating_add(FURTHEST)));
        if text.0.is_empty() {
            return Some(fresh(limit, present));
        }
        if text.number(1)? != tag(limit.kind()) {
            return None;
        }
        Some(match limit.kind() {
            StateKind::ArrivalTime => {
                let (micros, ticks) = (text.number(7)?, text.number(3)?);
                let micros = micros.saturating_add_signed(self.by);
                State::Word(outside::arrival(present, ahead(self.now, micros, ticks, limit.longest_time())))
            }
            StateKind::Interval | StateKind::Window => {
                let (ends, count) = (text.number(7)?, text.number(7)?);
                State::Word(outside::window(&self.epoch.zero.align(*limit), present, end(ends), count))
            }
            StateKind::SlidingCounter | StateKind::WideSlidingCounter => {
                let [ends, current, previous] = [text.number(7)?, text.number(7)?, text.number(7)?];
                self.sliding(limit, end(ends), previous, current)
            }
            StateKind::Log => wide(WideRecord::Log(self.log(text)?)),
        })
    }

    fn sliding(&self, limit: &Limit, end: Nanos, previous: u64, current: u64) -> State {
        let current = if limit.overruns() { current.min(limit.most_used()) } else { current };
        if limit.kind() == StateKind::SlidingCounter {
            return State::Word(outside::sliding(&self.epoch.zero.align(*limit), end, previous, current));
        }
        let owed = if limit.overruns() { current.saturating_sub(limit.capacity()) } else { 0 };
        wide(WideRecord::Counter(WideState::of_parts([end.0, previous, current - owed, owed])))
    }

    /// A log of which some entries are known; the others are given the time of the known one before them, which
    /// changes no decision that asks for known ones only.
    fn log(&self, text: &mut ReplyText<'_>) -> Option<Log> {
        let (size, owed, since) = (text.number(7)?, text.number(7)?, text.0.get(..7)?);
        text.0 = text.0.get(7..)?;
        let mut known = Vec::new();
        while !text.0.is_empty() {
            known.push((usize::try_from(text.number(2)?).ok()?, self.since(text.number(7)?)));
        }
        text.0 = since;
        known.sort_unstable_by_key(|&(index, _)| index);
        let mut times = Vec::with_capacity(known.last().map_or(0, |&(index, _)| index + 1));
        for (index, time) in known {
            let before = times.last().copied().unwrap_or(time);
            times.resize(index, before);
            times.push(time);
        }
        (times.len() as u64 == size).then(|| Log::of(&times, owed))
    }
}

/// What the text of a state begins with.
const fn tag(kind: StateKind) -> u64 {
    match kind {
        StateKind::ArrivalTime => 1,
        StateKind::Interval => 2,
        StateKind::Window => 3,
        StateKind::SlidingCounter | StateKind::WideSlidingCounter => 4,
        StateKind::Log => 5,
    }
}

fn fresh(limit: &Limit, now: Now) -> State {
    match limit.kind() {
        StateKind::Log => wide(WideRecord::Log(Log::default())),
        StateKind::WideSlidingCounter => wide(WideRecord::Counter(WideState::default())),
        StateKind::ArrivalTime | StateKind::Interval | StateKind::Window | StateKind::SlidingCounter => {
            State::Word(ratelimit_common::algorithm::fresh(now))
        }
    }
}

fn wide(record: WideRecord) -> State {
    State::Wide(Box::new(record))
}

/// What is left of a text.
struct ReplyText<'t>(&'t [u8]);

impl<'t> ReplyText<'t> {
    /// A text with its length and a colon in front.
    fn text(&mut self) -> Option<&'t [u8]> {
        let colon = self.0.iter().position(|&byte| byte == b':')?;
        let (length, rest) = self.0.split_at(colon);
        let (text, rest) = rest.get(1..)?.split_at_checked(digits(length)?)?;
        self.0 = rest;
        Some(text)
    }

    /// An unsigned number of so many bytes, the most significant first.
    fn number(&mut self, bytes: usize) -> Option<u64> {
        let (number, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(number.iter().fold(0, |number, &byte| (number << 8) | u64::from(byte)))
    }
}
