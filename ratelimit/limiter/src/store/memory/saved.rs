//! A store as bytes, and back: the secrets that keys are hashed with, which tags are whose, and all buckets in use.
//!
//! The form: a line that says what it is and of which version, numbers of 8 bytes (little-endian), and a checksum of
//! all before it. Whatever does not fit is refused as a whole.

#[cfg(test)]
mod tests;

use std::{
    io,
    sync::{Mutex, PoisonError},
};

use ratelimit_common::time::{Nanos, Now};

use super::{
    Limits, MemoryStore, Secrets, Tags,
    grid::{Grid, SavedBucket},
    most_sets,
    turns::Turns,
    wide::{SavedState, SavedWide, Wide},
};

/// What a file begins with.
const MAGIC: &[u8] = b"ratelimit state 1\n";

/// Hashed with the secrets, so that another way to hash is noticed.
const PROBE: &str = "a text that is always the same";

/// Bytes for each key that a file may have beside this many.
const BYTES_A_KEY: u64 = 512;
const LEAST_BYTES: u64 = 64 << 20;

/// Why bytes are no store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoState {
    /// They begin otherwise.
    #[error("not a state file of this version")]
    Foreign,
    /// They have changed, or end too early.
    #[error("damaged: its checksum is wrong")]
    Damaged,
    /// They say what can't be, or were made by a build that hashes keys in another way.
    #[error("made by another build of ratelimit, or inconsistent")]
    Other,
    /// There is no memory for what they hold.
    #[error("no memory for what it holds")]
    NoMemory,
}

/// A store, and when it was saved: by its own time, and by the clock.
#[derive(Debug)]
pub struct Restored {
    /// The store.
    pub store: MemoryStore,
    /// Its time when it was saved.
    pub now: Now,
    /// The clock's at that moment.
    pub clock: Nanos,
}

/// The most bytes that the state of a store with room for so many keys has.
#[must_use]
pub const fn most_bytes(max_keys: u64) -> u64 {
    LEAST_BYTES.saturating_add(max_keys.saturating_mul(BYTES_A_KEY))
}

/// What a store held at a moment, to be written when nobody waits for it.
#[derive(Debug)]
pub struct Saved {
    clock: Nanos,
    now: Now,
    secrets: [u64; 6],
    probe: u64,
    tags: Vec<[u64; 5]>,
    sets: u64,
    buckets: Vec<SavedBucket>,
    wide: Vec<SavedWide>,
}

impl Saved {
    /// Writes it, in many small pieces.
    ///
    /// # Errors
    /// It can't be written.
    pub fn write(&self, out: impl io::Write) -> io::Result<()> {
        let mut writer = Writer { out, checksum: crc32fast::Hasher::new() };
        writer.bytes(MAGIC)?;
        writer.numbers([self.clock.0, self.now.0.0])?;
        writer.numbers(self.secrets)?;
        writer.numbers([self.probe, self.tags.len() as u64])?;
        self.tags.iter().try_for_each(|row| writer.numbers(*row))?;
        writer.numbers([self.sets, self.buckets.len() as u64])?;
        let mut buckets = self.buckets.iter();
        buckets.try_for_each(|SavedBucket { place, key, state }| writer.numbers([*place, *key, *state]))?;
        writer.numbers([self.wide.len() as u64])?;
        self.wide.iter().try_for_each(|bucket| writer.wide(bucket))?;
        let checksum = writer.checksum.clone().finalize();
        writer.numbers([checksum.into()])
    }
}

impl MemoryStore {
    /// All that it holds, at its time `now` when the clock says `clock`. `limits` tell which buckets matter again if
    /// that was set back when they are restored. Decisions go on meanwhile.
    #[must_use]
    pub fn save(&self, limits: &Limits, now: Now, clock: Nanos) -> Saved {
        let tags = self.tags.lock().unwrap_or_else(PoisonError::into_inner).save();
        let (sets, buckets) = self.grid.save(limits, now);
        let wide = self.wide.save(now);
        let (secrets, probe) = (self.secrets.random, self.secrets.hash(PROBE));
        Saved { clock, now, secrets, probe, tags, sets, buckets, wide }
    }

    /// The store that was saved, with room for at least `max_keys`.
    ///
    /// # Errors
    /// The bytes are none, or there is no memory.
    pub fn restore(bytes: &[u8], max_keys: u64) -> Result<Restored, NoState> {
        let (content, checksum) = bytes.split_last_chunk::<8>().ok_or(NoState::Foreign)?;
        let numbers = content.strip_prefix(MAGIC).ok_or(NoState::Foreign)?;
        if u64::from_le_bytes(*checksum) != u64::from(crc32fast::hash(content)) {
            return Err(NoState::Damaged);
        }
        let mut reader = Reader(numbers);
        let restored = reader.store(max_keys)?;
        if reader.0.is_empty() { Ok(restored) } else { Err(NoState::Other) }
    }
}

const LOG: u64 = 0;
const COUNTER: u64 = 1;
/// Added to one of those if units are owed, whose number comes next. Files without debts have the form from before.
const OWING: u64 = 2;

struct Writer<W> {
    out: W,
    /// The checksum of all that was written.
    checksum: crc32fast::Hasher,
}

impl<W: io::Write> Writer<W> {
    fn wide(&mut self, SavedWide { identity, idle_at, state }: &SavedWide) -> io::Result<()> {
        self.numbers([*identity, idle_at.0])?;
        match state {
            SavedState::Log { times, owed } => {
                self.kind(LOG, *owed)?;
                self.numbers([times.len() as u64])?;
                times.iter().try_for_each(|time| self.numbers([time.0]))
            }
            SavedState::Counter([parts @ .., owed]) => {
                self.kind(COUNTER, *owed)?;
                self.numbers(*parts)
            }
        }
    }

    fn kind(&mut self, kind: u64, owed: u64) -> io::Result<()> {
        match owed {
            0 => self.numbers([kind]),
            owed => self.numbers([kind + OWING, owed]),
        }
    }

    fn numbers<const N: usize>(&mut self, numbers: [u64; N]) -> io::Result<()> {
        numbers.iter().try_for_each(|number| self.bytes(&number.to_le_bytes()))
    }

    fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.checksum.update(bytes);
        self.out.write_all(bytes)
    }
}

struct Reader<'b>(&'b [u8]);

impl Reader<'_> {
    fn store(&mut self, max_keys: u64) -> Result<Restored, NoState> {
        let [clock, now] = self.numbers()?;
        let secrets = Secrets::of(self.numbers()?);
        let [probe] = self.numbers()?;
        if secrets.hash(PROBE) != probe {
            return Err(NoState::Other);
        }
        let rows = self.many(Self::numbers)?;
        let tags = Tags::restore(rows).ok_or(NoState::Other)?;
        let [sets] = self.numbers()?;
        let buckets = self.many(|reader| {
            let [place, key, state] = reader.numbers()?;
            Ok(SavedBucket { place, key, state })
        })?;
        let wide_buckets = self.many(Self::wide)?;
        let most_sets = most_sets(max_keys).ok_or(NoState::NoMemory)?;
        let grid = Grid::restore(most_sets, sets, buckets).ok_or(NoState::Other)?;
        let wide = Wide::new(usize::try_from(max_keys).map_err(|_| NoState::NoMemory)?);
        wide.restore(wide_buckets);
        let store = MemoryStore { secrets, turns: Turns::default(), grid, wide, tags: Mutex::new(tags) };
        Ok(Restored { store, now: Now(Nanos(now)), clock: Nanos(clock) })
    }

    fn wide(&mut self) -> Result<SavedWide, NoState> {
        let [identity, idle_at, kind] = self.numbers()?;
        let (kind, [owed]) = match kind.checked_sub(OWING) {
            Some(kind) => (kind, self.numbers()?),
            None => (kind, [0]),
        };
        let state = match kind {
            LOG => SavedState::Log {
                times: self.many(|reader| reader.numbers().map(|[time]| Nanos(time)))?,
                owed,
            },
            COUNTER => {
                let [end, previous, current] = self.numbers()?;
                SavedState::Counter([end, previous, current, owed])
            }
            _ => return Err(NoState::Other),
        };
        Ok(SavedWide { identity, idle_at: Nanos(idle_at), state })
    }

    /// A number, and as many of something. A number that is too large ends where the bytes do.
    fn many<T>(&mut self, one: impl Fn(&mut Self) -> Result<T, NoState>) -> Result<Vec<T>, NoState> {
        let [count] = self.numbers()?;
        (0..count).map(|_| one(self)).collect()
    }

    fn numbers<const N: usize>(&mut self) -> Result<[u64; N], NoState> {
        let mut numbers = [0; N];
        for number in &mut numbers {
            let (first, rest) = self.0.split_first_chunk::<8>().ok_or(NoState::Other)?;
            (*number, self.0) = (u64::from_le_bytes(*first), rest);
        }
        Ok(numbers)
    }
}
