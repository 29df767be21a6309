//! Who the master is, as sentinels know it.

use std::sync::Arc;

use redis::{ConnectionAddr, ConnectionInfo, aio::MultiplexedConnection};
use tokio::{task::JoinSet, time::timeout};

use super::{
    dial::{DialError, connect},
    hello::Mode,
    settings::{Settings, SettingsError},
};

/// Sentinels, any of which may answer.
#[derive(Debug)]
pub(super) struct Sentinels {
    settings: Arc<Settings>,
    addresses: Vec<ConnectionInfo>,
    /// What they call the master.
    name: String,
    /// To the one that answered first.
    last: Option<MultiplexedConnection>,
}

impl Sentinels {
    pub(super) fn new(settings: Arc<Settings>, name: &str) -> Result<Self, SettingsError> {
        let addresses = settings.addresses()?;
        Ok(Self { settings, addresses, name: name.to_owned(), last: None })
    }

    pub(super) fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    /// The master's address by the first sentinel that knows it.
    pub(super) async fn master(&mut self) -> Result<ConnectionInfo, DialError> {
        if let Some(mut last) = self.last.take() {
            // The others are asked if it takes its time.
            let asked = timeout(self.settings.timeout, ask(&self.settings, &mut last, &self.name)).await;
            if let Ok(Ok(master)) = asked {
                self.last = Some(last);
                return self.address(master);
            }
        }
        let (master, connection) = self.ask_all().await?;
        self.last = Some(connection);
        self.address(master)
    }

    async fn ask_all(&self) -> Result<((String, u16), MultiplexedConnection), DialError> {
        let mut asked = JoinSet::new();
        for address in &self.addresses {
            let (settings, address) = (Arc::clone(&self.settings), address.clone());
            let name = self.name.clone();
            asked.spawn(async move {
                let shown = address.addr().to_string();
                let answer = async {
                    let dialled = connect(&settings, address, &settings.sentinel_credentials, || {}).await?;
                    if dialled.hello.mode != Mode::Sentinel {
                        return Err(DialError::NoMaster("it is no sentinel".to_owned()));
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

    /// Masters speak TLS if sentinels do.
    fn address(&self, (host, port): (String, u16)) -> Result<ConnectionInfo, DialError> {
        let first = self.addresses.first().ok_or(SettingsError::NoUrl)?;
        Ok(moved_to(first, host, port))
    }
}

async fn ask(
    settings: &Settings,
    connection: &mut MultiplexedConnection,
    name: &str,
) -> Result<(String, u16), DialError> {
    let mut question = redis::cmd("SENTINEL");
    question.arg("GET-MASTER-ADDR-BY-NAME").arg(name);
    let answer = timeout(settings.timeout.max(super::dial::GREETING), question.query_async(connection)).await;
    let master: Option<(String, u16)> = answer.map_err(|_| DialError::TimedOut)??;
    master.ok_or_else(|| DialError::NoMaster(format!("it knows no master named {name}")))
}

/// The same way to another host: with the same database, TLS, and what the URL has of credentials.
pub(super) fn moved_to(address: &ConnectionInfo, host: String, port: u16) -> ConnectionInfo {
    let addr = match address.addr() {
        ConnectionAddr::TcpTls { insecure, .. } => {
            ConnectionAddr::TcpTls { host, port, insecure: *insecure, tls_params: None }
        }
        _ => ConnectionAddr::Tcp(host, port),
    };
    address.clone().set_addr(addr)
}
