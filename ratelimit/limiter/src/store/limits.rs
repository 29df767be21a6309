//! The limits in force, by the tag that buckets carry: for choosing which bucket gives way, and for clamping.

use ratelimit_common::{
    limit::Limit,
    table::{Key, Tag},
};

/// The limits of one generation.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    by_tag: Vec<Option<LimitEntry>>,
}

#[derive(Clone, Copy, Debug)]
struct LimitEntry {
    limit: Limit,
    /// Rules share the tag, and read states differently.
    is_mixed: bool,
}

impl Limits {
    pub(super) fn new<'l>(tagged: impl IntoIterator<Item = (Tag, &'l Limit)>) -> Self {
        let mut limits = Self::default();
        for (tag, limit) in tagged {
            limits.insert(tag, limit);
        }
        limits
    }

    /// If several limits have one tag, the one stays that takes longest to fill a bucket from which all is used that
    /// can be.
    fn insert(&mut self, tag: Tag, limit: &Limit) {
        let index = usize::from(tag.number());
        if index >= self.by_tag.len() {
            self.by_tag.resize(index + 1, None);
        }
        let slot = &mut self.by_tag[index];
        match slot {
            None => *slot = Some(LimitEntry { limit: *limit, is_mixed: false }),
            Some(entry) if entry.limit.shape() != limit.shape() => entry.is_mixed = true,
            Some(entry) if takes_longer(limit, &entry.limit) => entry.limit = *limit,
            Some(_) => {}
        }
    }

    /// The limit of a bucket, or one like it.
    #[inline]
    pub(super) fn get(&self, tag: Tag) -> Option<&Limit> {
        self.by_tag.get(usize::from(tag.number()))?.as_ref().map(|entry| &entry.limit)
    }

    /// The limit to clamp a bucket by.
    pub(super) fn of(&self, key: &Key) -> Option<&Limit> {
        let entry = self.by_tag.get(usize::from(key.tag().number()))?.as_ref()?;
        if entry.is_mixed { None } else { Some(&entry.limit) }
    }
}

/// Whether a bucket of `a` takes longer to fill than one of `b`, if all is used of both that can be.
fn takes_longer(a: &Limit, b: &Limit) -> bool {
    // Each product has at most 64 + 55 bits, so the quotients are exact enough to compare.
    let fill = |limit: &Limit| {
        u128::from(limit.most_used()) * u128::from(limit.period().0) / u128::from(limit.amount().max(1))
    };
    fill(a) > fill(b)
}
