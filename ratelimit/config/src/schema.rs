//! JSON Schema (draft 7) of the configuration and of files of rules, for editors: made of the table of keys alone, so
//! that a new key needs nothing here.
//!
//! A schema accepts whatever the reader accepts, and refuses what can be told from shapes and words: whether values go
//! together is for the reader to say (`ratelimit validate`).

mod words;

use serde_json::{Map, Value, json};

use self::words::Forms;
use crate::keys::{self, ConfigKey, LeftOut};

/// What a schema is about.
const CONFIGURATION: (&str, &str) =
    ("Configuration of ratelimit", "`ratelimit validate FILE` also checks what a schema can't say.");
const RULE_FILE: (&str, &str) =
    ("Rules on requests of ratelimit", "In the form of Envoy's rate limit service, with some more keys.");

/// The schema of the configuration.
#[must_use]
pub fn configuration() -> Value {
    KeyTable(keys::all().collect()).schema(CONFIGURATION)
}

/// The schema of a file of rules on requests.
#[must_use]
pub fn rule_file() -> Value {
    KeyTable(keys::of_rule_files().collect()).schema(RULE_FILE)
}

/// The keys of a kind of file, in their order.
struct KeyTable(Vec<&'static ConfigKey>);

impl KeyTable {
    fn schema(&self, (title, description): (&str, &str)) -> Value {
        let Value::Object(mut schema) = self.mapping("") else { return Value::Bool(true) };
        schema.insert("$schema".to_owned(), json!("http://json-schema.org/draft-07/schema#"));
        schema.insert("title".to_owned(), json!(title));
        schema.insert("description".to_owned(), json!(description));
        Value::Object(schema)
    }

    /// The keys directly in the mapping at a path, with their names.
    fn children(&self, parent: &str) -> Vec<(&'static str, &'static ConfigKey)> {
        let name = |key: &'static ConfigKey| match parent {
            "" => Some(key.path),
            _ => key.path.strip_prefix(parent)?.strip_prefix('.'),
        };
        let named = self.0.iter().filter_map(|key| Some((name(key)?, *key)));
        named.filter(|(name, _)| !name.contains(['.', '['])).collect()
    }

    /// A mapping of the keys at a path, and of no others.
    fn mapping(&self, path: &str) -> Value {
        let children = self.children(path);
        let required = children.iter().filter(|(_, key)| key.default == LeftOut::Required);
        let required: Vec<&str> = required.map(|(name, _)| *name).collect();
        let properties = children.iter().map(|(name, key)| ((*name).to_owned(), self.key(key)));
        let properties: Map<String, Value> = properties.collect();
        let mut schema = json!({"type": "object", "properties": properties, "additionalProperties": false});
        if !required.is_empty() {
            schema["required"] = json!(required);
        }
        schema
    }

    /// The value of a key, with what is said of it.
    fn key(&self, key: &'static ConfigKey) -> Value {
        let mut schema = self.value(key);
        schema["description"] = json!(key.meaning);
        match key.default {
            LeftOut::Is(value) => schema["default"] = words::literal(value),
            LeftOut::IsNumber(number) => schema["default"] = json!(number),
            LeftOut::Required | LeftOut::Said(_) => {}
        }
        schema
    }

    fn value(&self, key: &'static ConfigKey) -> Value {
        if let Some(above) = recursive(key.path) {
            return json!({"allOf": [{"$ref": format!("#/properties/{above}")}]});
        }
        let forms = Forms::of(&key.kind);
        let (of_value, of_item) = self.mappings(key, &forms);
        let item: Vec<Value> = forms.plain.iter().cloned().chain(of_item).collect();
        let mut accepted = if forms.is_list_only { Vec::new() } else { item.clone() };
        if forms.is_list {
            accepted.push(json!({"type": "array", "items": any_of(item)}));
        }
        accepted.extend(of_value);
        any_of(accepted)
    }

    /// The mapping that a value may be, and the one that it or an item of it may be. A key that is described elsewhere
    /// ("as in `source`") has those of the key beside it that is described in the same words.
    fn mappings(&self, key: &'static ConfigKey, forms: &Forms) -> (Option<Value>, Option<Value>) {
        let parent = |path: &'static str| path.rsplit_once('.').map(|(parent, _)| parent);
        let is_alike = |other: &&ConfigKey| {
            words::are_alike(&other.kind, &key.kind) && parent(other.path) == parent(key.path)
        };
        let candidates = std::iter::once(key).chain(self.0.iter().copied().filter(is_alike));
        for candidate in candidates {
            let item = format!("{}[]", candidate.path);
            let has = |path: &str| !self.children(path).is_empty();
            let (of_value, of_item) = (has(candidate.path), has(&item));
            if of_value || of_item {
                let mapping = |is_there: bool, path: &str| is_there.then(|| self.mapping(path));
                // A list has such mappings, too.
                if of_value && forms.is_list && candidate.path != key.path {
                    return (None, mapping(true, candidate.path));
                }
                return (mapping(of_value, candidate.path), mapping(of_item, &item));
            }
        }
        let of_anything = json!({"type": "object"});
        match (forms.is_mapping, forms.is_list_only) {
            (false, _) => (None, None),
            (true, true) => (None, Some(of_anything)),
            (true, false) => (Some(of_anything), None),
        }
    }
}

/// The list at the top that a list within its items is like: `descriptors[].descriptors` is like `descriptors`.
fn recursive(path: &str) -> Option<&str> {
    let (parent, name) = path.rsplit_once('.')?;
    parent.strip_suffix("[]").filter(|list| *list == name)
}

fn any_of(mut forms: Vec<Value>) -> Value {
    match forms.len() {
        1 => forms.remove(0),
        _ => json!({"anyOf": forms}),
    }
}
