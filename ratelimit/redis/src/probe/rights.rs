//! What the store's user may not do though scripts need it: found by trying, since few users may read access control
//! lists.

use std::collections::BTreeSet;

use ratelimit_policy::application::RedisSettings;
use redis::{RedisError, Value, aio::MultiplexedConnection, from_redis_value};

use super::ask;
use crate::connect::{DialError, ServerMode, slot_is_elsewhere};

/// Tries each command that scripts call on a key of their own kind, and returns those that are refused. What else goes
/// wrong says nothing about rights.
const TRY_ALL: &str = "
local key, refused = KEYS[1], {}
local function try(...)
  local answer = redis.pcall(...)
  local text = type(answer) == 'table' and answer.err or ''
  for _, part in ipairs({'NOPERM', 'user executing the script', \"ACL failure\"}) do
    if string.find(text, part, 1, true) then refused[#refused + 1] = (...) return end
  end
end
try('TIME')
try('SET', key, '1', 'PX', '1000')
try('MGET', key)
try('EXISTS', key)
try('DEL', key)
try('RPUSH', key, '1')
try('LLEN', key)
try('LINDEX', key, '0')
try('LRANGE', key, '0', '-1')
try('LSET', key, '0', '2')
try('LTRIM', key, '0', '-1')
try('PEXPIRE', key, '1000')
redis.pcall('DEL', key)
return refused
";

/// Whether an error of a server says that its user may not do something.
pub(super) fn is_refusal(error: &str) -> bool {
    error.contains("NOPERM") || error.contains("has no permissions")
}

/// What is needed and refused, as an access control list has it.
pub(super) async fn refused(
    connection: &mut MultiplexedConnection,
    settings: &RedisSettings,
    mode: ServerMode,
) -> Result<BTreeSet<String>, DialError> {
    let mut refused = BTreeSet::new();
    let mut tried = redis::cmd("EVAL");
    tried.arg(TRY_ALL).arg(1).arg(format!("{}:probe", settings.prefix));
    match ask::<Value>(connection, &tried).await {
        Ok(value) => {
            let names: Vec<String> = from_redis_value(value).map_err(RedisError::from)?;
            refused.extend(names.iter().map(|name| right(name)));
        }
        // Another node of the cluster has the key, and is asked too.
        Err(DialError::Redis(error)) if slot_is_elsewhere(&error) => {}
        // Keys are refused before commands.
        Err(DialError::Redis(error)) if error.to_string().contains("permissions to access") => {
            refused.insert(format!("~{}:*", settings.prefix));
        }
        answer @ Err(DialError::Redis(_)) => refused.extend(refusal("EVAL", answer)),
        Err(error) => return Err(error),
    }
    // The hash of a script that nobody has.
    let mut by_hash = redis::cmd("EVALSHA");
    by_hash.arg("0000000000000000000000000000000000000000").arg(0);
    refused.extend(refusal("EVALSHA", ask::<Value>(connection, &by_hash).await));
    if mode == ServerMode::Cluster {
        let slots = ask::<Value>(connection, redis::cmd("CLUSTER").arg("SLOTS")).await;
        refused.extend(refusal("CLUSTER|SLOTS", slots));
    }
    Ok(refused)
}

fn refusal(name: &str, answer: Result<Value, DialError>) -> Option<String> {
    match answer {
        Err(DialError::Redis(error)) if is_refusal(&error.to_string()) => Some(right(name)),
        _ => None,
    }
}

/// A command as an access control list allows it.
fn right(name: &str) -> String {
    format!("+{}", name.to_lowercase())
}
