//! The keys and values that the configuration is going to have and that this version does not act on yet.
//!
//! They are refused, not ignored: a limit that is written down but not in force is worse than an error. What lands
//! is taken off the list; when the list is empty, this file goes.

use super::error::FieldPath;

/// Keys by path, list indices left out; values as `path: value`.
const PENDING: &[&str] = &[
    "application",
    "descriptors",
    "domain",
    "metrics",
    "network.allow[].file",
    "network.deny",
    "network.on_malformed",
    "network.rules[].ban",
    "network.rules[].key: destination",
    "network.rules[].key: flow",
    "network.rules[].key: global",
    "network.rules[].key: source_destination",
    "network.rules[].key.destination",
    "network.rules[].key.flow",
    "network.rules[].key.global",
    "network.rules[].key.source.ipv4: mapping",
    "network.rules[].key.source.ipv6: mapping",
    "network.rules[].key.source_destination",
    "network.rules[].match",
    "network.rules[].new_sources",
];

/// What an error says of something pending.
pub const NOT_SUPPORTED_YET: &str = "not supported yet";

/// Whether this key is to come.
pub fn is_pending_key(field: &FieldPath) -> bool {
    PENDING.contains(&without_indices(field).as_str())
}

/// Whether this value of a key is to come.
pub fn is_pending_value(field: &FieldPath, value: &str) -> bool {
    PENDING.contains(&format!("{}: {value}", without_indices(field)).as_str())
}

fn without_indices(field: &FieldPath) -> String {
    let mut inside = false;
    let keep = |character: &char| {
        inside = match character {
            '[' => true,
            ']' => false,
            _ => inside,
        };
        !inside || *character == '['
    };
    field.as_str().chars().filter(keep).collect()
}
