//! What files of prefixes had when they were last read: one that has become empty since keeps it.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::policy::{Policy, PrefixList};

/// Files and what they had.
#[derive(Clone, Debug, Default)]
pub struct LastLists(HashMap<PathBuf, Arc<PrefixList>>);

impl LastLists {
    /// Those of a policy that was in force.
    #[must_use]
    pub fn of(policy: &Policy) -> Self {
        let parts = policy.network.iter().flat_map(|network| &network.lists);
        let filled = parts.filter(|part| !part.prefixes.is_empty());
        Self(filled.filter_map(|part| Some((part.file.clone()?, Arc::clone(&part.prefixes)))).collect())
    }

    /// What a file had, if it had something.
    pub(super) fn of_file(&self, file: &Path) -> Option<Arc<PrefixList>> {
        self.0.get(file).cloned()
    }
}
