//! What a server says of itself in answer to `HELLO`, which every user may ask.

use std::collections::HashMap;

use redis::{FromRedisValue, ParsingError, Value, from_redis_value};

/// A server as it greets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// `redis`, `valkey`.
    pub server: String,
    /// `7.0.15`.
    pub version: String,
    /// What it takes part in.
    pub mode: ServerMode,
    /// Whether it takes writes.
    pub role: Role,
}

/// What a server takes part in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerMode {
    /// It is one of a cluster.
    Cluster,
    /// It is no store, but knows where one is.
    Sentinel,
    /// It is alone, or has replicas.
    Standalone,
}

/// Whether a server takes writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It does.
    Master,
    /// It follows another.
    Replica,
}

impl FromRedisValue for Hello {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        let fields: HashMap<String, Value> = from_redis_value(value)?;
        let text = |name: &str| match fields.get(name) {
            Some(value) => from_redis_value::<String>(value.clone()),
            None => Err(format!("HELLO has no {name}").into()),
        };
        let mode = match text("mode")?.as_str() {
            "cluster" => ServerMode::Cluster,
            "sentinel" => ServerMode::Sentinel,
            _ => ServerMode::Standalone,
        };
        // A sentinel has no role that matters.
        let role = if text("role").is_ok_and(|role| role != "master") { Role::Replica } else { Role::Master };
        Ok(Self { server: text("server")?, version: text("version")?, mode, role })
    }
}
