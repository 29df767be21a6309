//! Who the master is, as sentinels know it.

use std::sync::Arc;

use ratelimit_policy::application::{RedisAddress, RedisSettings};
use redis::aio::MultiplexedConnection;
use tokio::{task::JoinSet, time::timeout};

use super::{
    dial::{DialError, GREETING, connect, timeout_of},
    hello::ServerMode,
};

/// Sentinels, any of which may answer.
#[derive(Debug)]
pub(super) struct Sentinels {
    settings: Arc<RedisSettings>,
    /// What they call the master.
    name: String,
    /// To the one that answered first.
    last: Option<MultiplexedConnection>,
}

impl Sentinels {
    pub(super) fn new(settings: Arc<RedisSettings>, name: &str) -> Self {
        Self { settings, name: name.to_owned(), last: None }
    }

    pub(super) fn settings(&self) -> &RedisSettings {
        &self.settings
    }

    /// The master's address by the first sentinel that knows it.
    pub(super) async fn master(&mut self) -> Result<RedisAddress, DialError> {
        if let Some(mut last) = self.last.take() {
            // The others are asked if it takes its time.
            let asked = timeout(timeout_of(&self.settings), ask(&self.settings, &mut last, &self.name)).await;
            if let Ok(Ok(master)) = asked {
                self.last = Some(last);
                return Ok(moved_to(&self.settings, master));
            }
        }
        let (master, connection) = self.ask_all().await?;
        self.last = Some(connection);
        Ok(moved_to(&self.settings, master))
    }

    async fn ask_all(&self) -> Result<((String, u16), MultiplexedConnection), DialError> {
        let mut asked = JoinSet::new();
        for address in &self.settings.addresses {
            let (settings, address) = (Arc::clone(&self.settings), address.clone());
            let name = self.name.clone();
            asked.spawn(async move {
                let shown = address.to_string();
                let answer = async {
                    let dialled = connect(&settings, &address, &settings.sentinel_login, || {}).await?;
                    if dialled.hello.mode != ServerMode::Sentinel {
                        return Err(DialError::NoMaster("it is not a sentinel".to_owned()));
                    }
                    let mut connection = dialled.connection;
                    Ok((ask(&settings, &mut connection, &name).await?, connection))
                };
                answer.await.map_err(|error| format!("{shown}: {error}"))
            });
        }
        let mut why = Vec::new();
        while let Some(answer) = asked.join_next().await {
            match answer {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(error)) => why.push(error),
                Err(_) => {}
            }
        }
        Err(DialError::NoMaster(why.join("; ")))
    }
}

async fn ask(
    settings: &RedisSettings,
    connection: &mut MultiplexedConnection,
    name: &str,
) -> Result<(String, u16), DialError> {
    let mut question = redis::cmd("SENTINEL");
    question.arg("GET-MASTER-ADDR-BY-NAME").arg(name);
    let answer = timeout(GREETING.max(timeout_of(settings)), question.query_async(connection)).await;
    let master: Option<(String, u16)> = answer.map_err(|_| DialError::TimedOut)??;
    master.ok_or_else(|| DialError::NoMaster(format!("it knows no master named {name}")))
}

/// The same way to another host: it speaks TLS if the addresses of the settings do.
pub(super) fn moved_to(settings: &RedisSettings, (host, port): (String, u16)) -> RedisAddress {
    let (tls, database) = match settings.addresses.first() {
        Some(RedisAddress::Tcp { tls, database, .. }) => (*tls, *database),
        Some(RedisAddress::Unix(_)) | None => (false, 0),
    };
    RedisAddress::Tcp { host, port, tls, database }
}
