//! Just enough Markdown to follow the links of documents.

use std::ops::Range;

/// A link or a picture outside code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// From 1.
    pub line: usize,
    /// Where in the text its target stands.
    pub target: Range<usize>,
}

/// The links and pictures of a document.
pub fn links(text: &str) -> Vec<Link> {
    let mut found = Vec::new();
    for (number, start, line) in prose(text) {
        let mut is_code = false;
        let mut at = start;
        for (index, part) in line.split("](").enumerate() {
            let is_target = index > 0 && !is_code;
            if let Some((target, _)) = part.split_once(')').filter(|_| is_target) {
                let from = at + target.len() - target.trim_start().len();
                let length = target.split_whitespace().next().unwrap_or_default().len();
                found.push(Link { line: number, target: from..from + length });
            }
            is_code ^= part.matches('`').count() % 2 == 1;
            at += part.len() + "](".len();
        }
    }
    found
}

/// The lines that are not in blocks of code, each with its number from 1 and where it starts in the text.
pub fn prose(text: &str) -> impl Iterator<Item = (usize, usize, &str)> {
    let (mut is_code, mut next) = (false, 0);
    text.split_inclusive('\n').enumerate().filter_map(move |(index, line)| {
        let start = next;
        next += line.len();
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        (!is_code && !is_fence && !line.starts_with("    ")).then(|| (index + 1, start, line.trim_end()))
    })
}

/// Whether a link leads to another site.
pub fn is_elsewhere(target: &str) -> bool {
    target.contains("://") || target.starts_with("mailto:")
}

/// A path as seen from a file, with `.` and `..` resolved.
pub fn resolve(from: &str, file: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in file.trim_end_matches('/').split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}
