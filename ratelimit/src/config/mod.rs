//! The configuration file: read strictly, all mistakes reported at once, each with file, line, column and field.
//!
//! `source -> tree -> raw -> validate -> policy`, each stage a file with what it needs in a directory beside it. Nothing
//! here touches the system beyond reading the file.

mod count;
mod error;
mod fields;
pub mod keys;
pub mod limit;
pub mod match_text;
pub mod numbers;
mod pending;
mod rate;
mod raw;
mod source;
mod tree;
mod validate;
mod warnings;
mod words;

use std::path::Path;

pub use error::{ConfigError, ConfigErrors};
pub use rate::parse_period;

use crate::policy::Policy;
use error::Report;

/// A file that can be put in force, and what may not be meant in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    /// What it says.
    pub policy: Policy,
    /// What is allowed, but worth a look.
    pub warnings: Vec<ConfigError>,
}

/// Reads a configuration file.
///
/// # Errors
/// All mistakes of the file.
pub fn load(path: &Path) -> Result<Policy, ConfigErrors> {
    check(path).map(|checked| checked.policy)
}

/// Reads a configuration file, and says what in it is allowed but worth a look.
///
/// # Errors
/// All mistakes of the file.
pub fn check(path: &Path) -> Result<Checked, ConfigErrors> {
    let mut report = Report::new(path);
    let policy = source::read(path, &mut report).and_then(|text| read(&text, path, &mut report));
    report.finish(policy).map(|(policy, warnings)| Checked { policy, warnings })
}

fn read(text: &str, path: &Path, report: &mut Report) -> Option<Policy> {
    let tree = tree::parse(text, report)?;
    let raw = raw::read(&tree, report)?;
    let policy = validate::validate(&raw, path.parent().unwrap_or(Path::new("")), report)?;
    warnings::find(&raw, &policy, report);
    Some(policy)
}
