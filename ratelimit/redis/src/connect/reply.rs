//! What an error of a server means for a call: whether it was applied, and where to ask instead.

use redis::{ErrorKind, RedisError, ServerErrorKind};

use crate::transport::{Applied, Failure, FailureKind};

/// Errors before a script has written: the server says them instead of the first write, or of the call.
const BEFORE_WRITES: [&str; 6] = ["BUSY", "MISCONF", "NOAUTH", "NOREPLICAS", "OOM", "WRONGPASS"];

/// What becomes of a call that a server did not answer as asked. All but `Failed` have not been applied.
#[derive(Debug)]
pub(super) enum CallFate {
    /// It does not know the script.
    NoScript,
    /// Another node has the slot.
    Moved(String),
    /// Another node has what the slot is about to have.
    Ask(String),
    /// Not now, since some of its keys have moved to another node already.
    TryAgain,
    /// It takes no writes, so that it is not the master any more.
    ReadOnly,
    /// It can't do anything now: it loads its data, say, or has no memory left.
    Unable(String),
    /// The connection has ended, so that nobody knows whether it was applied.
    Lost(String),
    /// The call ends without an answer that means anything.
    Failed(Failure),
}

impl CallFate {
    /// What a server said, or what happened on the way there and back.
    pub(super) fn from_error(error: &RedisError) -> Self {
        let ErrorKind::Server(kind) = error.kind() else { return Self::other(error) };
        let node = || error.redirect_node().map(|(node, _)| node.to_owned());
        match kind {
            ServerErrorKind::NoScript => Self::NoScript,
            ServerErrorKind::Moved => node().map_or_else(|| Self::other(error), Self::Moved),
            ServerErrorKind::Ask => node().map_or_else(|| Self::other(error), Self::Ask),
            ServerErrorKind::TryAgain => Self::TryAgain,
            ServerErrorKind::ClusterDown | ServerErrorKind::MasterDown | ServerErrorKind::BusyLoading => {
                Self::Unable(error.to_string())
            }
            ServerErrorKind::ReadOnly => Self::ReadOnly,
            _ => Self::other(error),
        }
    }

    fn other(error: &RedisError) -> Self {
        match error.code() {
            Some(code) if BEFORE_WRITES.contains(&code) => Self::Unable(error.to_string()),
            Some(_) => Self::Failed(Failure {
                applied: Applied::Maybe,
                kind: FailureKind::Unavailable(error.to_string()),
            }),
            None => Self::Lost(error.to_string()),
        }
    }

    /// Why it is the server's state, and not the call, that is to blame; if it is. Who is to blame for an error that no
    /// server should give is not known: a client must not bring about that others are not asked.
    pub(super) fn is_the_servers(&self) -> Option<String> {
        match self {
            Self::ReadOnly => Some("it is a read-only replica".to_owned()),
            Self::Unable(why) => Some(why.clone()),
            Self::Failed(Failure { kind: FailureKind::TimedOut, .. }) => {
                Some("it did not answer in time".to_owned())
            }
            Self::Lost(why) => Some(why.clone()),
            Self::NoScript | Self::Moved(_) | Self::Ask(_) | Self::TryAgain | Self::Failed(_) => None,
        }
    }

    /// How the call ends if nothing else is tried.
    pub(super) fn into_failure(self) -> Failure {
        let why = match self {
            Self::Failed(failure) => return failure,
            Self::TryAgain => return Failure { applied: Applied::No, kind: FailureKind::Moving },
            Self::Lost(why) => {
                return Failure { applied: Applied::Maybe, kind: FailureKind::Unavailable(why) };
            }
            Self::NoScript => "it does not keep scripts".to_owned(),
            Self::Moved(node) | Self::Ask(node) => format!("it sends from node to node, now to {node}"),
            Self::Unable(why) => why,
            Self::ReadOnly => "it is a read-only replica".to_owned(),
        };
        Failure { applied: Applied::No, kind: FailureKind::Unavailable(why) }
    }
}

/// Whether another node of a cluster has what was asked for.
pub(crate) fn slot_is_elsewhere(error: &RedisError) -> bool {
    matches!(error.kind(), ErrorKind::Server(ServerErrorKind::Moved | ServerErrorKind::Ask))
}

/// A call that was not sent, since its time was over.
pub(super) fn too_late() -> Failure {
    Failure { applied: Applied::No, kind: FailureKind::TimedOut }
}

#[cfg(test)]
mod tests {
    //! Errors as servers write them.

    use super::*;

    fn refused(line: &str) -> CallFate {
        let value = redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap();
        CallFate::from_error(&value.extract_error().unwrap_err())
    }

    #[test]
    fn redirects_name_the_node() {
        assert!(
            matches!(refused("MOVED 3999 127.0.0.1:6381"), CallFate::Moved(node) if node == "127.0.0.1:6381")
        );
        assert!(matches!(refused("ASK 3999 ::1:6381"), CallFate::Ask(node) if node == "::1:6381"));
        assert!(matches!(refused("MOVED"), CallFate::Failed(_)));
    }

    #[test]
    fn what_comes_before_writes_was_not_applied() {
        let never = [
            "TRYAGAIN Multiple keys request during rehashing of slot",
            "CLUSTERDOWN The cluster is down",
            "LOADING Redis is loading the dataset in memory",
            "MASTERDOWN Link with MASTER is down",
            "READONLY You can't write against a read only replica.",
            "NOSCRIPT No matching script.",
            "OOM command not allowed when used memory > 'maxmemory'. script: 0, on @user_script:1.",
            "MISCONF Errors writing to the AOF file",
            "NOREPLICAS Not enough good replicas to write.",
            "BUSY Redis is busy running a script.",
            "NOAUTH Authentication required.",
        ];
        for line in never {
            assert_eq!(refused(line).into_failure().applied, Applied::No, "{line}");
        }
        for line in ["ERR user_script:3: attempt to index a nil value", "NOPERM no permissions", "OTHER"] {
            assert_eq!(refused(line).into_failure().applied, Applied::Maybe, "{line}");
        }
    }
}
