//! The configuration file: read strictly, all mistakes reported at once, each with file, line, column and field.
//!
//! `source -> tree -> raw -> validate -> policy`, each stage a file with what it needs in a directory beside it.
//! Nothing here touches the system beyond reading the file.
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod count;
mod document;
mod error;
mod fields;
pub mod keys;
mod last;
pub mod limit;
mod list_file;
mod rate;
mod raw;
mod references;
mod rule_file;
pub mod schema;
mod source;
mod tree;
mod validate;
mod warnings;
mod words;

use std::path::{Path, PathBuf};

pub use error::{ConfigError, ConfigErrors};
pub use last::LastLists;
pub use list_file::{ListFile, read as read_list};
pub use rate::parse_time;
pub use references::{Reference, ReferenceCheck, Unusable};
pub use validate::{BanLengthError, matching_files, parse_ban_length};

use ratelimit_limiter::text;
use ratelimit_policy as policy;
pub use ratelimit_policy::{match_text, numbers};

use crate::policy::{Policy, application::RuleSet};
use error::Report;
use rule_file::FileSet;
use tree::YamlNode;

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
    check_again(path, &LastLists::default())
}

/// The same for a file that was read before. Files of prefixes that have become empty since keep what they had then.
///
/// # Errors
/// All mistakes of the file.
pub fn check_again(path: &Path, last: &LastLists) -> Result<Checked, ConfigErrors> {
    let mut report = Report::new(path);
    let policy =
        document::read(path, &mut report).and_then(|tree| read(&tree, path, last, &|_| Ok(()), &mut report));
    report.finish(policy).map(|(policy, warnings)| Checked { policy, warnings })
}

/// Files of rules on requests that go together, and what may not be meant in them.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckedRules {
    /// What they say.
    pub rules: RuleSet,
    /// What is allowed, but worth a look.
    pub warnings: Vec<ConfigError>,
}

/// Reads files of rules on requests, as a configuration that names them does.
///
/// # Errors
/// All mistakes of all files.
pub fn check_rules(files: &[PathBuf], merge_domains: bool) -> Result<CheckedRules, ConfigErrors> {
    // What is wrong with all of them together is said of one.
    let mut report = Report::new(files.first().map_or(Path::new(""), PathBuf::as_path));
    let (rules, _) =
        rule_file::read_all(files, merge_domains, (&LastLists::default(), None), None, &mut report);
    report.finish(Some(rules)).map(|(rules, warnings)| CheckedRules { rules, warnings })
}

/// What a file on the command line turned out to be.
#[derive(Clone, Debug, PartialEq)]
pub enum CheckedFile {
    /// A configuration.
    Configuration(Box<Checked>),
    /// A file of rules on requests.
    Rules {
        /// How many limits it has.
        limits: usize,
        /// What is allowed, but worth a look.
        warnings: Vec<ConfigError>,
    },
}

/// Reads files of either kind, each once; all files of rules among them are one set. What they name is judged.
pub fn check_files(
    files: &[PathBuf],
    merge_domains: bool,
    judge: ReferenceCheck<'_>,
) -> Vec<Result<CheckedFile, ConfigErrors>> {
    enum Found {
        Rules(Option<usize>),
        Configuration(Option<Box<Policy>>),
    }
    let mut set = FileSet::new(merge_domains, &LastLists::default(), None);
    let mut reports: Vec<Report> = files.iter().map(|file| Report::new(file)).collect();
    let read = |(index, (file, report)): (usize, (&PathBuf, &mut Report))| match document::read(file, report)
    {
        Some(tree) if rule_file::is_one(&tree) => Found::Rules(set.add(&tree, index, file, report)),
        tree => Found::Configuration(
            tree.and_then(|tree| read(&tree, file, &LastLists::default(), judge, report)).map(Box::new),
        ),
    };
    let found: Vec<Found> = files.iter().zip(&mut reports).enumerate().map(read).collect();
    set.warn(&mut reports);
    let finish = |(found, report): (Found, Report)| match found {
        Found::Rules(limits) => {
            report.finish(limits).map(|(limits, warnings)| CheckedFile::Rules { limits, warnings })
        }
        Found::Configuration(policy) => report.finish(policy).map(|(policy, warnings)| {
            CheckedFile::Configuration(Box::new(Checked { policy: *policy, warnings }))
        }),
    };
    found.into_iter().zip(reports).map(finish).collect()
}

fn read(
    tree: &YamlNode,
    path: &Path,
    last: &LastLists,
    judge: ReferenceCheck<'_>,
    report: &mut Report,
) -> Option<Policy> {
    let mut raw = raw::read(tree, report)?;
    let policy = validate::validate(&mut raw, path.parent().unwrap_or(Path::new("")), last, report)?;
    references::check(&raw, &policy, judge, report);
    warnings::find(&raw, &policy, report);
    Some(policy)
}
