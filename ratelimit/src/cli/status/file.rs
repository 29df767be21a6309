//! Whether the configuration file is in force as it is now, and what to do if it is not.

use std::{
    fmt, fs,
    path::Path,
    time::{Duration, SystemTime},
};

use serde::Serialize;

use crate::control::{LastReload, when_in_effect};

/// Lines of an error that are shown.
const MOST_LINES: usize = 5;

/// The configuration file, and whether it is in force as it is now.
#[derive(Debug, Serialize)]
pub struct FileState {
    #[serde(skip)]
    config: String,
    /// What came of the last reload; `None` if there has been none, or no daemon says so.
    last_reload: Option<LastReload>,
    /// Whether it is in force as it is now.
    pub file_in_force: bool,
}

impl FileState {
    /// By what a daemon answers of its last reload. If none does, by when the file was changed: `since` is when it was
    /// put in force, in seconds since the Unix epoch.
    pub fn of(answered: Option<Option<LastReload>>, config: &str, since: u64) -> Self {
        let is_unread = answered.is_none() && has_changed(Path::new(config), since);
        let last_reload = answered.flatten();
        let file_in_force = !is_unread && last_reload.as_ref().is_none_or(LastReload::is_whole);
        Self { config: config.to_owned(), last_reload, file_in_force }
    }
}

/// Whether a file was changed after that second. What came through a stream can't be read again.
fn has_changed(config: &Path, since: u64) -> bool {
    let is_stream = ["/dev", "/proc"].iter().any(|place| config.starts_with(place));
    let changed = fs::metadata(config).and_then(|found| found.modified());
    let second = SystemTime::UNIX_EPOCH + Duration::from_secs(since.saturating_add(1));
    !is_stream && changed.is_ok_and(|changed| changed >= second)
}

/// A warning if it is not in force, and nothing if it is.
impl fmt::Display for FileState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { config, last_reload, file_in_force } = self;
        if *file_in_force {
            return Ok(());
        }
        let Some(reload) = last_reload else {
            let how = format_args!("`ratelimit run --config {config}` puts it in force");
            return writeln!(f, "warning     the file has changed since: {how}");
        };
        let Some(error) = &reload.error else {
            let (keys, when) = (reload.needs_restart.join("`, `"), when_in_effect(&reload.needs_restart));
            return writeln!(f, "warning     the file has changed in `{keys}`, which takes effect {when}");
        };
        writeln!(f, "warning     the file is not in force as it is now: the last reload failed")?;
        let lines: Vec<&str> = error.lines().collect();
        lines.iter().take(MOST_LINES).try_for_each(|line| writeln!(f, "            {line}"))?;
        if let Some(more) = lines.len().checked_sub(MOST_LINES).filter(|more| *more > 0) {
            writeln!(f, "            and {more} more lines: `ratelimit validate {config}` shows all")?;
        }
        writeln!(f, "            once it is mended, saving it or `ratelimit reload` puts it in force")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reload(error: Option<&str>, needs_restart: &[&str]) -> LastReload {
        LastReload {
            reason: "SIGHUP".to_owned(),
            at: 0,
            error: error.map(str::to_owned),
            needs_restart: needs_restart.iter().map(|key| (*key).to_owned()).collect(),
        }
    }

    #[test]
    fn what_keeps_a_file_out_of_force_is_said_with_what_to_do() {
        let shown = |reload| FileState::of(Some(reload), "/etc/r.yaml", 0).to_string();
        assert_eq!(shown(None) + &shown(Some(reload(None, &[]))), "");
        let restart = shown(Some(reload(None, &["control", "network.table_size"])));
        assert!(restart.starts_with("warning     the file has changed in `control`, `network.table_size`"));
        assert!(restart.contains("takes effect after `ratelimit detach`"), "{restart}");
        let restart = shown(Some(reload(None, &["control"])));
        assert!(restart.contains("takes effect when the daemon starts again"), "{restart}");
        let failed = shown(Some(reload(Some("/etc/r.yaml:1:2: bad"), &[])));
        let lines: Vec<&str> = failed.lines().collect();
        assert_eq!((lines.len(), lines[1]), (3, "            /etc/r.yaml:1:2: bad"), "{failed}");
        let many = shown(Some(reload(Some(&"bad\n".repeat(9)), &[])));
        assert_eq!(many.lines().count(), 8, "{many}");
        assert!(many.contains("and 4 more lines: `ratelimit validate /etc/r.yaml`"), "{many}");
    }

    #[test]
    fn without_a_daemon_it_is_looked_when_the_file_was_changed() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        let shown = |answered, path: &str, since| FileState::of(answered, path, since).to_string();
        let command = format!("`ratelimit run --config {path}` puts it in force");
        assert!(shown(None, path, now - 60).contains(&command));
        assert_eq!(shown(None, path, now + 60), "");
        assert_eq!(shown(Some(None), path, now - 60), "", "whoever answers knows better");
        assert_eq!(shown(None, "/dev/stdin", 0) + &shown(None, "/nowhere", 0), "");
    }
}
