//! The text of a file, or why it can't be had: a directory, unreadable, too large, not UTF-8.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use super::{
    error::{At, FieldPath, Report},
    tree::Position,
};

/// Bytes of a file at most. A hundred thousand rules fit; a file given by mistake (a disk image, `/dev/zero`) is
/// refused before it fills the memory.
pub const MOST_BYTES: u64 = 8 << 20;

/// Reads the whole file, a pipe too.
pub fn read(path: &Path, report: &mut Report) -> Option<String> {
    let bytes = match read_bytes(path) {
        Ok(bytes) => bytes,
        Err(error) => {
            report.error(&At::default(), unreadable(path, &error));
            return None;
        }
    };
    if bytes.len() as u64 > MOST_BYTES {
        report.error(&At::default(), format!("larger than {} MiB", MOST_BYTES >> 20));
        return None;
    }
    match String::from_utf8(bytes) {
        Ok(text) => Some(text),
        Err(error) => {
            let position =
                end_of(error.as_bytes().get(..error.utf8_error().valid_up_to()).unwrap_or_default());
            report.error(&At { position, field: FieldPath::default() }, "not UTF-8 text");
            None
        }
    }
}

fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    // Opening a directory succeeds, reading it says less clearly what is wrong.
    if file.metadata()?.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let mut bytes = Vec::new();
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn unreadable(path: &Path, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "no such file".to_owned(),
        io::ErrorKind::IsADirectory => "a directory, not a file".to_owned(),
        io::ErrorKind::PermissionDenied => {
            format!("not readable for this user: check the permissions of {}", path.display())
        }
        _ => format!("can't be read: {error}"),
    }
}

/// Where the text after `before` begins.
fn end_of(before: &[u8]) -> Position {
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    let last = before.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    Position { line, column: String::from_utf8_lossy(last).chars().count() + 1 }
}
