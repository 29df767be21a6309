//! A YAML file as a tree that still knows where each key and value stood and how each scalar was written, so that
//! every later stage can report all mistakes of a file with line and column, and `value: 404` stays the text `404`.
//!
//! What a key means is not known here.

mod builder;

pub use builder::parse;

/// A line and a column of a file, both from 1; columns count characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TextPosition {
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
}

impl Default for TextPosition {
    fn default() -> Self {
        Self { line: 1, column: 1 }
    }
}

impl From<granit_parser::Marker> for TextPosition {
    fn from(marker: granit_parser::Marker) -> Self {
        Self { line: marker.line(), column: marker.col() + 1 }
    }
}

/// A value and where it stands. What came through an alias stands where the anchor is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct YamlNode {
    /// Where it begins.
    pub position: TextPosition,
    /// What it is.
    pub value: YamlValue,
}

/// The three shapes of YAML.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum YamlValue {
    /// A single value.
    Scalar(Scalar),
    /// A list.
    List(Vec<YamlNode>),
    /// A mapping, in file order, each key once.
    Map(Vec<MappingEntry>),
}

/// A single value as it was written; nobody has taken it for a number yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scalar {
    /// The text, without quotes.
    pub text: String,
    /// In quotes, a block, or tagged `!!str`: text even if it looks like a number or null.
    pub quoted: bool,
}

/// A key of a mapping and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappingEntry {
    /// The key.
    pub key: Scalar,
    /// Where the key stands.
    pub position: TextPosition,
    /// Its value.
    pub value: YamlNode,
}

impl Scalar {
    /// Whether no value was given: nothing, `~` or `null`.
    #[must_use]
    pub fn is_null(&self) -> bool {
        !self.quoted && matches!(self.text.as_str(), "" | "~" | "null" | "Null" | "NULL")
    }
}

impl Scalar {
    /// Whether YAML takes it for something else than text: a number, a truth value or nothing.
    #[must_use]
    pub fn is_typed(&self) -> bool {
        let is_number = || {
            let digits = self.text.trim_start_matches(['+', '-', '.']);
            digits.starts_with(|c: char| c.is_ascii_digit()) && self.text.parse::<f64>().is_ok()
        };
        let is_truth = || matches!(self.text.to_ascii_lowercase().as_str(), "true" | "false");
        !self.quoted && (self.is_null() || is_truth() || is_number())
    }
}

impl YamlNode {
    /// What it is, for messages.
    #[must_use]
    pub fn shape(&self) -> &'static str {
        match &self.value {
            YamlValue::Scalar(scalar) if scalar.is_null() => "nothing",
            YamlValue::Scalar(_) => "a single value",
            YamlValue::List(_) => "a list",
            YamlValue::Map(_) => "a mapping",
        }
    }
}
