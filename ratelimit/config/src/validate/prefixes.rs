//! Lists of prefixes, written into the configuration or in files of their own.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::super::{
    error::{At, Report},
    fields::LocatedText,
    last::LastLists,
    list_file::{self, ListFile},
    raw::RawPrefix,
};
use super::parsed;
use crate::{
    policy::{IpVersion, ListPart, ListPurpose, Prefix, PrefixList},
    text::Thousands,
};

/// Prefixes at most that all rules together have from files in their conditions. The kernel's tries take about 100
/// bytes for each, and a system call.
const MOST_MATCHED: usize = 1 << 20;

/// Reads the files that lists name, each once, and keeps account of them.
pub struct ListReader<'c> {
    directory: &'c Path,
    /// What files had when they were read last.
    last: &'c LastLists,
    read: HashMap<PathBuf, Option<File>>,
    parts: Vec<ListPart>,
    /// Prefixes of conditions so far.
    matched: usize,
}

/// A file that could be read.
#[derive(Clone)]
struct File {
    prefixes: Arc<PrefixList>,
    /// The versions whose addresses it has all, each with the line of the first prefix of these.
    whole: Vec<(IpVersion, usize)>,
    is_kept: bool,
}

impl<'c> ListReader<'c> {
    pub fn new(directory: &'c Path, last: &'c LastLists) -> Self {
        Self { directory, last, read: HashMap::new(), parts: Vec::new(), matched: 0 }
    }

    /// Where all prefixes came from.
    pub fn into_parts(self) -> Vec<ListPart> {
        self.parts
    }

    /// Judges `allow` or `deny`.
    pub fn list(&mut self, list: &ListPurpose, raw: &[RawPrefix], report: &mut Report) -> PrefixList {
        let (mut all, mut inline) = (Vec::new(), Vec::new());
        for item in raw {
            match item {
                RawPrefix::Inline(text) => inline.extend(parsed::<Prefix>(Some(text), report)),
                // Those that are known have been resolved.
                RawPrefix::List(_) => {}
                RawPrefix::File(path) => {
                    let Some(file) = self.file(list, path, report) else { continue };
                    self.warn_of_whole(list, path, &file.whole, report);
                    all.extend(file.prefixes.iter().copied());
                }
            }
        }
        all.extend(&inline);
        if !inline.is_empty() {
            let prefixes = Arc::new(PrefixList::new(inline));
            self.parts.push(ListPart { list: list.clone(), file: None, prefixes, is_kept: false });
        }
        PrefixList::new(all)
    }

    /// Reads a file for a condition; `list` is not known if the rule's name is wrong.
    pub fn matched(
        &mut self,
        list: Option<&ListPurpose>,
        path: &LocatedText,
        report: &mut Report,
    ) -> Option<Arc<PrefixList>> {
        let File { prefixes, .. } = self.file(list?, path, report)?;
        self.matched += prefixes.len();
        if self.matched > MOST_MATCHED {
            let most = Thousands(MOST_MATCHED as u64);
            let message = format!(
                "with this file the conditions of all rules have more than {most} prefixes; longer lists fit into \
                 `allow` and `deny`"
            );
            report.error(&path.at, message);
            return None;
        }
        Some(prefixes)
    }

    fn file(&mut self, list: &ListPurpose, named: &LocatedText, report: &mut Report) -> Option<File> {
        let path = self.directory.join(&named.text);
        let last = self.last;
        let known =
            self.read.entry(path.clone()).or_insert_with_key(|path| read(path, last, &named.at, report));
        let file = known.clone()?;
        let is_it = |part: &ListPart| part.list == *list && part.file.as_ref() == Some(&path);
        if !self.parts.iter().any(is_it) {
            let (prefixes, is_kept) = (Arc::clone(&file.prefixes), file.is_kept);
            self.parts.push(ListPart { list: list.clone(), file: Some(path), prefixes, is_kept });
        }
        Some(file)
    }

    /// As of an inline prefix that is everything.
    fn warn_of_whole(
        &self,
        list: &ListPurpose,
        named: &LocatedText,
        whole: &[(IpVersion, usize)],
        report: &mut Report,
    ) {
        for (version, line) in whole {
            let name = if *version == IpVersion::V4 { "IPv4" } else { "IPv6" };
            let what = match list {
                ListPurpose::Allow => "allows every source: no rule will limit them",
                _ => "drops every packet, except from sources that `allow` names",
            };
            let file = self.directory.join(&named.text);
            report.warning(&named.at, format!("{}:{line}: all of {name}: {what}", file.display()));
        }
    }
}

/// Reads a file; what is wrong with it is reported where it is named.
fn read(path: &Path, last: &LastLists, at: &At, report: &mut Report) -> Option<File> {
    let ListFile { prefixes, warnings, is_blank } = match list_file::read(path) {
        Ok(list) => list,
        Err(mistakes) => {
            mistakes.iter().for_each(|mistake| report.error(at, mistake));
            return None;
        }
    };
    warnings.iter().for_each(|warning| report.warning(at, warning));
    if is_blank {
        let kept = last.of_file(path);
        report.warning(at, list_file::blank(path, kept.as_ref().map(|kept| kept.len())));
        let is_kept = kept.is_some();
        return Some(File { prefixes: kept.unwrap_or_default(), whole: Vec::new(), is_kept });
    }
    let line_of = |version: IpVersion| {
        let is_of = |prefix: &Prefix| prefix.address().is_ipv4() == (version == IpVersion::V4);
        prefixes.iter().filter(|(_, prefix)| is_of(prefix)).min_by_key(|(_, prefix)| prefix.len()).copied()
    };
    let widest = [IpVersion::V4, IpVersion::V6].map(|version| (version, line_of(version)));
    let prefixes = Arc::new(PrefixList::new(prefixes.into_iter().map(|(_, prefix)| prefix).collect()));
    let is_whole = |version| prefixes.has_all_of(version);
    let whole = widest.into_iter().filter(|(version, _)| is_whole(*version));
    let whole = whole.filter_map(|(version, widest)| Some((version, widest?.0))).collect();
    Some(File { prefixes, whole, is_kept: false })
}
