//! What a denied request gets to read, if the operator has a page for it.

use std::{path::PathBuf, sync::Arc};

/// A page, or a body for programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DenyBody {
    /// Where it came from.
    pub file: PathBuf,
    /// What it is, by the file's name.
    pub content_type: &'static str,
    /// What it has.
    pub bytes: Arc<[u8]>,
}

impl DenyBody {
    /// How many bytes it has at most: it is sent to whoever is over a limit.
    pub const MOST_BYTES: u64 = 1 << 20;

    /// Endings of names, and what files with them are.
    pub const CONTENT_TYPES: [(&str, &str); 5] = [
        ("html", "text/html; charset=utf-8"),
        ("htm", "text/html; charset=utf-8"),
        ("txt", "text/plain; charset=utf-8"),
        ("json", "application/json"),
        ("xml", "application/xml"),
    ];
}
