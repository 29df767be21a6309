//! A YAML file as a tree that still knows where each key and value stood and how each scalar was written, so that
//! every later stage can report all mistakes of a file with line and column, and `value: 404` stays the text `404`.
//!
//! What a key means is not known here.

mod builder;

pub use builder::parse;

/// A line and a column of a file, both from 1; columns count characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
}

impl Default for Position {
    fn default() -> Self {
        Self { line: 1, column: 1 }
    }
}

impl From<granit_parser::Marker> for Position {
    fn from(marker: granit_parser::Marker) -> Self {
        Self { line: marker.line(), column: marker.col() + 1 }
    }
}

/// A value and where it stands. What came through an alias stands where the anchor is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Where it begins.
    pub position: Position,
    /// What it is.
    pub value: Value,
}

/// The three shapes of YAML.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A single value.
    Scalar(Scalar),
    /// A list.
    List(Vec<Node>),
    /// A mapping, in file order, each key once.
    Map(Vec<Entry>),
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
pub struct Entry {
    /// The key.
    pub key: Scalar,
    /// Where the key stands.
    pub position: Position,
    /// Its value.
    pub value: Node,
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

impl Node {
    /// What it is, for messages.
    #[must_use]
    pub fn shape(&self) -> &'static str {
        match &self.value {
            Value::Scalar(scalar) if scalar.is_null() => "nothing",
            Value::Scalar(_) => "a single value",
            Value::List(_) => "a list",
            Value::Map(_) => "a mapping",
        }
    }
}
