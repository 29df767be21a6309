//! Makes connections: to a server whose address is known, or to whoever the sentinels say is the master.

use std::{sync::Arc, time::Duration};

use ratelimit_policy::application::{Login, RedisAddress, RedisSettings};
use redis::{AsyncConnectionConfig, PushInfo, PushKind, RedisError, aio::MultiplexedConnection};
use tokio::time::timeout;

use super::{
    backoff::jittered,
    client::{ClientError, client},
    hello::{Hello, Role},
    link::never,
    sentinel::Sentinels,
};

/// How long a connection may take until the server has greeted.
pub(crate) const GREETING: Duration = Duration::from_secs(1);

/// How often sentinels are asked whether the master is still the same.
const ASK_SENTINELS: Duration = Duration::from_secs(1);

/// Makes connections to one server, or to the one of several that is the master.
#[derive(Debug)]
pub(super) enum Dialer {
    /// Always the same, which has to be a master.
    Master(Arc<RedisSettings>),
    /// A node of a cluster, which says itself whether it has a slot.
    Node(Arc<RedisSettings>, RedisAddress),
    /// Whoever is the master.
    Sentinels(Sentinels),
}

/// A connection whose server has greeted.
#[derive(Debug)]
pub(crate) struct Dialled {
    pub(crate) connection: MultiplexedConnection,
    pub(crate) hello: Hello,
    /// The master's address, if sentinels said it.
    pub(super) address: Option<RedisAddress>,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// A file is wrong.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The server is not reached, or refuses.
    #[error("{0}")]
    Redis(#[from] RedisError),
    /// It did not answer in time.
    #[error("it did not answer in time")]
    TimedOut,
    /// It follows another server.
    #[error("it is a read-only replica")]
    Replica,
    /// The settings have no address.
    #[error("its name has no address")]
    NoAddress,
    /// It is no node of a cluster.
    #[error("it is not part of a cluster")]
    NoCluster,
    /// None of the sentinels knows a master.
    #[error("no sentinel names the master: {0}")]
    NoMaster(String),
}

impl Dialer {
    /// Connects. `on_drop` is called once the connection has ended.
    pub(super) async fn dial(
        &mut self,
        on_drop: impl Fn() + Send + Sync + 'static,
    ) -> Result<Dialled, DialError> {
        let (settings, address, must_be_master) = match self {
            Self::Master(settings) => {
                let first = settings.addresses.first().ok_or(DialError::NoAddress)?;
                (&**settings, first.clone(), true)
            }
            Self::Node(settings, address) => (&**settings, address.clone(), false),
            Self::Sentinels(sentinels) => {
                let address = sentinels.master().await?;
                (sentinels.settings(), address, true)
            }
        };
        let mut dialled = connect(settings, &address, &settings.login, on_drop).await?;
        if must_be_master && dialled.hello.role == Role::Replica {
            return Err(DialError::Replica);
        }
        dialled.address = matches!(self, Self::Sentinels(_)).then_some(address);
        Ok(dialled)
    }

    /// Waits until sentinels name another master than this one.
    pub(super) async fn moved(&mut self, from: Option<&RedisAddress>) {
        let (Self::Sentinels(sentinels), Some(from)) = (self, from) else { return never().await };
        loop {
            tokio::time::sleep(jittered(ASK_SENTINELS)).await;
            // Sentinels that do not answer say nothing about the master.
            if sentinels.master().await.is_ok_and(|master| master != *from) {
                tracing::info!("the sentinels name another master than {from} now");
                return;
            }
        }
    }
}

/// Connects to this address, and lets the server greet.
pub(crate) async fn connect(
    settings: &RedisSettings,
    address: &RedisAddress,
    login: &Login,
    on_drop: impl Fn() + Send + Sync + 'static,
) -> Result<Dialled, DialError> {
    let client = client(settings, address, login)?;
    // Nothing but the connection's end is pushed.
    let pushed = move |push: PushInfo| {
        if push.kind == PushKind::Disconnection {
            on_drop();
        }
        Ok::<(), ()>(())
    };
    let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
    let config = config.set_push_sender(pushed);
    let greeted = async {
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
        let hello = redis::cmd("HELLO").query_async(&mut connection).await?;
        Ok(Dialled { connection, hello, address: None })
    };
    timeout(GREETING.max(timeout_of(settings)), greeted).await.map_err(|_| DialError::TimedOut)?
}

/// The longest that a request takes.
pub(super) fn timeout_of(settings: &RedisSettings) -> Duration {
    Duration::from_nanos(settings.timeout.0)
}
