//! What is wrong with a file, and where: one [`ConfigError`] for each mistake, gathered in a [`Report`] so that all
//! mistakes of a file are shown at once.
//!
//! It only says and sorts; what counts as a mistake is decided by the stages that read the file.

use std::{fmt, path::Path};

use serde::Serialize;

use super::tree::TextPosition;

/// Mistakes kept of one file; a file with more has one systematic fault, which these show well enough.
const MOST_ERRORS: usize = 1000;

/// Characters of the file's own text that a message repeats.
const QUOTED_CHARACTERS: usize = 60;

/// The path of a field from the top of its file, such as `network.rules[1].rate`; empty for the file as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct FieldPath(String);

impl FieldPath {
    /// The field `key` of this mapping.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        let dot = if self.0.is_empty() { "" } else { "." };
        Self(format!("{}{dot}{}", self.0, printable(key)))
    }

    /// The item `index`, from 0, of this list.
    #[must_use]
    pub fn item(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }

    /// The path as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A place in a file: where it is, and what it is part of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct At {
    /// Line and column.
    pub position: TextPosition,
    /// The field that stands there.
    pub field: FieldPath,
}

/// One mistake, or one warning, in one file.
///
/// It is shown as `FILE:LINE:COLUMN: FIELD: MESSAGE`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{file}:{line}:{column}: {field}{}{message}", if .field.is_empty() { "" } else { ": " })]
pub struct ConfigError {
    /// The file as it was named.
    pub file: String,
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    /// The path of the field; empty for the file as a whole.
    pub field: String,
    /// What is wrong, and what would be right.
    pub message: String,
}

/// The mistakes of a file, in its order, then those of files that it names; at least one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConfigErrors(Vec<ConfigError>);

impl<'e> IntoIterator for &'e ConfigErrors {
    type Item = &'e ConfigError;
    type IntoIter = std::slice::Iter<'e, ConfigError>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl IntoIterator for ConfigErrors {
    type Item = ConfigError;
    type IntoIter = std::vec::IntoIter<ConfigError>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}

/// Gathers what is found wrong with one file while its stages go on.
#[derive(Debug)]
pub struct Report {
    file: String,
    errors: Vec<ConfigError>,
    warnings: Vec<ConfigError>,
    /// Files that this one names.
    others: Vec<Report>,
}

impl Report {
    /// Nothing is wrong with `file` yet.
    #[must_use]
    pub fn new(file: &Path) -> Self {
        Self {
            file: file.display().to_string(),
            errors: Vec::new(),
            warnings: Vec::new(),
            others: Vec::new(),
        }
    }

    /// The file.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Notes a mistake at a place.
    pub fn error(&mut self, at: &At, message: impl fmt::Display) {
        let message = match self.errors.len() {
            0..MOST_ERRORS => message.to_string(),
            MOST_ERRORS => "too many errors; what follows is not shown".to_owned(),
            _ => return,
        };
        let error = self.entry(at, message);
        self.errors.push(error);
    }

    /// Notes what is allowed but may not be what was meant.
    pub fn warning(&mut self, at: &At, message: impl fmt::Display) {
        if self.warnings.len() < MOST_ERRORS {
            let warning = self.entry(at, message.to_string());
            self.warnings.push(warning);
        }
    }

    /// Takes what was found in a file that this one names; it is shown after this one's.
    pub fn absorb(&mut self, other: Self) {
        let known = self.others.iter().map(|other| other.errors.len() + other.warnings.len()).sum::<usize>();
        // That something is wrong must not be lost.
        if known < MOST_ERRORS || (self.is_clean() && !other.is_clean()) {
            self.others.push(other);
        }
    }

    /// Whether nothing has been found wrong so far.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.errors.is_empty() && self.others.iter().all(Self::is_clean)
    }

    /// The result of reading the file: `value` if nothing was wrong, with the warnings; both in file order.
    ///
    /// # Errors
    /// All mistakes that were noted. A missing `value` without a mistake would be a mistake of the reader, and is
    /// reported as one rather than taken for success.
    pub fn finish<T>(mut self, value: Option<T>) -> Result<(T, Vec<ConfigError>), ConfigErrors> {
        if value.is_none() && self.is_clean() {
            self.error(&At::default(), "can't be read");
        }
        let (mut errors, mut warnings) = (Vec::new(), Vec::new());
        self.sorted_into(&mut errors, &mut warnings);
        match value {
            Some(value) if errors.is_empty() => Ok((value, warnings)),
            _ => Err(ConfigErrors(errors)),
        }
    }

    fn sorted_into(mut self, errors: &mut Vec<ConfigError>, warnings: &mut Vec<ConfigError>) {
        // A stable sort: mistakes at one place stay in the order in which they were found.
        self.errors.sort_by_key(|error| (error.line, error.column));
        self.warnings.sort_by_key(|warning| (warning.line, warning.column));
        errors.append(&mut self.errors);
        warnings.append(&mut self.warnings);
        for other in self.others {
            other.sorted_into(errors, warnings);
        }
    }

    fn entry(&self, at: &At, message: String) -> ConfigError {
        ConfigError {
            file: self.file.clone(),
            line: at.position.line,
            column: at.position.column,
            field: at.field.as_str().to_owned(),
            message,
        }
    }
}

/// Text of the file in backquotes, fit to stand in a message.
#[must_use]
pub fn quoted(text: &str) -> String {
    format!("`{}`", printable(text))
}

/// What can't be seen is escaped, so that a file can't write to the terminal, and long text is cut.
pub fn printable(text: &str) -> String {
    let mut shown = String::new();
    for character in text.chars().take(QUOTED_CHARACTERS) {
        match character {
            '\'' | '"' | '\\' => shown.push(character),
            _ => shown.extend(character.escape_debug()),
        }
    }
    if text.chars().nth(QUOTED_CHARACTERS).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(line: usize, column: usize, field: &str) -> At {
        At { position: TextPosition { line, column }, field: FieldPath(field.to_owned()) }
    }

    #[test]
    fn errors_are_shown_one_a_line_in_file_order() {
        let mut report = Report::new(Path::new("a.yaml"));
        report.error(&at(7, 2, "network.rules[1].rate"), "second");
        report.error(&at(3, 1, ""), "first");
        let errors = report.finish(Some(())).unwrap_err();
        assert_eq!(errors.to_string(), "a.yaml:3:1: first\na.yaml:7:2: network.rules[1].rate: second");
    }

    #[test]
    fn errors_are_objects_in_json() {
        let mut report = Report::new(Path::new("a.yaml"));
        report.error(&at(1, 2, "instance"), "wrong");
        let errors = report.finish(None::<()>).unwrap_err();
        assert_eq!(
            serde_json::to_value(&errors).unwrap(),
            serde_json::json!([{"file": "a.yaml", "line": 1, "column": 2, "field": "instance", "message": "wrong"}])
        );
    }

    #[test]
    fn nothing_read_and_nothing_wrong_is_still_an_error() {
        assert!(Report::new(Path::new("a")).finish(None::<()>).is_err());
    }

    #[test]
    fn the_number_of_errors_is_bounded() {
        let mut report = Report::new(Path::new("a"));
        for line in 1..=5000 {
            report.error(&at(line, 1, ""), "wrong");
        }
        let errors = report.finish(None::<()>).unwrap_err();
        assert_eq!(errors.0.len(), MOST_ERRORS + 1);
        assert!(errors.into_iter().last().unwrap().message.contains("too many errors"));
    }

    #[test]
    fn text_of_the_file_cannot_write_to_the_terminal_and_is_cut() {
        assert_eq!(quoted("a\u{1b}[2J\nb"), "`a\\u{1b}[2J\\nb`");
        assert_eq!(quoted("it's \u{202e}ü\\"), "`it's \\u{202e}ü\\`");
        assert_eq!(quoted(&"ü".repeat(61)), format!("`{}…`", "ü".repeat(60)));
        assert_eq!(FieldPath::default().key("a").item(3).key("b\n").as_str(), "a[3].b\\n");
    }
}
