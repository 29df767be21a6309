//! The files that a policy comes from, and those that would be among them if they were there.

use std::path::{Path, PathBuf};

use super::{ConfigSource, watch::Stamps};
use crate::{config, policy::Policy};

/// Names of files, and patterns of names.
#[derive(Clone, Debug, Default)]
pub struct WatchedFiles {
    pub(super) named: Vec<PathBuf>,
    pub(super) patterns: Vec<PathBuf>,
}

impl WatchedFiles {
    /// Those of a policy. It looks at none of them.
    pub fn of(source: &ConfigSource, policy: &Policy) -> Self {
        if source.is_stream() {
            return Self::default();
        }
        let mut named = vec![source.config.clone()];
        named.extend(policy.network.iter().flat_map(|network| network.list_files().cloned()));
        let sources = || policy.application.iter().map(|application| &application.sources);
        named.extend(sources().flat_map(|sources| sources.files.iter().cloned()));
        let auth = policy.application.iter().filter_map(|application| application.auth.as_ref());
        let proxies = policy.application.iter().flat_map(|application| &application.proxy);
        let bodies = auth.map(|auth| &auth.deny_body).chain(proxies.map(|proxy| &proxy.deny_body));
        named.extend(bodies.filter_map(|body| Some(body.as_ref()?.file.clone())));
        named.extend(sources().flat_map(|sources| &sources.networks).map(|networks| networks.file.clone()));
        Self { named, patterns: sources().flat_map(|sources| sources.patterns.iter().cloned()).collect() }
    }

    /// Those that were read.
    pub fn named(&self) -> impl Iterator<Item = PathBuf> {
        self.named.iter().cloned()
    }

    /// How they are now, those that patterns match by now included.
    pub fn stamps(&self) -> Stamps {
        let matching = self.patterns.iter().flat_map(|pattern| config::matching_files(pattern));
        Stamps::of(self.named().chain(matching.flatten()))
    }

    /// Paths in whose directories they may change, come and go.
    pub fn places(&self) -> impl Iterator<Item = PathBuf> {
        self.named.iter().chain(&self.patterns).flat_map(|path| places(path))
    }
}

/// Directories that are watched for one `*`.
const MOST_DIRECTORIES: usize = 1_000;

/// Where a file comes and goes, or those that a pattern matches or may match: in the directories on the way that have a
/// `*` in their names, in those that these are in, and in that of the files.
fn places(pattern: &Path) -> Vec<PathBuf> {
    let has_wildcard = |path: &Path| path.to_string_lossy().contains(['*', '?', '[']);
    let mut directories = Vec::new();
    for directory in pattern.ancestors().skip(1) {
        if directory.is_dir() || !has_wildcard(directory) {
            directories.push(directory.to_owned());
            break;
        }
        let found = glob::glob(&directory.to_string_lossy()).into_iter().flatten().filter_map(Result::ok);
        directories.extend(found.filter(|found| found.is_dir()).take(MOST_DIRECTORIES));
    }
    let name = pattern.file_name().unwrap_or_default();
    // A file in a directory makes that one be watched, whether the file is there or not.
    directories.into_iter().flat_map(|directory| [directory.join(name), directory]).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_directories_that_a_pattern_names_with_stars_are_watched_and_where_new_ones_come() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::create_dir_all(path("a/rules")).unwrap();
        fs::create_dir_all(path("b")).unwrap();
        let mut found = places(&path("*/rules/*.yaml"));
        found.retain(|place| place.is_dir());
        assert_eq!(found, [path("a/rules"), path("a"), path("b"), directory.path().to_owned()]);
        let all = places(&path("*/rules/*.yaml"));
        assert!(all.contains(&path("a/rules/*.yaml")) && all.contains(&path("*.yaml")));
        assert_eq!(places(&path("b/x.yaml")), [path("b/x.yaml"), path("b")]);
        assert_eq!(places(&path("c/x.yaml")), [path("c/x.yaml"), path("c")], "not there yet");
    }
}
