//! Notices when files change. Their directories are watched, not the files: editors replace files, and a directory may
//! be switched as a whole by a symbolic link.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::{
    sync::mpsc::{self, Receiver},
    time::{Instant, timeout_at},
};
use tracing::warn;

use super::files::WatchedFiles;

/// For so long nothing must change any more, so that whoever writes a file has come to its end.
const QUIET: Duration = Duration::from_millis(100);

/// But for so long it may go on changing: somebody may write a log beside the files.
const LONGEST: Duration = Duration::from_secs(1);

/// Watches files.
pub struct Watch {
    watcher: Option<RecommendedWatcher>,
    events: Receiver<()>,
    files: WatchedFiles,
    stamps: Stamps,
    directories: BTreeSet<PathBuf>,
    /// Since when something has happened in the directories that has not been looked at.
    stirred: Option<Instant>,
}

/// What changes when a file does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    length: u64,
    inode: u64,
}

impl Stamp {
    fn of(path: &Path) -> Option<Self> {
        use std::os::unix::fs::MetadataExt as _;
        let found = fs::metadata(path).ok()?;
        Some(Self { modified: found.modified().ok(), length: found.len(), inode: found.ino() })
    }
}

/// Files as they were at a moment: what is read from then on is at least as new.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stamps(BTreeMap<PathBuf, Option<Stamp>>);

impl Stamps {
    /// These files as they are now, whether they are there or not.
    pub fn of(files: impl IntoIterator<Item = PathBuf>) -> Self {
        let files = files.into_iter().filter_map(|file| std::path::absolute(file).ok());
        Self(files.map(|file| (file.clone(), Stamp::of(&file))).collect())
    }

    /// Adds those files that are not among these, as they are now. Returns whether there are any.
    pub fn add(&mut self, files: impl IntoIterator<Item = PathBuf>) -> bool {
        let before = self.0.len();
        for (file, stamp) in Self::of(files).0 {
            self.0.entry(file).or_insert(stamp);
        }
        self.0.len() > before
    }

    /// Those of other files: as they were, if they are among these, else as they are now.
    pub fn for_files(&self, files: impl IntoIterator<Item = PathBuf>) -> Self {
        let mut stamps = Self::of(files);
        for (file, stamp) in &mut stamps.0 {
            if let Some(known) = self.0.get(file) {
                *stamp = *known;
            }
        }
        stamps
    }
}

impl Watch {
    /// Watches nothing yet. Where the system can't watch, it says so once and never notices anything.
    #[must_use]
    pub fn new() -> Self {
        let (sender, events) = mpsc::channel(1);
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // Whether a file has changed is looked at later; reading one is not worth it.
            if event.is_ok_and(|event| !event.kind.is_access()) {
                // If one waits already, that is enough.
                let _ = sender.try_send(());
            }
        });
        let watcher = watcher.inspect_err(cannot_watch).ok();
        Self {
            watcher,
            events,
            files: WatchedFiles::default(),
            stamps: Stamps::default(),
            directories: BTreeSet::new(),
            stirred: None,
        }
    }

    /// Watches these files, or whether they come to be, and no others; they have changed if they are not as they were
    /// then.
    pub fn set(&mut self, files: WatchedFiles, stamps: Stamps) {
        (self.files, self.stamps) = (files, stamps);
        self.watch_directories();
        // What has happened before they were watched is to be looked at too.
        self.stirred = Some(Instant::now());
    }

    /// Watches where the files are now. Returns whether that is elsewhere than before.
    fn watch_directories(&mut self) -> bool {
        let wanted = self.files.places().filter_map(|path| std::path::absolute(path).ok());
        let wanted = wanted.flat_map(|path| directories(&path));
        // One that is not there comes to be in one that is.
        let nearest = |path: PathBuf| path.ancestors().find(|path| path.is_dir()).map(Path::to_owned);
        let directories: BTreeSet<PathBuf> = wanted.filter_map(nearest).collect();
        if let Some(watcher) = &mut self.watcher {
            for gone in self.directories.difference(&directories) {
                // It may be gone indeed.
                let _ = watcher.unwatch(gone);
            }
            for new in &directories {
                // Again, too: it may be another one by that name.
                if let Err(error) = watcher.watch(new, RecursiveMode::NonRecursive) {
                    cannot_watch(&error);
                }
            }
        }
        let have_changed = self.directories != directories;
        self.directories = directories;
        have_changed
    }

    /// Returns when one of the files has changed and nothing changes any more. It may be given up at any time; nothing
    /// is missed then either.
    pub async fn changed(&mut self) {
        loop {
            if self.stirred.is_none() && self.events.recv().await.is_none() {
                // There is no watcher.
                std::future::pending::<()>().await;
            }
            let end = *self.stirred.get_or_insert_with(Instant::now) + LONGEST;
            while timeout_at(end.min(Instant::now() + QUIET), self.events.recv())
                .await
                .is_ok_and(|event| event.is_some())
            {}
            self.stirred = None;
            if tokio::task::block_in_place(|| self.look()) {
                return;
            }
        }
    }

    /// Whether files are not as they were when it was asked last.
    fn look(&mut self) -> bool {
        if self.watch_directories() {
            // More may have come in them before.
            self.stirred = Some(Instant::now());
        }
        let now = self.files.stamps();
        let have_changed = now != self.stamps;
        self.stamps = now;
        have_changed
    }
}

impl Default for Watch {
    fn default() -> Self {
        Self::new()
    }
}

/// The directories in which a change may make a path another file: its own, and those of the links on the way to it.
fn directories(file: &Path) -> Vec<PathBuf> {
    const MOST_LINKS: usize = 16;
    let mut found: Vec<PathBuf> = file.parent().map(Path::to_owned).into_iter().collect();
    let mut waiting: Vec<PathBuf> = file.ancestors().map(Path::to_owned).collect();
    let mut links = 0;
    while let Some(path) = waiting.pop() {
        let Some(directory) = path.parent() else { continue };
        let Ok(target) = fs::read_link(&path) else { continue };
        links += 1;
        if links > MOST_LINKS {
            break;
        }
        found.push(directory.to_owned());
        let target = directory.join(target);
        found.extend(target.parent().map(Path::to_owned));
        waiting.push(target);
    }
    found
}

fn cannot_watch(error: &notify::Error) {
    warn!(%error, "files can't be watched: reload with SIGHUP or `ratelimit reload`");
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn named<const N: usize>(files: [PathBuf; N]) -> WatchedFiles {
        WatchedFiles { named: files.into(), ..WatchedFiles::default() }
    }

    /// Changes something, and expects that it is noticed.
    async fn noticed(watch: &mut Watch, change: impl FnOnce()) {
        change();
        tokio::time::timeout(Duration::from_secs(20), watch.changed()).await.expect("noticed");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn files_that_are_written_replaced_and_made_are_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let (file, other) = (directory.path().join("a"), directory.path().join("b"));
        fs::write(&file, "1").unwrap();
        let mut watch = Watch::new();
        let files = named([file.clone(), other.clone()]);
        watch.set(files.clone(), files.stamps());
        noticed(&mut watch, || fs::write(&file, "12").unwrap()).await;
        noticed(&mut watch, || {
            fs::write(directory.path().join("new"), "21").unwrap();
            fs::rename(directory.path().join("new"), &file).unwrap();
        })
        .await;
        noticed(&mut watch, || fs::write(&other, "").unwrap()).await;
        noticed(&mut watch, || fs::remove_file(&other).unwrap()).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_switched_directory_is_noticed_again_and_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        for version in 0..4 {
            fs::create_dir(path(&format!("..{version}"))).unwrap();
            fs::write(path(&format!("..{version}/a")), version.to_string()).unwrap();
        }
        // As Kubernetes mounts a ConfigMap.
        symlink("..0", path("..data")).unwrap();
        symlink("..data/a", path("a")).unwrap();
        let files = named([path("a")]);
        let mut watch = Watch::new();
        watch.set(files.clone(), files.stamps());
        for version in 1..4 {
            noticed(&mut watch, || {
                symlink(format!("..{version}"), path("..new")).unwrap();
                fs::rename(path("..new"), path("..data")).unwrap();
            })
            .await;
            assert_eq!(fs::read_to_string(path("a")).unwrap(), version.to_string());
            watch.set(files.clone(), files.stamps());
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_changes_before_it_is_watched_counts() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a");
        fs::write(&file, "1").unwrap();
        let files = named([file.clone()]);
        let stamps = files.stamps();
        fs::write(&file, "22").unwrap();
        let mut watch = Watch::new();
        watch.set(files.clone(), stamps.for_files(files.named()));
        watch.changed().await;
    }

    /// A directory `rules` with `a.yaml`, and what a daemon watches that has read it by a pattern, and is named beside
    /// it.
    fn watched(root: &Path) -> (PathBuf, Watch) {
        let rules = root.join("rules");
        fs::create_dir(&rules).unwrap();
        let (file, configuration) = (rules.join("a.yaml"), rules.join("ratelimit.conf"));
        fs::write(&file, "1").unwrap();
        fs::write(&configuration, "1").unwrap();
        let patterns = vec![root.join("r*/*.yaml"), rules.join("*.yaml")];
        let files = WatchedFiles { named: vec![configuration, file.clone()], patterns };
        let mut watch = Watch::new();
        watch.set(files.clone(), Stamps::of(files.named()));
        (file, watch)
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn other_files_beside_those_that_are_watched_change_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let (file, mut watch) = watched(directory.path());
        assert!(!watch.look(), "what was read is what the patterns match");
        let beside = |name: &str| file.with_file_name(name);
        let _socket = std::os::unix::net::UnixListener::bind(beside("control.sock")).unwrap();
        assert!(!watch.look(), "a socket");
        for name in ["state", "state.tmp", "pid", "daemon.log", ".a.yaml.swp", "a.yaml~", ".#a.yaml", "4913"]
        {
            fs::write(beside(name), name).unwrap();
            assert!(!watch.look(), "{name} comes");
            fs::remove_file(beside(name)).unwrap();
            assert!(!watch.look(), "{name} goes");
        }
        fs::create_dir(directory.path().join("rest")).unwrap();
        assert!(!watch.look(), "a directory that a pattern matches, but no file");
        noticed(&mut watch, || fs::write(&file, "12").unwrap()).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn files_that_come_to_match_a_pattern_or_go_are_noticed_in_new_directories_too() {
        let directory = tempfile::tempdir().unwrap();
        let (file, mut watch) = watched(directory.path());
        let new = directory.path().join("rest");
        noticed(&mut watch, || fs::write(file.with_file_name("b.yaml"), "").unwrap()).await;
        noticed(&mut watch, || fs::remove_file(&file).unwrap()).await;
        fs::create_dir(&new).unwrap();
        // Which is nothing in itself, but from then on it is watched.
        assert!(tokio::time::timeout(4 * QUIET, watch.changed()).await.is_err());
        noticed(&mut watch, || fs::write(new.join("c.yaml"), "").unwrap()).await;
        fs::remove_dir_all(&new).unwrap();
        noticed(&mut watch, || ()).await;
        noticed(&mut watch, || {
            fs::create_dir(&new).unwrap();
            fs::write(new.join("c.yaml"), "").unwrap();
        })
        .await;
    }
}
