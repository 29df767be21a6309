//! Reads the configuration again when somebody asks for it, or when its files change. That has a task of its own,
//! because a file system can hang: signals and commands do not wait for it.

use ratelimit_common::time::Nanos;
use tokio::{
    sync::{mpsc, oneshot},
    task::block_in_place,
};

use super::{
    ConfigSource,
    files::WatchedFiles,
    tell,
    watch::{Stamps, Watch},
};
use crate::{
    config::{Checked, LastLists},
    control::CommandReply,
};

/// Reloads that may wait for others. One that finds no room is not needed: those that wait are read later than now.
const MOST_WAITING: usize = 16;

/// What is to be read for.
#[derive(Debug)]
pub struct ReloadRequest {
    /// Who or what asks, for the log.
    pub reason: &'static str,
    /// How long it is to be on trial, if at all.
    pub trial: Option<Nanos>,
    /// Where the answer goes, if somebody waits for one.
    pub answer: Option<CommandReply>,
}

/// What was read.
#[derive(Debug)]
pub struct ReadResult {
    /// For whom.
    pub reload: ReloadRequest,
    /// The policy, or why there is none.
    pub read: Result<Checked, String>,
    /// Takes back whether it is in force: then its files are watched, else those from before.
    pub is_taken: oneshot::Sender<bool>,
}

/// The reader, for those who ask it.
#[derive(Debug)]
pub struct ConfigReader {
    asked: mpsc::Sender<ReloadRequest>,
    found: mpsc::Receiver<ReadResult>,
}

impl ReloadRequest {
    /// Without a trial, and nobody waits for it.
    pub const fn because(reason: &'static str) -> Self {
        Self { reason, trial: None, answer: None }
    }
}

impl ConfigReader {
    /// Starts it. The policy in force is of these files, as they were when it was read, and has these lists.
    pub fn start(source: ConfigSource, files: WatchedFiles, stamps: Stamps, lists: LastLists) -> Self {
        let (asked, asks) = mpsc::channel(MOST_WAITING);
        let (sender, found) = mpsc::channel(1);
        tokio::spawn(read(source, files, stamps, lists, asks, sender));
        Self { asked, found }
    }

    /// Asks for a reload; gives it back if too many wait already.
    pub fn ask(&self, reload: ReloadRequest) -> Result<(), ReloadRequest> {
        self.asked.try_send(reload).map_err(mpsc::error::TrySendError::into_inner)
    }

    /// What was read next.
    pub async fn found(&mut self) -> Option<ReadResult> {
        self.found.recv().await
    }
}

/// Ends with whoever asks.
async fn read(
    source: ConfigSource,
    mut files: WatchedFiles,
    stamps: Stamps,
    mut lists: LastLists,
    mut asks: mpsc::Receiver<ReloadRequest>,
    found: mpsc::Sender<ReadResult>,
) {
    let mut watch = Watch::new();
    block_in_place(|| watch.set(files.clone(), stamps));
    loop {
        let reload = tokio::select! {
            asked = asks.recv() => asked,
            () = watch.changed() => Some(ReloadRequest::because("a file has changed")),
        };
        let Some(reload) = reload else { return };
        let now = sd_notify::NotifyState::monotonic_usec_now().ok();
        tell(&[Some(sd_notify::NotifyState::Reloading), now].into_iter().flatten().collect::<Vec<_>>());
        let (mut before, read) = block_in_place(|| read_files(&source, &files, &lists));
        let new = read.as_ref().ok().map(|checked| &checked.policy);
        let new = new.map(|policy| (WatchedFiles::of(&source, policy), LastLists::of(policy)));
        let (is_taken, taken) = oneshot::channel();
        if found.send(ReadResult { reload, read, is_taken }).await.is_err() {
            return;
        }
        if let (Ok(true), Some(new)) = (taken.await, new) {
            before = block_in_place(|| before.for_files(new.0.named()));
            (files, lists) = new;
        }
        block_in_place(|| watch.set(files.clone(), before));
    }
}

/// Reads all files, and says how they were before. Which ones there are is only known then: if some are named for the
/// first time, they are looked at, and all are read once more, or a change in between would not be noticed.
fn read_files(
    source: &ConfigSource,
    files: &WatchedFiles,
    lists: &LastLists,
) -> (Stamps, Result<Checked, String>) {
    let mut before = files.stamps();
    let read = source.read_again(lists);
    let named = read.as_ref().ok().map(|checked| WatchedFiles::of(source, &checked.policy));
    let is_new = named.is_some_and(|files| before.add(files.named()));
    (before, if is_new { source.read_again(lists) } else { read })
}

#[cfg(test)]
mod tests {
    //! Files that a reload names for the first time.

    use std::fs;

    use super::*;

    #[test]
    fn a_file_that_is_named_for_the_first_time_is_looked_at_before_it_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let rules = |value: &str| {
            format!(
                "domain: d\ndescriptors: [{{key: k, {value}, rate_limit: {{unit: day, requests_per_unit: 1}}}}]\n"
            )
        };
        fs::write(path("rules.yaml"), rules("value: v")).unwrap();
        fs::write(path("list.txt"), "192.0.2.0/24\n").unwrap();
        let source = ConfigSource { config: path("ratelimit.yaml"), interfaces: Vec::new() };
        fs::write(&source.config, "application: {rules: [rules.yaml]}\n").unwrap();
        let files = WatchedFiles::of(&source, &source.read().unwrap().policy);

        fs::write(path("rules.yaml"), rules("value_in: [{file: list.txt}]")).unwrap();
        let (before, read) = read_files(&source, &files, &LastLists::default());
        let files = WatchedFiles::of(&source, &read.unwrap().policy);
        fs::write(path("list.txt"), "198.51.100.0/24\n").unwrap();
        assert_ne!(before.for_files(files.named()), files.stamps());
    }
}
