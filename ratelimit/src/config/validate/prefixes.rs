//! Lists of prefixes, written into the configuration or in files of their own: one prefix a line, `#` begins a comment.

use std::path::{Path, PathBuf};

use super::super::{
    error::{Report, quoted},
    fields::Text,
    raw::RawPrefix,
    source::{self, MOST_LIST_BYTES},
};
use super::parsed;
use crate::policy::{Prefix, PrefixError, PrefixList};

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
    match read_file(file) {
        Ok(found) => prefixes.extend(found.into_iter().map(|(_, prefix)| prefix)),
        Err(mistakes) => mistakes.iter().for_each(|mistake| report.error(&named.at, mistake)),
    }
}

/// Reads a file of prefixes; each comes with its line.
///
/// # Errors
/// All mistakes of the file, each with its place.
pub fn read_file(file: &Path) -> Result<Vec<(usize, Prefix)>, Vec<String>> {
    let at = file.display();
    let text =
        source::read_text(file, MOST_LIST_BYTES).map_err(|refused| vec![format!("{at}: {refused}")])?;
    let (mut prefixes, mut mistakes, mut more) = (Vec::new(), Vec::new(), 0_usize);
    for (line, text) in (1..).zip(text.lines()) {
        let prefix = text.split('#').next().unwrap_or_default().trim();
        match prefix.parse() {
            _ if prefix.is_empty() => {}
            Ok(prefix) => prefixes.push((line, prefix)),
            Err(_) if mistakes.len() == MOST_MISTAKES => more += 1,
            Err(error) => {
                let error: PrefixError = error;
                mistakes.push(format!("{at}:{line}: {}: {error}", quoted(prefix)));
            }
        }
    }
    if more > 0 {
        mistakes.push(format!("{at}: {more} more such lines"));
    }
    if mistakes.is_empty() { Ok(prefixes) } else { Err(mistakes) }
}
