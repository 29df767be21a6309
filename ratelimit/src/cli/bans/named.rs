//! Who is to be banned or not to be any more: named on the command line, in a file, or both.

use std::{collections::HashSet, path::Path};

use crate::{
    cli::{failure::CommandFailure, output::complain},
    config::read_list,
    dataplane::BanError,
    policy::Prefix,
};

/// Prefixes, and where each stands in the file, if it does.
pub struct Named<'f> {
    file: Option<&'f Path>,
    prefixes: Vec<(Option<usize>, Prefix)>,
}

impl<'f> Named<'f> {
    /// Those given, and those of the file.
    pub fn new(given: Vec<Prefix>, file: Option<&'f Path>) -> Result<Self, CommandFailure> {
        let mut prefixes: Vec<_> = given.into_iter().map(|prefix| (None, prefix)).collect();
        if let Some(file) = file {
            let list = read_list(file).map_err(CommandFailure::wrong_lines)?;
            list.warnings.iter().for_each(|warning| complain(&format_args!("ratelimit: {warning}")));
            prefixes.extend(list.prefixes.into_iter().map(|(line, prefix)| (Some(line), prefix)));
        }
        Ok(Self { file, prefixes })
    }

    /// Looks at each before anything is done; all that are wrong in the file are told at once, with their lines.
    pub fn check(&self, check: impl Fn(&Prefix) -> Result<(), BanError>) -> Result<(), CommandFailure> {
        let mut lines = Vec::new();
        for (line, prefix) in &self.prefixes {
            match (check(prefix), self.file.zip(*line)) {
                (Err(error @ BanError::Everybody(_)), Some((file, line))) => {
                    lines.push(format!("{}:{line}: {error}", file.display()));
                }
                (checked, _) => checked.map_err(failure)?,
            }
        }
        if lines.is_empty() { Ok(()) } else { Err(CommandFailure::wrong_lines(lines)) }
    }

    /// Each once.
    pub fn prefixes(&self) -> Vec<Prefix> {
        let mut seen = HashSet::new();
        self.prefixes.iter().map(|(_, prefix)| *prefix).filter(|prefix| seen.insert(*prefix)).collect()
    }
}

/// What can't be banned is wrong usage.
pub fn failure(error: BanError) -> CommandFailure {
    match error {
        BanError::Everybody(_) | BanError::Length => CommandFailure::wrong_usage(error),
        BanError::Busy | BanError::Dataplane(_) => CommandFailure::failed(error),
    }
}
