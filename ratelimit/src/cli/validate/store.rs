//! `ratelimit validate --connect`: tries the store that a configuration names, and says what it is like. Nothing is
//! changed in it but one key, which is removed again.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
};

use ratelimit_redis::{Memory, Role, ServerReport, probe};
use serde::Serialize;

use crate::{
    config::{self, CheckedFile},
    policy::application::{RedisSettings, Topology},
    text::Shown,
};

/// What is said of a file's store.
#[derive(Debug, Default, Serialize)]
pub struct StoreAnswer {
    pub file: String,
    /// Servers, as they were found.
    pub servers: Vec<String>,
    pub errors: Vec<String>,
    pub warnings: Vec<String>,
}

/// Tries the stores of all files that are configurations; says whether all can be used.
///
/// # Errors
/// The answer could not be written.
pub fn write_text(files: &[PathBuf], out: &mut impl Write, err: &mut impl Write) -> io::Result<bool> {
    let mut all_good = true;
    for StoreAnswer { file, servers, errors, warnings } in answers(files)? {
        let file = Shown(file);
        servers.iter().try_for_each(|server| writeln!(out, "{file}: {}", Shown(server)))?;
        warnings.iter().try_for_each(|warning| writeln!(err, "{file}: warning: {}", Shown(warning)))?;
        errors.iter().try_for_each(|error| writeln!(err, "{file}: {}", Shown(error)))?;
        all_good &= errors.is_empty();
    }
    out.flush()?;
    Ok(all_good)
}

/// The same as data.
pub fn answers(files: &[PathBuf]) -> io::Result<Vec<StoreAnswer>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let checked = config::check_files(files, true, &|_| Ok(()));
    let found = files.iter().zip(checked).filter_map(|(file, checked)| match checked {
        Ok(CheckedFile::Configuration(checked)) => Some((file, checked.policy.application?)),
        _ => None,
    });
    Ok(found.map(|(file, application)| runtime.block_on(of(file, application.redis.as_ref()))).collect())
}

async fn of(file: &Path, settings: Option<&RedisSettings>) -> StoreAnswer {
    let mut answer = StoreAnswer { file: file.display().to_string(), ..StoreAnswer::default() };
    let Some(settings) = settings else {
        answer.servers.push("counts are kept in memory: there is nothing to connect to".to_owned());
        return answer;
    };
    match probe(settings).await {
        Ok(found) => {
            answer.servers = found.servers.iter().map(|server| line(server, &settings.topology)).collect();
            (answer.errors, answer.warnings) = (found.errors(), found.warnings());
        }
        Err(error) => answer.errors.push(format!("the store can't be used: {error}")),
    }
    answer
}

/// A server in one line.
fn line(ServerReport { address, hello, memory, clock }: &ServerReport, topology: &Topology) -> String {
    let part = match topology {
        Topology::Single => "alone".to_owned(),
        Topology::Cluster => "in a cluster".to_owned(),
        Topology::Sentinel(master) => format!("`{master}` of the sentinels"),
    };
    let role = match hello.role {
        Role::Replica => "replica",
        _ => "master",
    };
    let memory = match memory {
        Some(Memory { policy, limit: 0 }) => format!("all memory that there is, `{policy}`"),
        Some(Memory { policy, limit }) => format!("{} MiB, `{policy}`", limit >> 20),
        None => "memory unknown".to_owned(),
    };
    format!("{address}: {} {}, {role}, {part}; {memory}; its clock {clock}", hello.server, hello.version)
}
