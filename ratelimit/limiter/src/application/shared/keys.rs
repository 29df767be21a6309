//! The keys of a request's buckets in full, as a store needs them that is not in this process.

use smallvec::SmallVec;

use super::{
    super::{generation::WINDOWS, judge::Ask, request::Request},
    BucketKey,
};
use crate::transaction::Snapshot;

/// Entries of a request without memory of their own.
const MOST_INLINE: usize = 8;

/// All entries of all buckets, and to whom they belong.
pub(super) struct Keys<'q> {
    entries: SmallVec<[(&'q str, &'q str); MOST_INLINE]>,
    /// For each bucket a limit that it belongs to, and where its entries end.
    asks: SmallVec<[(&'q Ask<'q>, usize); 4]>,
    domain: &'q str,
}

impl<'q> Keys<'q> {
    pub(super) fn new(request: &'q Request, asks: &'q [Ask<'q>], snapshot: &Snapshot) -> Self {
        let mut keys = Self { entries: SmallVec::new(), asks: SmallVec::new(), domain: &request.domain };
        for held in &snapshot.buckets {
            let ask = &asks[held.reader()];
            keys.entries.extend(entries(request, ask));
            keys.asks.push((ask, keys.entries.len()));
        }
        keys
    }

    /// One for each bucket, in order.
    pub(super) fn buckets(&self) -> SmallVec<[BucketKey<'_>; 4]> {
        let begins = [0].into_iter().chain(self.asks.iter().map(|(_, end)| *end));
        let bucket = |((ask, end), begin): (&(&'q Ask<'q>, usize), usize)| {
            let (kind, window) = ask.bucket.limit.shape();
            BucketKey {
                domain: self.domain,
                account: ask.rule.map_or(WINDOWS, |rule| &rule.account),
                kind,
                window,
                entries: &self.entries[begin..*end],
            }
        };
        self.asks.iter().zip(begins).map(bucket).collect()
    }
}

/// Keys and values that tell a bucket from others.
fn entries<'q>(request: &'q Request, ask: &'q Ask<'q>) -> impl Iterator<Item = (&'q str, &'q str)> {
    let steps = ask.rule.map_or(&[][..], |rule| &rule.steps);
    let entries = &request.descriptors[ask.descriptor].entries;
    entries.iter().enumerate().map(move |(index, (key, value))| {
        match steps.get(index).and_then(|step| step.shared.as_ref()) {
            Some((key, value)) => (&**key, &**value),
            None => (&**key, &**value),
        }
    })
}
