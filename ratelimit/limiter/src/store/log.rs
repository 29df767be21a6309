//! The times of a sliding window log, in pieces: a copy shares them until one of the two changes, and then takes as much
//! memory as the pieces that change. So a request under several limits copies two pieces of a log, not ten thousand times.

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
    /// None is empty.
    pieces: Arc<SmallVec<[Arc<Piece>; 1]>>,
    owed: u64,
}

impl Log {
    /// A log of these times, oldest first.
    #[must_use]
    pub fn of(times: &[Nanos], owed: u64) -> Self {
        let pieces = times.chunks(PIECE).map(|piece| Arc::new(piece.iter().copied().collect()));
        Self { pieces: Arc::new(pieces.collect()), owed }
    }

    /// Its times, oldest first.
    pub(super) fn times(&self) -> impl Iterator<Item = Nanos> {
        self.pieces.iter().flat_map(|piece| piece.iter().copied())
    }

    /// Whether neither has changed since one was copied from the other.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.owed == other.owed && Arc::ptr_eq(&self.pieces, &other.pieces)
    }

    /// In which piece a time is, and where there.
    fn place(&self, index: usize) -> (usize, usize) {
        let first = self.pieces.first().map_or(0, |piece| piece.len());
        match index.checked_sub(first) {
            None => (0, index),
            Some(after) => (1 + after / PIECE, after % PIECE),
        }
    }
}

impl Entries for Log {
    fn len(&self) -> usize {
        match &**self.pieces {
            [] => 0,
            [only] => only.len(),
            [first, between @ .., last] => first.len() + between.len() * PIECE + last.len(),
        }
    }

    fn get(&self, index: usize) -> Nanos {
        let (piece, place) = self.place(index);
        self.pieces.get(piece).and_then(|piece| piece.get(place)).copied().unwrap_or_default()
    }

    fn pop_oldest(&mut self) {
        self.remove(0);
    }

    /// Memory grows by a quarter, and to no more than is ever needed: by itself it would double.
    fn push(&mut self, time: Nanos, most: u64) {
        let len = self.len();
        let pieces = Arc::make_mut(&mut self.pieces);
        if pieces.last().is_none_or(|last| last.len() >= PIECE) {
            pieces.push(Arc::default());
        }
        let Some(last) = pieces.last_mut().map(Arc::make_mut) else { return };
        if last.len() == last.capacity() {
            let left = usize::try_from(most).unwrap_or(usize::MAX).saturating_sub(len);
            last.reserve_exact((last.len() / 4).max(LEAST_MORE).min(left).min(PIECE - last.len()));
        }
        last.push_back(time);
    }

    fn remove(&mut self, index: usize) {
        let (number, place) = self.place(index);
        if number >= self.pieces.len() {
            return;
        }
        let pieces = Arc::make_mut(&mut self.pieces);
        Arc::make_mut(&mut pieces[number]).remove(place);
        // Later times move up, so that all pieces between the first and the last stay full.
        let last = if number == 0 { 0 } else { pieces.len() - 1 };
        for later in number..last {
            if let Some(time) = Arc::make_mut(&mut pieces[later + 1]).pop_front() {
                Arc::make_mut(&mut pieces[later]).push_back(time);
            }
        }
        let emptied = if number == 0 { 0 } else { last };
        if pieces[emptied].is_empty() {
            pieces.remove(emptied);
        }
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
        Push(usize),
        Pop(usize),
        Remove(usize, usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (1..1_500_usize).prop_map(Step::Push),
            (1..1_500_usize).prop_map(Step::Pop),
            (0..usize::MAX, 1..700_usize).prop_map(|(index, count)| Step::Remove(index, count)),
        ]
    }

    proptest! {
        #[test]
        fn a_log_holds_what_a_row_of_times_would_and_copies_stay_as_they_were(steps in vec(step(), 1..30)) {
            let (mut log, mut model, mut next) = (Log::default(), Vec::new(), 0);
            for step in steps {
                let (copy, before) = (log.clone(), model.clone());
                match step {
                    Step::Push(count) => for _ in 0..count {
                        next += 1;
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
                prop_assert_eq!(log.is(&copy), log.len() == copy.len() && log.get(0) == copy.get(0));
            }
        }
    }
}
