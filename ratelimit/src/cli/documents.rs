//! `ratelimit schema`, `completions` and `man`: what the program says of itself to editors, shells and the manual.

mod manual;

use std::{fs, io, path::PathBuf};

use clap::{Args, CommandFactory as _, ValueEnum};
use serde_json::json;

use super::{
    Cli, answer_with,
    failure::CommandFailure,
    output::{Output, write},
};
use crate::config::schema;

/// Prints the JSON Schema of the configuration, with which editors complete and check files.
#[derive(Debug, Args)]
pub struct Schema {
    /// The kind of files that the schema is for.
    #[arg(value_enum, default_value_t, value_name = "KIND")]
    kind: SchemaKind,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum SchemaKind {
    /// The configuration.
    #[default]
    Configuration,
    /// Rules on requests.
    Rules,
}

impl Schema {
    /// Prints it.
    ///
    /// # Errors
    /// It can't be written.
    pub fn run(self) -> Result<(), CommandFailure> {
        let schema = match self.kind {
            SchemaKind::Configuration => schema::configuration(),
            SchemaKind::Rules => schema::rule_file(),
        };
        write(&format_args!("{schema:#}\n")).map_err(|error| failed("writing the schema", &error))
    }
}

/// Prints completions of the command line for a shell.
#[derive(Debug, Args)]
pub struct Completions {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Shell {
    Bash,
    Fish,
    Zsh,
}

impl Completions {
    /// Prints them.
    ///
    /// # Errors
    /// They can't be written.
    pub fn run(self) -> Result<(), CommandFailure> {
        let shell = match self.shell {
            Shell::Bash => clap_complete::Shell::Bash,
            Shell::Fish => clap_complete::Shell::Fish,
            Shell::Zsh => clap_complete::Shell::Zsh,
        };
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut Cli::command(), "ratelimit", &mut text);
        write(&String::from_utf8_lossy(&text)).map_err(|error| failed("writing the completions", &error))
    }
}

/// Writes the pages of the manual: one for each command, and one for the configuration.
#[derive(Debug, Args)]
pub struct Man {
    /// The directory to write to, such as /usr/local/share/man; pages go to man1 and man5 below it.
    #[arg(value_name = "DIRECTORY")]
    directory: PathBuf,
}

impl Man {
    /// Writes them.
    ///
    /// # Errors
    /// They can't be written.
    pub fn run(self, output: Output) -> Result<(), CommandFailure> {
        let written = self.write().map_err(|error| failed(&self.directory.display().to_string(), &error))?;
        let text = format!("{} pages in {}\n", written.len(), self.directory.display());
        answer_with(output, &text, &json!(written))
    }

    fn write(&self) -> io::Result<Vec<String>> {
        let mut written = Vec::new();
        for (section, name, page) in manual::pages()? {
            let directory = self.directory.join(format!("man{section}"));
            fs::create_dir_all(&directory)?;
            let path = directory.join(format!("{name}.{section}"));
            fs::write(&path, &page)?;
            written.push(path.display().to_string());
        }
        Ok(written)
    }
}

fn failed(what: &str, error: &io::Error) -> CommandFailure {
    CommandFailure::failed(format_args!("{what}: {error}"))
}
