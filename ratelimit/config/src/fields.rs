//! Typed access to the tree: mappings with known keys, lists, texts. What has the wrong shape is reported and left
//! out, so that the caller goes on and finds the other mistakes.
//!
//! Shapes only: whether a text is a good rate or prefix is for `validate`.

use super::{
    error::{At, FieldPath, Report, printable, quoted},
    rule_file::home_of,
    tree::{MappingEntry, YamlNode, YamlValue},
    words::{hint, nearest},
};

/// A value as text, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocatedText {
    /// As written, without quotes.
    pub text: String,
    /// Where.
    pub at: At,
}

/// One value or a list of them, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocatedTexts {
    /// The values, those of a wrong shape left out.
    pub items: Vec<LocatedText>,
    /// Where the value or the list stands.
    pub at: At,
}

/// A node of the tree and the path that led to it.
#[derive(Clone, Debug)]
pub struct Field<'t> {
    node: &'t YamlNode,
    at: At,
}

impl<'t> Field<'t> {
    /// The top of a file.
    #[must_use]
    pub fn root(node: &'t YamlNode) -> Self {
        Self::new(node, FieldPath::default())
    }

    fn new(node: &'t YamlNode, field: FieldPath) -> Self {
        Self { node, at: At { position: node.position, field } }
    }

    /// Where it stands.
    #[must_use]
    pub fn at(&self) -> &At {
        &self.at
    }

    /// Whether it is a mapping, for values that may be written in two ways.
    #[must_use]
    pub fn is_mapping(&self) -> bool {
        matches!(self.node.value, YamlValue::Map(_))
    }

    /// Whether no value was given.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(&self.node.value, YamlValue::Scalar(scalar) if scalar.is_null())
    }

    /// Where a key of this mapping stands, if this is one and has it.
    #[must_use]
    pub fn key_at(&self, key: &str) -> Option<At> {
        let YamlValue::Map(entries) = &self.node.value else { return None };
        let entry = entries.iter().find(|entry| entry.key.text == key)?;
        Some(At { position: entry.position, field: self.at.field.key(key) })
    }

    /// A single value, as text.
    pub fn text(&self, report: &mut Report) -> Option<LocatedText> {
        match &self.node.value {
            YamlValue::Scalar(scalar) if scalar.is_null() => {
                report.error(&self.at, "has no value");
                None
            }
            YamlValue::Scalar(scalar) => Some(LocatedText { text: scalar.text.clone(), at: self.at.clone() }),
            // In `[::1, fe80::]` YAML takes the last item for a mapping.
            YamlValue::Map(_) => {
                report.error(
                    &self.at,
                    "must be a single value, not a mapping; put quotes around text that has a `:`",
                );
                None
            }
            YamlValue::List(_) => {
                report.error(&self.at, "must be a single value, not a list");
                None
            }
        }
    }

    /// The items of a list.
    pub fn items(&self, report: &mut Report) -> Vec<Field<'t>> {
        self.list().unwrap_or_else(|| {
            report.error(
                &self.at,
                format!("must be a list (in brackets, or with `- `), not {}", self.node.shape()),
            );
            Vec::new()
        })
    }

    /// The items of a list, or a single value as the only one.
    pub fn one_or_more(&self, report: &mut Report) -> Option<LocatedTexts> {
        let items = self.each(|item, report| item.text(report), report)?;
        Some(LocatedTexts { items, at: self.at.clone() })
    }

    /// What can be read of the items of a list, or of a single value as the only one.
    pub fn each<T>(
        &self,
        read: impl Fn(&Self, &mut Report) -> Option<T>,
        report: &mut Report,
    ) -> Option<Vec<T>> {
        match self.list() {
            Some(items) if items.is_empty() => {
                report.error(&self.at, "an empty list; give it an item or leave the key out");
                None
            }
            Some(items) => Some(items.iter().filter_map(|item| read(item, report)).collect()),
            None => Some(vec![read(self, report)?]),
        }
    }

    /// The text of a single value.
    #[must_use]
    pub fn scalar(&self) -> Option<&'t str> {
        match &self.node.value {
            YamlValue::Scalar(scalar) => Some(&scalar.text),
            YamlValue::List(_) | YamlValue::Map(_) => None,
        }
    }

    /// Whether it is text whatever it looks like.
    #[must_use]
    pub fn is_quoted(&self) -> bool {
        matches!(&self.node.value, YamlValue::Scalar(scalar) if scalar.quoted)
    }

    /// The items of a list, if it is one.
    #[must_use]
    pub fn list(&self) -> Option<Vec<Field<'t>>> {
        let YamlValue::List(items) = &self.node.value else { return None };
        Some(items.iter().enumerate().map(|(i, node)| Field::new(node, self.at.field.item(i))).collect())
    }

    /// The keys of a mapping whose keys are not words, as texts, with their values. None if it is something else.
    pub fn entries(&self) -> Vec<(LocatedText, Field<'t>)> {
        let YamlValue::Map(entries) = &self.node.value else { return Vec::new() };
        let entry = |entry: &'t MappingEntry| {
            let field = self.at.field.key(&entry.key.text);
            let at = At { position: entry.position, field: field.clone() };
            (LocatedText { text: entry.key.text.clone(), at }, Field::new(&entry.value, field))
        };
        entries.iter().map(entry).collect()
    }

    /// A mapping of a rule file: of keys that belong `elsewhere`, which do nothing here, the report has warnings.
    pub fn mapping_of_rules(
        &self,
        known: &[&str],
        elsewhere: &[&str],
        report: &mut Report,
    ) -> Option<Mapping<'t>> {
        let entries = self.map_entries(known, report)?;
        for entry in entries {
            let key = entry.key.text.as_str();
            let at = At { position: entry.position, field: self.at.field.key(key) };
            if entry.key.is_typed() {
                report.error(&at, format!("key {} is not a string; put quotes around it", printable(key)));
            } else if !known.contains(&key) && elsewhere.contains(&key) {
                let home = home_of(key);
                report.warning(&at, format!("{} does nothing here: it belongs to {home}", quoted(key)));
            } else if !known.contains(&key) {
                refuse_key(entry, &self.at.field, known, report);
            }
        }
        Some(Mapping { entries, at: self.at.clone() })
    }

    fn map_entries(&self, known: &[&str], report: &mut Report) -> Option<&'t [MappingEntry]> {
        let YamlValue::Map(entries) = &self.node.value else {
            let accepted = known.join(", ");
            report.error(&self.at, format!("must be a mapping (of {accepted}), not {}", self.node.shape()));
            return None;
        };
        Some(entries)
    }

    /// A mapping with no other keys than `known`; others are reported.
    pub fn mapping(&self, known: &[&str], report: &mut Report) -> Option<Mapping<'t>> {
        let entries = self.map_entries(known, report)?;
        for entry in entries.iter().filter(|entry| !known.contains(&entry.key.text.as_str())) {
            refuse_key(entry, &self.at.field, known, report);
        }
        Some(Mapping { entries, at: self.at.clone() })
    }
}

/// The known keys of a mapping.
#[derive(Clone, Debug)]
pub struct Mapping<'t> {
    entries: &'t [MappingEntry],
    at: At,
}

impl<'t> Mapping<'t> {
    /// Where it begins.
    #[must_use]
    pub fn at(&self) -> &At {
        &self.at
    }

    /// Whether it has no key at all, not even an unknown one.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Where a key stands; if it is not there, where the mapping begins.
    #[must_use]
    pub fn at_of(&self, key: &str) -> At {
        let entry = self.entries.iter().find(|entry| entry.key.text == key);
        let position = entry.map_or(self.at.position, |entry| entry.position);
        At { position, field: self.at.field.key(key) }
    }

    /// The value of a key, if it is there.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<Field<'t>> {
        let entry = self.entries.iter().find(|entry| entry.key.text == key)?;
        Some(Field::new(&entry.value, self.at.field.key(key)))
    }

    /// The text of a key, if it is there.
    pub fn text(&self, key: &str, report: &mut Report) -> Option<LocatedText> {
        self.get(key)?.text(report)
    }

    /// The value of a key, or its values, if it is there.
    pub fn texts(&self, key: &str, report: &mut Report) -> Option<LocatedTexts> {
        self.get(key)?.one_or_more(report)
    }

    /// Whether a key was probably meant to be this one, and has been reported as such.
    #[must_use]
    pub fn has_misspelled(&self, key: &str) -> bool {
        self.entries.iter().any(|entry| entry.key.text != key && nearest(&entry.key.text, &[key]).is_some())
    }

    /// The text of a key; it is a mistake if the key is missing. `example` says what it could be.
    pub fn required_text(&self, key: &str, example: &str, report: &mut Report) -> Option<LocatedText> {
        if self.get(key).is_none() && !self.has_misspelled(key) {
            let at = At { position: self.at.position, field: self.at.field.key(key) };
            report.error(&at, format!("missing; add `{key}: {example}`"));
        }
        self.text(key, report)
    }
}

fn refuse_key(entry: &MappingEntry, parent: &FieldPath, known: &[&str], report: &mut Report) {
    let key = entry.key.text.as_str();
    let at = At { position: entry.position, field: parent.key(key) };
    report.error(&at, format!("unknown key {}{}", quoted(key), hint(key, known)));
}
