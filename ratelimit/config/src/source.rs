//! The text of a file or of the standard input, or why it can't be had: not a regular file, unreadable, too large, not
//! UTF-8.

use std::{
    fs::{self, File, Metadata},
    io::{self, Read},
    os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _},
    path::Path,
};

use nix::fcntl::OFlag;

use super::{
    error::{At, FieldPath, Report},
    tree::TextPosition,
};

/// Bytes of a file at most. A hundred thousand rules fit; a file given by mistake (a disk image, `/dev/zero`) is
/// refused before it fills the memory.
pub const MOST_BYTES: u64 = 8 << 20;

/// Bytes of a list of prefixes at most: a million of the longest.
pub const MOST_LIST_BYTES: u64 = 64 << 20;

/// Names of the standard input, which may be anything.
const STANDARD_INPUT: [&str; 2] = ["-", "/dev/stdin"];

/// What the shell opens for a command comes as a file in here: `<(...)` is a pipe that somebody writes.
const DESCRIPTORS: &str = "/dev/fd";

/// Why a file's text can't be had.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It can't be read.
    #[error("{0}")]
    Unreadable(String),
    /// It is too large to be meant.
    #[error("larger than {} MiB", .0 >> 20)]
    TooLarge(u64),
    /// It is no text.
    #[error("not UTF-8 text")]
    NotText(TextPosition),
}

/// Reads the whole configuration file.
pub fn read(path: &Path, report: &mut Report) -> Option<String> {
    read_text(path, MOST_BYTES)
        .map_err(|refused| {
            let position =
                if let FileError::NotText(position) = refused { position } else { TextPosition::default() };
            report.error(&At { position, field: FieldPath::default() }, refused);
        })
        .ok()
}

/// Reads a whole file of at most so many bytes.
///
/// # Errors
/// Why it can't be had.
pub fn read_text(path: &Path, most: u64) -> Result<String, FileError> {
    let bytes = read_bytes(path, most).map_err(|error| FileError::Unreadable(unreadable(path, &error)))?;
    if bytes.len() as u64 > most {
        return Err(FileError::TooLarge(most));
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.as_bytes().get(..error.utf8_error().valid_up_to());
        FileError::NotText(end_of(valid.unwrap_or_default()))
    })
}

fn read_bytes(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if STANDARD_INPUT.iter().any(|name| path == Path::new(name)) {
        io::stdin().lock().take(most + 1).read_to_end(&mut bytes)?;
    } else {
        let is_handed_over = path.parent() == Some(Path::new(DESCRIPTORS));
        let file = if is_handed_over { File::open(path) } else { open(path) }?;
        file.take(most + 1).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

/// Neither waits for who may write into a named pipe, nor does to a device what opening does to it.
fn open(path: &Path) -> io::Result<File> {
    check_kind(&fs::metadata(path)?)?;
    let file = File::options().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path)?;
    // It may have become another one.
    check_kind(&file.metadata()?)?;
    Ok(file)
}

fn check_kind(file: &Metadata) -> io::Result<()> {
    let kind = file.file_type();
    let what = if kind.is_dir() {
        "a directory"
    } else if kind.is_fifo() {
        "a named pipe"
    } else if kind.is_socket() {
        "a socket"
    } else if kind.is_file() {
        return Ok(());
    } else {
        "a device"
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, what))
}

fn unreadable(path: &Path, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "no such file".to_owned(),
        io::ErrorKind::InvalidInput => format!("{error}, not a regular file"),
        io::ErrorKind::PermissionDenied => {
            format!("not readable for this user: check the permissions of {}", path.display())
        }
        _ => format!("can't be read: {error}"),
    }
}

/// Where the text after `before` begins.
fn end_of(before: &[u8]) -> TextPosition {
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    let last = before.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    TextPosition { line, column: String::from_utf8_lossy(last).chars().count() + 1 }
}
