//! From the words in which the table of keys says what a value is to what a schema can check of it.

use serde_json::{Value, json};

use crate::keys::ValueKind;

/// Kinds of values, by how they begin, and the texts that they accept. Others are any text.
const PATTERNS: [(&str, &str); 6] = [
    ("number/time, or size/time", r"^AMOUNT/TIME$"),
    ("number/time", r"^NUMBER/TIME$"),
    ("number, or size", r"^AMOUNT$"),
    ("number from 0 to 1", r"^[0-9.]+$"),
    ("number", r"^NUMBER$"),
    ("time", r"^(TIME)+$"),
];

/// What stands for what in them.
const PARTS: [(&str, &str); 3] = [
    ("AMOUNT", r"NUMBER(B|[kMG]B|[KMG]iB|[kMG]?bit)?"),
    ("NUMBER", r"[0-9][0-9_]*(\.[0-9]+)?[kM]?"),
    ("TIME", r"[0-9]*[smhdw]"),
];

/// Words between those that a value may be.
const CONNECTIVES: [&str; 9] = ["a", "an", "list", "lists", "mapping", "of", "or", "them", "these"];

/// What a value may be.
pub struct Forms {
    /// A value that is no list and no mapping, if it may be one.
    pub plain: Option<Value>,
    /// A list.
    pub is_list: bool,
    /// A list, and nothing else.
    pub is_list_only: bool,
    /// A mapping, or a list of such.
    pub is_mapping: bool,
}

impl Forms {
    /// As the table of keys says it.
    pub fn of(kind: &ValueKind) -> Self {
        let text = match kind {
            ValueKind::Number(range) => {
                let number = json!({"type": "integer", "minimum": range.least, "maximum": range.most});
                let plain = json!({"anyOf": [number, matching("NUMBER")]});
                return Self { plain: Some(plain), is_list: false, is_list_only: false, is_mapping: false };
            }
            ValueKind::Said(text) => *text,
        };
        let is_list_only = begins(text, "list of mappings") && !text.contains(" or ");
        let has_plain = !is_list_only && !begins(text, "mapping");
        let has = |word: &str| text.split(|c: char| !c.is_alphanumeric()).any(|other| other == word);
        Self {
            plain: has_plain.then(|| plain(text)),
            is_list: has("list"),
            is_list_only,
            is_mapping: has("mapping") || has("mappings"),
        }
    }
}

/// Whether two kinds are the same, but that one may be a list of the other.
pub fn are_alike(one: &ValueKind, other: &ValueKind) -> bool {
    let item = |kind: &ValueKind| match kind {
        ValueKind::Said(text) => Some(text.strip_suffix(", or a list of them").unwrap_or(text)),
        ValueKind::Number(_) => None,
    };
    one == other || item(one).is_some() && item(one) == item(other)
}

/// Whether a text begins with these words.
fn begins(text: &str, words: &str) -> bool {
    text.strip_prefix(words).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
}

fn plain(text: &str) -> Value {
    let choices = choices(text);
    if !choices.is_empty() {
        return json!({"enum": choices.into_iter().flat_map(spellings).collect::<Vec<_>>()});
    }
    let pattern = PATTERNS.iter().find(|(beginning, _)| begins(text, beginning) && !text.contains('`'));
    match pattern {
        Some((beginning, pattern)) if beginning.starts_with("number") && !beginning.contains('/') => {
            json!({"anyOf": [{"type": "number", "minimum": 0}, matching(pattern)]})
        }
        Some((_, pattern)) => matching(pattern),
        None => json!({"type": ["string", "number", "boolean"]}),
    }
}

fn matching(pattern: &str) -> Value {
    let whole = if pattern.starts_with('^') { pattern.to_owned() } else { format!("^{pattern}$") };
    let spelled = PARTS.iter().fold(whole, |pattern, (name, part)| pattern.replace(name, part));
    json!({"type": "string", "pattern": spelled})
}

/// The words in backquotes, if they are all that a value may be.
fn choices(text: &str) -> Vec<&str> {
    let is_word = |word: &&str| word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    let (mut words, mut between) = (Vec::new(), String::new());
    for (index, part) in text.split('`').enumerate() {
        if index % 2 == 1 { words.push(part) } else { between += part }
    }
    let mut said = String::new();
    // What is in parentheses explains a word.
    for (index, part) in between.split(['(', ')']).enumerate() {
        said += if index % 2 == 0 { part } else { " " };
    }
    let mut others = said.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let is_all = words.iter().all(is_word) && others.all(|word| CONNECTIVES.contains(&word));
    if is_all { words } else { Vec::new() }
}

/// A word as text, and as what YAML may take it for: the reader takes values as written.
fn spellings(word: &str) -> Vec<Value> {
    let literal = match word {
        "no" | "off" => json!(false),
        "yes" | "on" => json!(true),
        _ => literal(word),
    };
    let text = json!(word);
    if literal == text { vec![text] } else { vec![literal, text] }
}

/// A value as YAML has it.
pub fn literal(text: &str) -> Value {
    match (text, text.parse::<u64>(), text.parse::<f64>()) {
        ("true", ..) => json!(true),
        ("false", ..) => json!(false),
        (_, Ok(number), _) => json!(number),
        (_, _, Ok(number)) => json!(number),
        _ => json!(text),
    }
}
