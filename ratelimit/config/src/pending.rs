//! The keys that the configuration is going to have and that this version does not act on yet.
//!
//! They are refused, not ignored: a limit that is written down but not in force is worse than an error. What lands
//! is taken off the list; when the list is empty, this file goes.

use super::error::FieldPath;

/// Keys by path, list indices left out.
const PENDING: &[&str] = &["application.store.redis"];

/// What an error says of something pending.
pub const NOT_SUPPORTED_YET: &str = "not supported yet";

/// Whether this key is to come.
pub fn is_pending_key(field: &FieldPath) -> bool {
    PENDING.contains(&without_indices(field).as_str())
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
