//! The seam between what is asked of a server and how it is reached: a call of a script whose keys all lie in one
//! shard.

use std::future::Future;

use ratelimit_limiter::store::remote::RemoteHealth;
use tokio::time::Instant;

/// A script with the hash that a server keeps it under.
#[derive(Debug)]
pub struct Script {
    /// Its text.
    pub text: String,
    /// The SHA-1 of its text, in hexadecimal digits.
    pub sha1: String,
}

impl Script {
    /// A script with this text.
    #[must_use]
    pub fn new(text: String) -> Self {
        let sha1 = redis::Script::new(&text).get_hash().to_owned();
        Self { text, sha1 }
    }
}

/// One call of a script.
#[derive(Clone, Debug)]
pub struct Call {
    /// The script.
    pub script: &'static Script,
    /// The shard that all keys lie in; 0 if there is one only.
    pub shard: u16,
    /// The keys, in full, with the shard's hash tag if there are several.
    pub keys: Vec<Vec<u8>>,
    /// Its arguments.
    pub args: Vec<Vec<u8>>,
    /// Nobody waits for the answer any more then.
    pub deadline: Instant,
}

/// Reaches the server that holds a shard.
pub trait Transport: Send + Sync + 'static {
    /// Runs the script once. It sends nothing again that may have been applied.
    fn call(&self, call: Call) -> impl Future<Output = Result<redis::Value, Failure>> + Send;

    /// How the servers are.
    fn health(&self) -> RemoteHealth;
}

/// Why a call has no answer.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Whether the script may have run.
    pub applied: Applied,
    /// What went wrong.
    pub kind: FailureKind,
}

/// Whether a script may have run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// It has not.
    No,
    /// Nobody knows.
    Maybe,
}

/// What went wrong with a call.
#[derive(Clone, Debug)]
pub enum FailureKind {
    /// The server is not reached, or says that it can't work now.
    Unavailable(String),
    /// There was no answer in time.
    TimedOut,
    /// Nothing was sent, since the server has failed too often just before.
    Broken,
    /// Some of its keys have moved to another server already, and others have not: each alone is found.
    Moving,
}
