//! The times of a sliding window log, in pieces that copies share. What a request does to a copy is most often to let a
//! few of the oldest times go and to add its own some times: that is kept beside the pieces, as three numbers, until
//! the copy replaces what it was made from and nobody else holds the pieces. Any other change copies the pieces that it
//! changes.

use std::{collections::VecDeque, sync::Arc};

use ratelimit_common::{algorithm::sliding_window_log::Entries, time::Nanos};
use smallvec::SmallVec;

/// The most times in a piece. All but the first and the last hold so many.
const PIECE: usize = 512;

/// Times that memory is taken for at once, at least.
const LEAST_MORE: usize = 4;

type Piece = VecDeque<Nanos>;

/// The times of a log, oldest first, and the units that are owed beside them.
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// `None` has no times.
    pieces: Option<Arc<Pieces>>,
    change: Change,
    owed: u64,
}

/// What makes a log of the pieces that it shares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Change {
    /// So many of the oldest times are gone.
    popped: u32,
    /// So many times have come, all the same one.
    pushed: u32,
    time: Nanos,
}

/// None is empty.
#[derive(Clone, Debug, Default)]
struct Pieces(SmallVec<[Arc<Piece>; 1]>);

impl Log {
    /// A log of these times, oldest first.
    #[must_use]
    pub fn of(times: &[Nanos], owed: u64) -> Self {
        let pieces = times.chunks(PIECE).map(|piece| Arc::new(piece.iter().copied().collect()));
        Self { pieces: Some(Arc::new(Pieces(pieces.collect()))), owed, ..Self::default() }
    }

    /// Its times, oldest first.
    pub(super) fn times(&self) -> impl Iterator<Item = Nanos> {
        (0..self.len()).map(|index| self.get(index))
    }

    /// Whether neither has changed since one was copied from the other, or both have in the same way.
    pub(super) fn is(&self, other: &Self) -> bool {
        let pieces = |log: &Self| log.pieces.as_ref().map(Arc::as_ptr);
        pieces(self) == pieces(other) && self.change == other.change && self.owed == other.owed
    }

    /// Changes the pieces as well; those that somebody else holds are copied. There are never more than `most` times.
    pub(super) fn merge(&mut self, most: u64) {
        if self.change == Change::default() {
            return;
        }
        let Change { popped, pushed, time } = std::mem::take(&mut self.change);
        let pieces = Arc::make_mut(self.pieces.get_or_insert_default());
        for _ in 0..popped {
            pieces.remove(0);
        }
        for _ in 0..pushed {
            pieces.push(time, most);
        }
    }

    /// The pieces to change them, after all that was beside them.
    fn merged(&mut self) -> &mut Pieces {
        self.merge(u64::MAX);
        Arc::make_mut(self.pieces.get_or_insert_default())
    }

    /// The pieces, if nobody else holds them.
    fn own(&mut self) -> Option<&mut Pieces> {
        if self.change != Change::default() {
            return None;
        }
        Arc::get_mut(self.pieces.as_mut()?)
    }

    #[inline]
    fn in_pieces(&self) -> usize {
        self.pieces.as_ref().map_or(0, |pieces| pieces.len()) - self.change.popped as usize
    }
}

impl Pieces {
    #[inline]
    fn len(&self) -> usize {
        match &*self.0 {
            [] => 0,
            [only] => only.len(),
            [first, between @ .., last] => first.len() + between.len() * PIECE + last.len(),
        }
    }

    #[inline]
    fn get(&self, index: usize) -> Nanos {
        if let [only] = &*self.0 {
            return only.get(index).copied().unwrap_or_default();
        }
        let (piece, place) = self.place(index);
        self.0.get(piece).and_then(|piece| piece.get(place)).copied().unwrap_or_default()
    }

    /// In which piece a time is, and where there.
    fn place(&self, index: usize) -> (usize, usize) {
        let first = self.0.first().map_or(0, |piece| piece.len());
        match index.checked_sub(first) {
            None => (0, index),
            Some(after) => (1 + after / PIECE, after % PIECE),
        }
    }

    /// Memory grows by a quarter, and to no more than is ever needed: by itself it would double.
    fn push(&mut self, time: Nanos, most: u64) {
        let len = self.len();
        if self.0.last().is_none_or(|last| last.len() >= PIECE) {
            self.0.push(Arc::default());
        }
        let Some(last) = self.0.last_mut().map(Arc::make_mut) else { return };
        if last.len() == last.capacity() {
            let left = usize::try_from(most).unwrap_or(usize::MAX).saturating_sub(len);
            last.reserve_exact((last.len() / 4).max(LEAST_MORE).min(left).min(PIECE - last.len()));
        }
        last.push_back(time);
    }

    fn remove(&mut self, index: usize) {
        let (number, place) = self.place(index);
        if number >= self.0.len() {
            return;
        }
        Arc::make_mut(&mut self.0[number]).remove(place);
        // Later times move up, so that all pieces between the first and the last stay full.
        let last = if number == 0 { 0 } else { self.0.len() - 1 };
        for later in number..last {
            if let Some(time) = Arc::make_mut(&mut self.0[later + 1]).pop_front() {
                Arc::make_mut(&mut self.0[later]).push_back(time);
            }
        }
        let emptied = if number == 0 { 0 } else { last };
        if self.0[emptied].is_empty() {
            self.0.remove(emptied);
        }
    }
}

impl Entries for Log {
    #[inline]
    fn len(&self) -> usize {
        self.in_pieces() + self.change.pushed as usize
    }

    #[inline]
    fn get(&self, index: usize) -> Nanos {
        let in_pieces = self.in_pieces();
        match &self.pieces {
            Some(pieces) if index < in_pieces => pieces.get(index + self.change.popped as usize),
            _ if index - in_pieces < self.change.pushed as usize => self.change.time,
            _ => Nanos(0),
        }
    }

    fn pop_oldest(&mut self) {
        if let Some(pieces) = self.own() {
            pieces.remove(0);
        } else if self.in_pieces() > 0 {
            self.change.popped += 1;
        } else {
            self.change.pushed = self.change.pushed.saturating_sub(1);
        }
    }

    fn push(&mut self, time: Nanos, most: u64) {
        if let Some(pieces) = self.own() {
            pieces.push(time, most);
        } else if self.change.pushed == 0 || self.change.time == time {
            self.change.pushed += 1;
            self.change.time = time;
        } else {
            self.merge(most);
            self.push(time, most);
        }
    }

    fn remove(&mut self, index: usize) {
        self.merged().remove(index);
    }

    fn owed(&self) -> u64 {
        self.owed
    }

    fn owe(&mut self, units: u64) {
        self.owed = units;
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    const MOST: u64 = 10_000;

    #[derive(Clone, Debug)]
    enum Step {
        Push(usize, u64),
        Pop(usize),
        Remove(usize, usize),
        Merge,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (1..1_500_usize, 0..2_u64).prop_map(|(count, apart)| Step::Push(count, apart)),
            (1..1_500_usize).prop_map(Step::Pop),
            (0..usize::MAX, 1..700_usize).prop_map(|(index, count)| Step::Remove(index, count)),
            Just(Step::Merge),
        ]
    }

    proptest! {
        #[test]
        fn a_log_holds_what_a_row_of_times_would_and_copies_stay_as_they_were(steps in vec(step(), 1..30)) {
            let (mut log, mut model, mut next) = (Log::default(), Vec::new(), 0);
            for step in steps {
                let (copy, before) = (log.clone(), model.clone());
                let is_merged = matches!(step, Step::Merge);
                match step {
                    Step::Merge => log.merge(MOST),
                    // All at one time, or each at its own.
                    Step::Push(count, apart) => for nth in 0..count as u64 {
                        next += if nth == 0 { 1 } else { apart };
                        log.push(Nanos(next), MOST);
                        model.push(Nanos(next));
                    },
                    Step::Pop(count) => for _ in 0..count.min(model.len()) {
                        log.pop_oldest();
                        model.remove(0);
                    },
                    Step::Remove(index, count) => for _ in 0..count.min(model.len()) {
                        log.remove(index % model.len());
                        model.remove(index % model.len());
                    },
                }
                prop_assert_eq!(log.times().collect::<Vec<_>>(), &model[..]);
                prop_assert_eq!(log.len(), model.len());
                prop_assert!((0..model.len()).all(|index| log.get(index) == model[index]));
                prop_assert_eq!(log.get(model.len()), Nanos(0));
                prop_assert_eq!(copy.times().collect::<Vec<_>>(), before);
                let is_same = log.len() == copy.len() && log.get(0) == copy.get(0);
                prop_assert!((is_merged && is_same) || log.is(&copy) == is_same);
            }
        }
    }
}
