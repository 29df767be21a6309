//! The keys of a request's buckets in full, as a store needs them that is not in this process.

use smallvec::SmallVec;

use super::{
    super::{evaluator::LimitCheck, generation::WINDOWS, request::Request},
    BucketKey,
};
use crate::transaction::Snapshot;

/// Entries of a request without memory of their own.
const MOST_INLINE: usize = 8;

/// All entries of all buckets, and to whom they belong.
pub(super) struct Keys<'q> {
    entries: SmallVec<[(&'q str, &'q str); MOST_INLINE]>,
    /// For each bucket a limit that it belongs to, and where its entries end.
    checks: SmallVec<[(&'q LimitCheck<'q>, usize); 4]>,
    domain: &'q str,
}

impl<'q> Keys<'q> {
    pub(super) fn new(request: &'q Request, checks: &'q [LimitCheck<'q>], snapshot: &Snapshot) -> Self {
        let mut keys = Self { entries: SmallVec::new(), checks: SmallVec::new(), domain: &request.domain };
        for bucket_state in &snapshot.buckets {
            let check = &checks[bucket_state.reader()];
            keys.entries.extend(entries(request, check));
            keys.checks.push((check, keys.entries.len()));
        }
        keys
    }

    /// One for each bucket, in order.
    pub(super) fn buckets(&self) -> SmallVec<[BucketKey<'_>; 4]> {
        let begins = [0].into_iter().chain(self.checks.iter().map(|(_, end)| *end));
        let bucket = |((check, end), begin): (&(&'q LimitCheck<'q>, usize), usize)| {
            let (kind, window) = check.limit.limit.shape();
            BucketKey {
                domain: self.domain,
                account: check.rule.map_or(WINDOWS, |rule| &rule.account),
                kind,
                window,
                entries: &self.entries[begin..*end],
            }
        };
        self.checks.iter().zip(begins).map(bucket).collect()
    }
}

/// Keys and values that tell a bucket from others.
fn entries<'q>(request: &'q Request, check: &'q LimitCheck<'q>) -> impl Iterator<Item = (&'q str, &'q str)> {
    let steps = check.rule.map_or(&[][..], |rule| &rule.steps);
    let entries = &request.descriptors[check.descriptor].entries;
    entries.iter().enumerate().map(move |(index, (key, value))| {
        match steps.get(index).and_then(|step| step.shared.as_ref()) {
            Some((key, value)) => (&**key, &**value),
            None => (&**key, &**value),
        }
    })
}
