//! How long lists are and where they come from, as the daemon's notes have it: a bounded number of short texts.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    policy::ListPart,
    text::{Shown, Thousands},
};

/// Parts of lists that are told apart; others are summed up, for each kind of list.
const MOST_PARTS: usize = 32;

/// Bytes of a path; a longer one shows its end.
const LONGEST_PATH: usize = 100;

/// The part of a list that is from one file, or from the configuration itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListSize {
    /// The key that it is under: `allow`, `deny`, or `match.source` and the like of a rule.
    pub list: String,
    /// The rule that it is of, if it is one's.
    #[serde(default)]
    pub rule: Option<String>,
    /// The file, or `None` for what is written in the configuration itself.
    pub file: Option<String>,
    /// How many prefixes it has, those inside others left out.
    pub prefixes: u64,
    /// Whether the file has become empty, so that these are from before.
    #[serde(default)]
    pub is_kept: bool,
}

/// The sizes of lists.
pub fn sizes(parts: &[ListPart]) -> Vec<ListSize> {
    let (shown, others) = parts.split_at(parts.len().min(MOST_PARTS));
    let mut sizes: Vec<ListSize> = Vec::new();
    shown.iter().for_each(|part| add(&mut sizes, size(part)));
    let mut sums: Vec<(usize, ListSize)> = Vec::new();
    for part in others {
        let ListSize { list, prefixes, is_kept, .. } = size(part);
        match sums.iter_mut().find(|(_, sum)| sum.list == list) {
            Some((count, sum)) => {
                *count += 1;
                sum.prefixes += prefixes;
                sum.is_kept |= is_kept;
            }
            None => sums.push((1, ListSize { list, rule: None, file: None, prefixes, is_kept })),
        }
    }
    sizes
        .extend(sums.into_iter().map(|(count, sum)| ListSize { file: Some(format!("{count} more")), ..sum }));
    sizes
}

/// Paths that look the same when they are cut are one, so that no name is there twice.
fn add(sizes: &mut Vec<ListSize>, new: ListSize) {
    let is_same =
        |known: &&mut ListSize| (&known.list, &known.rule, &known.file) == (&new.list, &new.rule, &new.file);
    match sizes.iter_mut().find(is_same) {
        Some(known) => {
            known.prefixes += new.prefixes;
            known.is_kept |= new.is_kept;
        }
        None => sizes.push(new),
    }
}

fn size(part: &ListPart) -> ListSize {
    let path = part.file.as_ref().map(|file| super::start::absolute(file));
    ListSize {
        list: part.list.key().to_owned(),
        rule: part.list.rule().map(ToString::to_string),
        file: path.map(|path| end_of(Shown(path.display()).to_string())),
        prefixes: part.prefixes.len() as u64,
        is_kept: part.is_kept,
    }
}

fn end_of(path: String) -> String {
    let from = (path.len().saturating_sub(LONGEST_PATH)..).find(|index| path.is_char_boundary(*index));
    match from {
        None | Some(0) => path,
        Some(from) => format!("...{}", &path[from..]),
    }
}

impl fmt::Display for ListSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.list)?;
        if let Some(rule) = &self.rule {
            write!(f, " of {rule}")?;
        }
        let file = self.file.as_deref().unwrap_or("in the configuration");
        write!(
            f,
            ", {file}: {} prefix{}",
            Thousands(self.prefixes),
            if self.prefixes == 1 { "" } else { "es" }
        )?;
        if self.is_kept {
            write!(f, ", from before: the file is empty now")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::policy::{ListPurpose, PrefixList};

    fn part(list: ListPurpose, file: Option<&str>) -> ListPart {
        let prefixes = PrefixList::new(vec!["10.0.0.0/8".parse().unwrap()]);
        ListPart { list, file: file.map(Into::into), prefixes: Arc::new(prefixes), is_kept: false }
    }

    #[test]
    fn each_part_of_a_list_has_a_name_and_a_size() {
        let kept =
            ListPart { is_kept: true, ..part(ListPurpose::Source("web".parse().unwrap()), Some("/b")) };
        let shown: Vec<String> =
            sizes(&[part(ListPurpose::Deny, None), part(ListPurpose::Allow, Some("/a")), kept])
                .iter()
                .map(ToString::to_string)
                .collect();
        assert_eq!(
            shown,
            [
                "deny, in the configuration: 1 prefix",
                "allow, /a: 1 prefix",
                "match.source of web, /b: 1 prefix, from before: the file is empty now",
            ]
        );
    }

    #[test]
    fn what_is_noted_is_bounded() {
        let name = |index: usize| format!("/{}/{index}", "\u{1f600}\n\"".repeat(300));
        let many: Vec<ListPart> =
            (0..1_000).map(|index| part(ListPurpose::Deny, Some(&name(index)))).collect();
        let noted = sizes(&many);
        assert_eq!(noted.len(), MOST_PARTS + 1);
        assert_eq!(noted[MOST_PARTS].to_string(), "deny, 968 more: 968 prefixes");
        assert!(serde_json::to_string(&noted).unwrap().len() < 12_000);
        // Names that are cut to the same text are one.
        let long = "x".repeat(LONGEST_PATH);
        let same =
            [format!("/a/{long}"), format!("/b/{long}")].map(|name| part(ListPurpose::Deny, Some(&name)));
        let [one] = &sizes(&same)[..] else { panic!() };
        assert_eq!((one.prefixes, one.file.as_deref()), (2, Some(&*format!("...{long}"))));
    }
}
