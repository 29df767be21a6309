//! `ratelimit validate FILE...`: checks configuration files and nothing else; `lists` checks files of prefixes.

mod lists;
mod store;

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use serde::Serialize;

use super::output::{Output, counted};
use crate::{
    application::{StateError, check_state},
    config::{
        self, CheckedFile, ConfigError, ConfigErrors, Reference, Unusable,
        limit::format_packet_limit,
        match_text::{format_except, with_except},
    },
    control::check_socket_place,
    dataplane::{self, check_interface},
    policy::{
        Application, Network, Policy,
        application::{StoreSettings, Tls},
    },
    server::{DoubtfulCertificate, TlsError, check_certificates, check_listener},
    text::{Shown, Thousands},
};

/// Exit status if a file is wrong.
const WRONG_CONFIGURATION: u8 = 2;

/// Checks configuration files and says what is wrong with them; changes nothing.
#[derive(Debug, Args)]
pub struct Validate {
    /// The files; `-` is the standard input.
    #[arg(required_unless_present = "lists", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Also check this file of addresses, prefixes and ranges, in the form that `allow` and `deny` take, such as a
    /// downloaded blocklist; `-` is the standard input. An empty file is wrong, unless a comment in it says that this
    /// is meant.
    #[arg(long = "list", value_name = "FILE")]
    lists: Vec<PathBuf>,
    /// Let several files of rules on requests be about one domain, as `merge_domains: true` does. All files that are
    /// given are one set.
    #[arg(long)]
    merge_domains: bool,
    /// Also try the store that several daemons share: its version, what it does when its memory is full, its clock, and
    /// whether its user has all rights that are needed.
    #[arg(long)]
    connect: bool,
}

/// Checks all files and says what is wrong with them: as text, mistakes and warnings on the standard error; as JSON,
/// all in one object on the standard output. The exit status is 2 if a file is wrong, 1 if a store can't be used or all
/// that could not be said.
#[must_use]
pub fn validate(validate: &Validate, output: Output) -> ExitCode {
    let Validate { files, lists, merge_domains, connect } = validate;
    let (out, err) = (&mut io::stdout().lock(), &mut io::stderr().lock());
    let stores = if *connect { files } else { &Vec::new() };
    let outcome = match output {
        Output::Text => write_text(files, *merge_domains, out, err)
            .and_then(|good| Ok(lists::write_text(lists, out, err)? && good))
            .and_then(|good| Ok((good, store::write_text(stores, out, err)?))),
        Output::Json => write_json(files, *merge_domains, lists, stores, out),
    };
    match outcome {
        Ok((true, true)) => ExitCode::SUCCESS,
        Ok((false, _)) => ExitCode::from(WRONG_CONFIGURATION),
        Ok((true, false)) | Err(_) => ExitCode::FAILURE,
    }
}

/// Checks all files; what is good goes to `out`, mistakes and warnings to `err`. Says whether all were good.
///
/// # Errors
/// The answer could not be written.
pub fn write_text(
    files: &[PathBuf],
    merge_domains: bool,
    out: &mut impl Write,
    err: &mut impl Write,
) -> io::Result<bool> {
    let mut all_good = true;
    for (file, result) in files.iter().zip(check_files(files, merge_domains)) {
        match result {
            Ok(checked) => {
                match &checked {
                    CheckedFile::Configuration(checked) => write_good(file, &checked.policy, out)?,
                    CheckedFile::Rules { limits, .. } => {
                        writeln!(out, "{}: ok: {}", Shown(file.display()), counted(*limits as u64, "limit"))?;
                    }
                }
                for warning in warnings(file, &checked) {
                    writeln!(err, "{}", Shown(Warning(&warning)))?;
                }
            }
            Err(errors) => {
                all_good = false;
                for error in &errors {
                    writeln!(err, "{}", Shown(error))?;
                }
            }
        }
    }
    out.flush()?;
    Ok(all_good)
}

fn check_files(files: &[PathBuf], merge_domains: bool) -> Vec<Result<CheckedFile, ConfigErrors>> {
    config::check_files(files, merge_domains, &judge)
}

/// What the daemon would meet when it starts, by what it uses itself. Files may come to this machine later, and be for
/// the daemon's user alone.
fn judge(named: Reference<'_>) -> Result<(), Unusable> {
    match named {
        Reference::Certificates(files) => judge_certificates(files),
        Reference::State(settings) => judge_state(settings),
        Reference::Control(path) => check_socket_place(path).map_err(|error| plain(path, &error, true)),
        Reference::Listener(address) => {
            check_listener(address).map_err(|error| plain(Path::new(""), &error, true))
        }
        Reference::Interface(interface) => match check_interface(interface.name.as_str()) {
            Err(error @ dataplane::Error::NoInterface { .. }) => {
                let why = format!("{error}; `ratelimit run` needs it, here or where it runs");
                Err(plain(Path::new(""), &why, false))
            }
            // What the kernel does not tell is no mistake of the file.
            _ => Ok(()),
        },
    }
}

fn judge_certificates(files: &Tls) -> Result<(), Unusable> {
    let doubtful = |doubt: DoubtfulCertificate| plain(&doubt.path, &doubt, false);
    check_certificates(files).map_err(unusable)?.map_or(Ok(()), |doubt| Err(doubtful(doubt)))
}

fn judge_state(settings: &StoreSettings) -> Result<(), Unusable> {
    check_state(settings).map_err(|error| {
        let is_certain = matches!(error, StateError::IsDirectory);
        let advice = if is_certain { "" } else { "; `ratelimit run` needs that, here or where it runs" };
        let path = settings.state_file.clone().unwrap_or_default();
        plain(&path, &format_args!("{}: {error}{advice}", path.display()), is_certain)
    })
}

fn plain(path: &Path, why: &dyn std::fmt::Display, is_certain: bool) -> Unusable {
    Unusable { path: path.to_owned(), is_key: false, why: why.to_string(), is_certain }
}

fn unusable(error: TlsError) -> Unusable {
    let advice = match error.unreadable() {
        Some(io::ErrorKind::NotFound) => "; `ratelimit run` and reloads need it",
        Some(io::ErrorKind::PermissionDenied) => {
            ", so it is not checked: validate as the user that the daemon runs as"
        }
        _ => "",
    };
    let is_certain = advice.is_empty();
    let is_key = error.is_about_key();
    Unusable { is_key, ..plain(error.path(), &format_args!("{error}{advice}"), is_certain) }
}

fn write_good(file: &Path, policy: &Policy, out: &mut impl Write) -> io::Result<()> {
    let mut parts = Vec::new();
    if let Some(network) = &policy.network {
        parts.push(counted(network.rules.len() as u64, "rule"));
        parts.push(counted(network.interfaces.len() as u64, "interface"));
    }
    if let Some(application) = &policy.application {
        let files = counted(application.sources.files.len() as u64, "file");
        let limits = counted(application.rules.limits() as u64, "limit");
        parts.push(format!("{limits} on requests in {files}"));
    }
    writeln!(out, "{}: ok: {}", Shown(file.display()), parts.join(", "))?;
    let rules: Vec<Withstands> = policy.network.iter().flat_map(rules_of).collect();
    for Withstands { name, limit, except, new_sources_per_second } in &rules {
        let sources = Thousands(*new_sources_per_second);
        let limit = with_except(limit.clone(), except.as_deref());
        writeln!(out, "  {name}: {limit}; withstands {sources} new sources a second")?;
    }
    if !rules.is_empty() {
        writeln!(out, "  ({WITHSTANDS})")?;
    }
    Ok(())
}

/// What the number says.
const WITHSTANDS: &str =
    "with more, over half of the table is in use, and some sources may lose their buckets";

/// What is worth a look, and what is missing although the command line may add it.
fn warnings(file: &Path, checked: &CheckedFile) -> Vec<ConfigError> {
    let checked = match checked {
        CheckedFile::Configuration(checked) => checked,
        CheckedFile::Rules { warnings, .. } => return warnings.clone(),
    };
    let mut warnings = checked.warnings.clone();
    let mut missing = |field: &str, message: &str| {
        warnings.push(ConfigError {
            file: file.display().to_string(),
            line: 1,
            column: 1,
            field: field.to_owned(),
            message: message.to_owned(),
        });
    };
    let Policy { network, application, .. } = &checked.policy;
    if network.as_ref().is_some_and(|network| network.interfaces.is_empty()) {
        missing("network.interfaces", "no interfaces: `ratelimit run` needs `--interface`");
    }
    let is_deaf = |application: &Application| application.listeners().next().is_none();
    if application.as_ref().is_some_and(is_deaf) {
        missing("application.listen", "nowhere to listen: nobody can ask about requests");
    }
    warnings
}

/// Shows that it is not a mistake.
struct Warning<'w>(&'w ConfigError);

impl std::fmt::Display for Warning<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ConfigError { file, line, column, field, message } = self.0;
        let separator = if field.is_empty() { "" } else { ": " };
        write!(f, "{file}:{line}:{column}: warning: {field}{separator}{message}")
    }
}

#[derive(Serialize)]
struct ValidateAnswer {
    files: Vec<FileAnswer>,
    lists: Vec<lists::ListAnswer>,
    /// The answers of stores, if they were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stores: Vec<store::StoreAnswer>,
}

#[derive(Serialize)]
struct FileAnswer {
    file: String,
    ok: bool,
    errors: Vec<ConfigError>,
    warnings: Vec<ConfigError>,
    rules: Vec<Withstands>,
    /// On requests.
    limits: usize,
}

/// How many unknown sources a rule's buckets have room for.
#[derive(Serialize)]
struct Withstands {
    name: String,
    limit: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    except: Option<String>,
    new_sources_per_second: u64,
}

/// Checks all files and writes one JSON object. Says whether all were good.
///
/// # Errors
/// The answer could not be written.
pub fn write_json(
    files: &[PathBuf],
    merge_domains: bool,
    lists: &[PathBuf],
    stores: &[PathBuf],
    out: &mut impl Write,
) -> io::Result<(bool, bool)> {
    let checked = check_files(files, merge_domains);
    let files: Vec<FileAnswer> =
        files.iter().zip(checked).map(|(file, result)| answer(file, result)).collect();
    let lists = lists::check(lists);
    let all_good = files.iter().all(|file| file.ok) && lists.iter().all(|list| list.ok);
    let stores = store::answers(stores)?;
    let stores_are_good = stores.iter().all(|store| store.errors.is_empty());
    serde_json::to_writer_pretty(&mut *out, &ValidateAnswer { files, lists, stores })?;
    writeln!(out)?;
    out.flush()?;
    Ok((all_good, stores_are_good))
}

fn answer(file: &Path, result: Result<CheckedFile, ConfigErrors>) -> FileAnswer {
    let name = file.display().to_string();
    match result {
        Ok(checked) => FileAnswer {
            file: name,
            ok: true,
            errors: Vec::new(),
            warnings: warnings(file, &checked),
            rules: match &checked {
                CheckedFile::Configuration(checked) => {
                    checked.policy.network.iter().flat_map(rules_of).collect()
                }
                CheckedFile::Rules { .. } => Vec::new(),
            },
            limits: match &checked {
                CheckedFile::Configuration(checked) => {
                    checked.policy.application.as_ref().map_or(0, |section| section.rules.limits())
                }
                CheckedFile::Rules { limits, .. } => *limits,
            },
        },
        Err(errors) => FileAnswer {
            file: name,
            ok: false,
            errors: errors.into_iter().collect(),
            warnings: Vec::new(),
            rules: Vec::new(),
            limits: 0,
        },
    }
}

fn rules_of(network: &Network) -> Vec<Withstands> {
    let withstands = |rule: &crate::policy::PacketRule| Withstands {
        name: rule.name.to_string(),
        limit: format_packet_limit(&rule.limit),
        except: format_except(&rule.except),
        new_sources_per_second: network.new_sources_per_second(rule),
    };
    network.rules.iter().map(withstands).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A good file, one with two mistakes, one with a warning.
    fn files() -> (tempfile::TempDir, Vec<PathBuf>) {
        let directory = tempfile::tempdir().unwrap();
        let contents = [
            "network: {interfaces: [lo], rules: [{name: a, rate: 1/s}, {name: b, rate: 1k/s}]}",
            "network: {rules: [{name: a, rate: 0/s}]}\nx: 1\n",
            "network: {}\n",
        ];
        let write = |(name, content)| {
            let path = directory.path().join(name);
            fs::write(&path, content).unwrap();
            path
        };
        let paths = ["good", "bad", "warned"].into_iter().zip(contents).map(write).collect();
        (directory, paths)
    }

    #[test]
    fn all_files_are_judged() {
        let (directory, files) = files();
        let (mut out, mut err) = (Vec::new(), Vec::new());
        assert!(!write_text(&files, false, &mut out, &mut err).unwrap());
        let prefix = format!("{}/", directory.path().display());
        let out = String::from_utf8(out).unwrap().replace(&prefix, "");
        let err = String::from_utf8(err).unwrap().replace(&prefix, "");
        let good = format!(
            "good: ok: 2 rules, 1 interface\n  \
             a: token_bucket,rate=1/s; withstands 524,288 new sources a second\n  \
             b: token_bucket,rate=1000/s; withstands 524,288,000 new sources a second\n  \
             ({WITHSTANDS})\n\
             warned: ok: 0 rules, 0 interfaces\n"
        );
        assert_eq!(out, good);
        assert!(err.starts_with("bad:1:35: network.rules[0].rate: a rate of 0 "), "{err}");
        assert!(err.contains("\nbad:2:1: x: unknown key `x`;"), "{err}");
        assert!(err.contains("\nwarned:1:10: warning: network: no rules"), "{err}");
        assert!(err.contains("\nwarned:1:1: warning: network.interfaces: no interfaces"), "{err}");
    }

    #[test]
    fn json_has_the_same() {
        let (_directory, files) = files();
        let mut out = Vec::new();
        assert!(!write_json(&files, false, &[], &[], &mut out).unwrap().0);
        let answer: serde_json::Value = serde_json::from_slice(&out).unwrap();
        let at = |pointer: &str| answer.pointer(pointer).cloned().unwrap_or_default();
        assert_eq!([at("/files/0/ok"), at("/files/1/ok"), at("/files/2/ok")], [true, false, true]);
        assert_eq!((at("/files/0/errors"), at("/files/0/warnings")), (vec![0; 0].into(), vec![0; 0].into()));
        assert_eq!(at("/files/1/errors/0/file"), files[1].to_str().unwrap());
        assert_eq!((at("/files/1/errors/0/line"), at("/files/1/errors/0/column")), (1.into(), 35.into()));
        assert_eq!(at("/files/1/errors/0/field"), "network.rules[0].rate");
        assert_eq!(at("/files/1/errors/1/field"), "x");
        assert_eq!(at("/files/2/warnings/0/field"), "network");
    }

    #[test]
    fn no_file_is_wrong() {
        assert!(write_json(&[], false, &[], &[], &mut Vec::new()).unwrap().0);
    }
}
