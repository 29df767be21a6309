//! The tree of files that a package is made of.

use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

/// A directory that stands for `/`.
pub struct Tree(PathBuf);

impl Tree {
    /// An empty one; what was there before goes.
    pub fn new(root: &Path) -> Result<Self> {
        if root.exists() {
            fs::remove_dir_all(root).with_context(|| format!("removing {}", root.display()))?;
        }
        let tree = Self(root.to_owned());
        tree.directory("")?;
        Ok(tree)
    }

    /// Where it is.
    pub fn root(&self) -> &Path {
        &self.0
    }

    /// Makes a directory, and those on the way to it, whatever the user's mask is.
    pub fn directory(&self, path: &str) -> Result<PathBuf> {
        let mut directory = self.0.clone();
        for part in path.split('/') {
            directory.push(part);
            fs::create_dir_all(&directory).with_context(|| format!("making {}", directory.display()))?;
            fs::set_permissions(&directory, Permissions::from_mode(0o755))?;
        }
        Ok(directory)
    }

    /// Writes a file.
    pub fn write(&self, path: &str, content: &[u8], mode: u32) -> Result<()> {
        self.directory(path.rsplit_once('/').map_or("", |(parent, _)| parent))?;
        let file = self.0.join(path);
        fs::write(&file, content).with_context(|| format!("writing {}", file.display()))?;
        fs::set_permissions(&file, Permissions::from_mode(mode))?;
        Ok(())
    }

    /// Writes a compressed file, without its name and time.
    pub fn write_gz(&self, path: &str, content: &[u8]) -> Result<()> {
        let mut gzip = Command::new("gzip");
        let mut gzip = gzip.args(["-9", "--no-name"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut input = gzip.stdin.take().context("gzip has no standard input")?;
        let content = content.to_owned();
        let writer = std::thread::spawn(move || input.write_all(&content));
        let output = gzip.wait_with_output().context("running gzip")?;
        let written = writer.join().is_ok_and(|written| written.is_ok());
        ensure!(output.status.success() && written, "gzip failed: {}", output.status);
        self.write(path, &output.stdout, 0o644)
    }

    /// Copies a file.
    pub fn copy(&self, path: &str, from: &Path, mode: u32) -> Result<()> {
        let content = fs::read(from).with_context(|| format!("reading {}", from.display()))?;
        self.write(path, &content, mode)
    }

    /// The paths of all files, in order.
    pub fn files(&self) -> Result<Vec<String>> {
        let (mut found, mut directories) = (Vec::new(), vec![self.0.clone()]);
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(&directory)? {
                let path = entry?.path();
                if path.is_dir() {
                    directories.push(path);
                } else {
                    found.push(path.strip_prefix(&self.0)?.to_string_lossy().into_owned());
                }
            }
        }
        found.sort();
        Ok(found)
    }
}
