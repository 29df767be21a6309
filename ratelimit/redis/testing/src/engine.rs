//! Whose servers they are, and where the programs lie.

use std::{env, fmt, path::PathBuf};

/// A program that stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// Debian's Redis.
    Redis,
    /// The newest Valkey; it is built without TLS.
    Valkey,
}

impl Engine {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Redis, Self::Valkey];

    pub(crate) fn program(self) -> PathBuf {
        match self {
            Self::Redis => found("redis-server"),
            Self::Valkey => found("valkey-server"),
        }
    }

    /// What comes with Redis to measure it, or to speak to it by hand: `redis-benchmark`, `redis-cli`.
    #[must_use]
    pub fn tool(name: &str) -> PathBuf {
        found("redis-server").with_file_name(name)
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Redis => "Redis",
            Self::Valkey => "Valkey",
        })
    }
}

/// What set-up has put beside the test's own program, into the target directory.
pub(crate) fn found(name: &str) -> PathBuf {
    let test = env::current_exe().unwrap();
    let mut places = test.ancestors().map(|directory| directory.join("clients").join(name).join(name));
    let found = places.find(|program| program.is_file());
    found.unwrap_or_else(|| panic!("there is no {name} for the tests: run `cargo xtask setup`"))
}
