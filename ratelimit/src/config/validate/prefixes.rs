//! Lists of prefixes, written into the configuration or in files of their own: one prefix a line, `#` begins a comment.

use std::path::{Path, PathBuf};

use super::super::{
    error::{Report, quoted},
    fields::Text,
    raw::RawPrefix,
    source::{self, MOST_LIST_BYTES},
};
use super::parsed;
use crate::policy::{Prefix, PrefixList};

/// Mistakes shown of one file.
const MOST_MISTAKES: usize = 20;

/// Judges a list; the files that it names are added to `files`.
pub fn validate(
    raw: &[RawPrefix],
    directory: &Path,
    files: &mut Vec<PathBuf>,
    report: &mut Report,
) -> PrefixList {
    let mut prefixes = Vec::new();
    for item in raw {
        match item {
            RawPrefix::Inline(text) => prefixes.extend(parsed::<Prefix>(Some(text), report)),
            RawPrefix::File(path) => {
                let file = directory.join(&path.text);
                read(&file, path, &mut prefixes, report);
                files.push(file);
            }
        }
    }
    PrefixList::new(prefixes)
}

fn read(file: &Path, named: &Text, prefixes: &mut Vec<Prefix>, report: &mut Report) {
    let text = match source::read_text(file, MOST_LIST_BYTES) {
        Ok(text) => text,
        Err(refused) => {
            report.error(&named.at, format!("{}: {refused}", file.display()));
            return;
        }
    };
    let mut mistakes = 0_usize;
    for (line, text) in (1..).zip(text.lines()) {
        let prefix = text.split('#').next().unwrap_or_default().trim();
        if prefix.is_empty() {
            continue;
        }
        match prefix.parse() {
            Ok(prefix) => prefixes.push(prefix),
            Err(error) => {
                mistakes += 1;
                if mistakes <= MOST_MISTAKES {
                    report
                        .error(&named.at, format!("{}:{line}: {}: {error}", file.display(), quoted(prefix)));
                }
            }
        }
    }
    if mistakes > MOST_MISTAKES {
        report.error(&named.at, format!("{}: {} more such lines", file.display(), mistakes - MOST_MISTAKES));
    }
}
