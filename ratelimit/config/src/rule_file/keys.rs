//! Which keys stand where in a file of rules. One that belongs elsewhere does nothing, and is a warning: other readers
//! of these files take it without a word.

use crate::{
    error::Report,
    fields::{Field, Mapping},
    keys::names_of_rule_files,
};

/// The mappings of a rule file, as the table of keys has them.
const MAPPINGS: [&str; 7] = [
    "",
    "descriptors[]",
    "descriptors[].value_in[]",
    "descriptors[].rate_limit",
    "descriptors[].rate_limit.ban",
    "descriptors[].rate_limit.ban.prefix",
    "descriptors[].rate_limit.replaces[]",
];

/// Reads the mapping of this kind.
pub fn read_mapping<'t>(field: &Field<'t>, kind: &str, report: &mut Report) -> Option<Mapping<'t>> {
    let here = names_of_rule_files(kind);
    let everywhere: Vec<&str> = MAPPINGS.into_iter().flat_map(names_of_rule_files).collect();
    field.mapping_of_rules(&here, &everywhere, report)
}

/// Where a key belongs, for messages.
#[must_use]
pub fn home_of(key: &str) -> &'static str {
    let home = MAPPINGS.into_iter().find(|mapping| names_of_rule_files(mapping).contains(&key));
    match home {
        Some("") => "the top of the file",
        Some("descriptors[]") => "a descriptor",
        Some("descriptors[].value_in[]") => "an item of `value_in`",
        Some("descriptors[].rate_limit") => "`rate_limit`",
        Some("descriptors[].rate_limit.ban") => "`ban`",
        Some("descriptors[].rate_limit.ban.prefix") => "`prefix`",
        _ => "`replaces`",
    }
}
