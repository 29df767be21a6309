//! A master and its replica, which sentinels watch.

use std::net::SocketAddr;

use crate::{Engine, Server, Setup, until};

/// What the sentinels call the master.
const NAME: &str = "limits";

/// A master, a replica and sentinels, which end with their handle.
#[derive(Debug)]
pub struct Sentinels {
    servers: [Server; 2],
    sentinels: Vec<Server>,
}

impl Sentinels {
    /// With so many sentinels. A master that does not answer for half a second is replaced.
    #[must_use]
    pub fn start(engine: Engine, count: usize) -> Self {
        Self::set_up(engine, count, |setup| setup, |setup| setup)
    }

    /// The same with servers, and with sentinels, that are set up further. Sentinels know the servers' password.
    #[must_use]
    pub fn set_up(
        engine: Engine,
        count: usize,
        servers: impl Fn(Setup) -> Setup,
        sentinels: impl Fn(Setup) -> Setup,
    ) -> Self {
        let master = servers(Setup::new(engine)).start();
        let replica = servers(Setup::new(engine)).replica_of(&master).start();
        replica.wait_for_sync();
        let address = master.address();
        let sentinel = || {
            let mut setup = Setup::new(engine);
            setup.is_sentinel = true;
            let ip = setup.address.ip();
            setup = setup.line(format!("sentinel announce-ip {ip}"));
            setup = setup.line(format!(
                "sentinel monitor {NAME} {} {} {}",
                address.ip(),
                address.port(),
                count / 2 + 1
            ));
            for line in ["down-after-milliseconds limits 500", "failover-timeout limits 3000"] {
                setup = setup.line(format!("sentinel {line}"));
            }
            if let Some(password) = &master.password() {
                setup = setup.line(format!("sentinel auth-pass {NAME} {password}"));
            }
            sentinels(setup).start()
        };
        let sentinels: Vec<Server> = (0..count).map(|_| sentinel()).collect();
        let all = Self { servers: [master, replica], sentinels };
        all.wait_until_known(count);
        all
    }

    /// Until each sentinel knows the replica and the other sentinels.
    fn wait_until_known(&self, count: usize) {
        let knows = |sentinel: &Server, of: &str, count: usize| {
            sentinel.ask::<Vec<redis::Value>>(&["SENTINEL", of, NAME]).len() == count
        };
        until("the sentinels' view", || {
            self.sentinels.iter().all(|one| knows(one, "REPLICAS", 1) && knows(one, "SENTINELS", count - 1))
        });
    }

    /// What they call the master.
    #[must_use]
    pub fn name(&self) -> &'static str {
        NAME
    }

    /// Where clients ask for the master.
    #[must_use]
    pub fn urls(&self) -> Vec<String> {
        self.sentinels.iter().map(Server::url).collect()
    }

    /// The first master, and the first replica.
    #[must_use]
    pub fn servers(&self) -> &[Server; 2] {
        &self.servers
    }

    /// The same, to kill them and start them again.
    pub fn servers_mut(&mut self) -> &mut [Server; 2] {
        &mut self.servers
    }

    /// The sentinels themselves.
    pub fn sentinels_mut(&mut self) -> &mut [Server] {
        &mut self.sentinels
    }

    /// The master's address, as the last sentinel has it.
    #[must_use]
    pub fn master(&self) -> SocketAddr {
        let last = self.sentinels.last().unwrap();
        let (ip, port): (String, String) = last.ask(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME]);
        format!("{ip}:{port}").parse().unwrap()
    }

    /// Tells the sentinels to make the replica the master, and waits until it is.
    pub fn fail_over(&self) {
        let before = self.master();
        until("the sentinels' consent", || {
            let mut connection = self.sentinels[0].connection();
            redis::cmd("SENTINEL").arg(&["FAILOVER", NAME]).exec(&mut connection).is_ok()
        });
        self.wait_for_another(before);
    }

    /// Waits until the master is another than this one, and takes writes.
    pub fn wait_for_another(&self, before: SocketAddr) {
        until("a failover", || {
            let master = self.master();
            let mut servers = self.servers.iter();
            master != before
                && servers.any(|server| server.address() == master && server.info("role") == "master")
        });
    }
}
