//! What a store is like: its version, what it does without memory, its clock, and what its user may not do.
//!
//! Nothing is changed but one key, which is removed again.

mod rights;

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use ratelimit_policy::application::{RedisAddress, RedisSettings, Topology};
use redis::{Cmd, FromRedisValue, InfoDict, aio::MultiplexedConnection};
use tokio::time::timeout;

use crate::connect::{DialError, Dialled, GREETING, Hello, Role, ServerMode, connect, masters};

/// The oldest versions that scripts are tested with: the first numbers of Redis's and Valkey's.
const OLDEST: [(&str, u32); 2] = [("redis", 7), ("valkey", 8)];

/// The only policy that takes the buckets first that end first.
const RECOMMENDED: &str = "volatile-ttl";

/// A clock that differs by more is worth a word, though no decision depends on it.
const CLOCK_MAY_DIFFER: Duration = Duration::from_secs(1);

/// A store as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// The server; of a cluster each master.
    pub servers: Vec<ServerReport>,
    /// What is needed and the user may not do, as an access control list has it: `+set`, `~rl:*`.
    pub refused: Vec<String>,
    expected: Topology,
}

/// A server as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerReport {
    /// Where.
    pub address: RedisAddress,
    /// What it says of itself.
    pub hello: Hello,
    /// What it does without memory; `None` if the user may not ask.
    pub memory: Option<Memory>,
    /// How far its clock is ahead of this machine's.
    pub clock: ClockDifference,
}

/// What a server does when its memory is full.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Memory {
    /// `noeviction`, `volatile-ttl`.
    pub policy: String,
    /// How much it may take; 0 for all that there is.
    pub limit: u64,
}

/// How far a clock is ahead of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockDifference {
    /// By so much.
    Ahead(Duration),
    /// It is behind.
    Behind(Duration),
}

/// Why a store could not be looked at.
#[derive(Debug, thiserror::Error)]
#[error("{address}: {error}")]
pub struct ProbeError {
    /// Where.
    pub address: String,
    /// Why.
    pub error: DialError,
}

/// Looks at a store.
///
/// # Errors
/// It is not reached, or does not let the user in.
pub async fn probe(settings: &RedisSettings) -> Result<Probe, ProbeError> {
    let settings = Arc::new(settings.clone());
    let shown = settings.addresses.iter().map(RedisAddress::to_string).collect::<Vec<_>>().join(", ");
    let masters = masters(&settings).await.map_err(|error| ProbeError { address: shown, error })?;
    let mut found = Probe { servers: Vec::new(), refused: Vec::new(), expected: settings.topology.clone() };
    for address in masters {
        let looked = look(&settings, &address, &mut found).await;
        looked.map_err(|error| ProbeError { address: address.to_string(), error })?;
    }
    Ok(found)
}

async fn look(settings: &RedisSettings, address: &RedisAddress, found: &mut Probe) -> Result<(), DialError> {
    let Dialled { mut connection, hello, .. } = connect(settings, address, &settings.login, || {}).await?;
    if hello.mode == ServerMode::Sentinel {
        // It answers nothing else that a store does.
        let clock = ClockDifference::Ahead(Duration::ZERO);
        found.servers.push(ServerReport { address: address.clone(), hello, memory: None, clock });
        return Ok(());
    }
    let memory = match ask::<InfoDict>(&mut connection, redis::cmd("INFO").arg("memory")).await {
        Ok(info) => Some(Memory {
            policy: info.get("maxmemory_policy").unwrap_or_default(),
            limit: info.get("maxmemory").unwrap_or_default(),
        }),
        Err(DialError::Redis(error)) if rights::is_refusal(&error.to_string()) => None,
        Err(error) => return Err(error),
    };
    let clock = clock(&mut connection).await?;
    let refused = rights::refused(&mut connection, settings, hello.mode).await?;
    found.refused.extend(refused);
    found.refused.sort_unstable();
    found.refused.dedup();
    found.servers.push(ServerReport { address: address.clone(), hello, memory, clock });
    Ok(())
}

async fn ask<T: FromRedisValue>(
    connection: &mut MultiplexedConnection,
    command: &Cmd,
) -> Result<T, DialError> {
    Ok(timeout(GREETING, command.query_async(connection)).await.map_err(|_| DialError::TimedOut)??)
}

/// By the middle of the time that the answer took. A user who may not ask is told so by the rights.
async fn clock(connection: &mut MultiplexedConnection) -> Result<ClockDifference, DialError> {
    let before = now();
    let (seconds, micros): (u64, u64) = match ask(connection, &redis::cmd("TIME")).await {
        Ok(time) => time,
        Err(DialError::Redis(error)) if rights::is_refusal(&error.to_string()) => {
            return Ok(ClockDifference::Ahead(Duration::ZERO));
        }
        Err(error) => return Err(error),
    };
    let (theirs, ours) = (Duration::from_secs(seconds) + Duration::from_micros(micros), (before + now()) / 2);
    Ok(match theirs.checked_sub(ours) {
        Some(ahead) => ClockDifference::Ahead(ahead),
        None => ClockDifference::Behind(ours.saturating_sub(theirs)),
    })
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

impl Probe {
    /// What keeps it from being used, in sentences.
    #[must_use]
    pub fn errors(&self) -> Vec<String> {
        let mut errors: Vec<String> =
            self.servers.iter().filter_map(|server| server.error(&self.expected)).collect();
        if !self.refused.is_empty() {
            let rights = self.refused.join(" ");
            errors.push(format!("the store's user may not do all that is needed: grant {rights}"));
        }
        errors
    }

    /// What people should know of before they rely on it, in sentences.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings: Vec<String> = Vec::new();
        for server in &self.servers {
            let address = &server.address;
            warnings.extend(server.hello.warning().map(|warning| format!("the store {address} {warning}")));
            match &server.memory {
                Some(memory) => {
                    warnings.extend(memory.warning().map(|warning| format!("the store {address} {warning}")));
                }
                None => warnings.push(format!(
                    "the store {address} does not say what it does when its memory is full: grant +info, or see that `maxmemory-policy` \
                     is {RECOMMENDED}"
                )),
            }
            if server.clock.is_large() {
                warnings.push(format!(
                    "the clock of the store {address} {}: windows begin and end by the store's clock",
                    server.clock
                ));
            }
        }
        warnings
    }
}

impl ServerReport {
    fn error(&self, expected: &Topology) -> Option<String> {
        let address = &self.address;
        match (expected, self.hello.mode, self.hello.role) {
            (Topology::Single | Topology::Sentinel(_), ServerMode::Cluster, _) => {
                Some(format!("{address} is a node of a cluster: write `cluster: true`"))
            }
            (Topology::Cluster, ServerMode::Standalone, _) => {
                Some(format!("{address} is not part of a cluster: leave `cluster: true` out"))
            }
            (_, ServerMode::Sentinel, _) => {
                Some(format!("{address} is a sentinel: write the master's name as `sentinel`"))
            }
            (_, _, Role::Replica) => {
                Some(format!("{address} is a read-only replica: write its master's address"))
            }
            _ => None,
        }
    }
}

impl Hello {
    fn warning(&self) -> Option<String> {
        let (_, oldest) = OLDEST.into_iter().find(|(name, _)| *name == self.server)?;
        let major: u32 = self.version.split('.').next()?.parse().ok()?;
        let Self { server, version, .. } = self;
        (major < oldest).then(|| {
            format!("is {server} {version}, older than {oldest}, which is the oldest that is tested")
        })
    }
}

impl Memory {
    fn warning(&self) -> Option<String> {
        if self.limit == 0 {
            return Some(format!(
                "may take all memory of its machine: set `maxmemory`, and `maxmemory-policy {RECOMMENDED}`"
            ));
        }
        let what = match self.policy.as_str() {
            RECOMMENDED => return None,
            "noeviction" => {
                "refuses requests when its memory is full, and clients can bring that about with new values"
            }
            policy if policy.starts_with("allkeys") => {
                "forgets buckets that are in use when its memory is full, and clients can bring that about with new values"
            }
            _ => "forgets buckets that are in use before those that are about to end when its memory is full",
        };
        Some(format!("{what} (`maxmemory-policy {}`): set it to {RECOMMENDED}", self.policy))
    }
}

impl ClockDifference {
    fn is_large(self) -> bool {
        let (Self::Ahead(by) | Self::Behind(by)) = self;
        by > CLOCK_MAY_DIFFER
    }
}

impl fmt::Display for ClockDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Ahead(by) | Self::Behind(by)) = self;
        let side = if matches!(self, Self::Ahead(_)) { "ahead of" } else { "behind" };
        write!(f, "is {:.3} s {side} this machine's", by.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    //! What is said of a store.

    use super::*;

    fn found(expected: Topology, server: &str, version: &str, mode: ServerMode, role: Role) -> Probe {
        let hello = Hello { server: server.to_owned(), version: version.to_owned(), mode, role };
        let memory = Some(Memory { policy: RECOMMENDED.to_owned(), limit: 1 });
        let clock = ClockDifference::Behind(Duration::from_millis(1));
        let address = "redis://store:6379".parse().unwrap();
        Probe { servers: vec![ServerReport { address, hello, memory, clock }], refused: Vec::new(), expected }
    }

    #[test]
    fn what_is_as_it_should_be_is_not_mentioned() {
        for (server, version) in [("redis", "7.0.15"), ("valkey", "9.1.2"), ("other", "1")] {
            let found = found(Topology::Single, server, version, ServerMode::Standalone, Role::Master);
            assert_eq!((found.errors(), found.warnings()), (Vec::new(), Vec::new()));
        }
    }

    #[test]
    fn what_is_not_is_said_with_what_to_do() {
        let error = |expected, mode, role| found(expected, "redis", "7.0", mode, role).errors().join("\n");
        assert!(error(Topology::Single, ServerMode::Cluster, Role::Master).contains("write `cluster: true`"));
        assert!(
            error(Topology::Cluster, ServerMode::Standalone, Role::Master)
                .contains("leave `cluster: true` out")
        );
        assert!(
            error(Topology::Single, ServerMode::Sentinel, Role::Master).contains("write the master's name")
        );
        assert!(
            error(Topology::Single, ServerMode::Standalone, Role::Replica).contains("its master's address")
        );
        let mut found = found(Topology::Single, "valkey", "7.2.4", ServerMode::Standalone, Role::Master);
        assert!(found.warnings()[0].contains("older than 8"), "{:?}", found.warnings());
        found.refused = vec!["+ltrim".to_owned(), "+set".to_owned()];
        assert!(found.errors()[0].ends_with("grant +ltrim +set"), "{:?}", found.errors());
        found.servers[0].clock = ClockDifference::Ahead(Duration::from_secs(3600));
        assert!(
            found.warnings()[1].contains("is 3600.000 s ahead of this machine's"),
            "{:?}",
            found.warnings()
        );
        found.servers[0].memory = None;
        assert!(found.warnings()[1].contains("grant +info"), "{:?}", found.warnings());
    }

    #[test]
    fn every_policy_but_one_is_worth_a_warning() {
        let warning =
            |policy: &str, limit| Memory { policy: policy.to_owned(), limit }.warning().unwrap_or_default();
        assert_eq!(warning(RECOMMENDED, 1), "");
        assert!(warning(RECOMMENDED, 0).contains("set `maxmemory`"));
        assert!(warning("noeviction", 1).contains("refuses requests"));
        assert!(warning("allkeys-lru", 1).contains("in use when"));
        assert!(warning("volatile-lru", 1).contains("before those"));
    }
}
