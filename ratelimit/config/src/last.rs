//! What files of prefixes had when they were last read: one that has become empty since keeps it.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::policy::{Policy, Prefix, PrefixList};

/// Files and what they had.
#[derive(Clone, Debug, Default)]
pub struct LastLists {
    of_packets: HashMap<PathBuf, Arc<PrefixList>>,
    of_requests: HashMap<PathBuf, Arc<[Prefix]>>,
}

impl LastLists {
    /// Those of a policy that was in force.
    #[must_use]
    pub fn of(policy: &Policy) -> Self {
        let parts = policy.network.iter().flat_map(|network| &network.lists);
        let filled = parts.filter(|part| !part.prefixes.is_empty());
        let of_packets = filled.filter_map(|part| Some((part.file.clone()?, Arc::clone(&part.prefixes))));
        let files = policy.application.iter().flat_map(|application| &application.sources.networks);
        let filled = files.filter(|file| !file.prefixes.is_empty());
        let of_requests = filled.map(|file| (file.file.clone(), Arc::clone(&file.prefixes)));
        Self { of_packets: of_packets.collect(), of_requests: of_requests.collect() }
    }

    /// What a file had, if it had something.
    pub(super) fn of_file(&self, file: &Path) -> Option<Arc<PrefixList>> {
        self.of_packets.get(file).cloned()
    }

    /// The same of files that rules on requests name.
    pub(super) fn of_network_file(&self, file: &Path) -> Option<Arc<[Prefix]>> {
        self.of_requests.get(file).cloned()
    }
}
