//! A cluster: masters that share the slots, with or without replicas and relays.

use std::net::SocketAddr;

use redis::Value;

use crate::{Engine, Relay, Server, Setup, until};

/// How many slots a cluster has.
const SLOTS: u16 = 16_384;
const MASTERS: u16 = 3;
/// How far above its port a node listens to others of the cluster.
const BUS: u16 = 10_000;

/// A cluster that ends with its handle.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Server>,
    relays: Vec<Relay>,
    _buses: Vec<Relay>,
}

impl Cluster {
    /// Three masters.
    #[must_use]
    pub fn start(engine: Engine) -> Self {
        Self::of(engine, 0, false, |setup| setup)
    }

    /// Three masters with a replica each. A master that does not answer for a second is replaced.
    #[must_use]
    pub fn with_replicas(engine: Engine) -> Self {
        Self::of(engine, 1, false, |setup| setup)
    }

    /// Three masters, each of which clients find behind a relay.
    #[must_use]
    pub fn behind_relays(engine: Engine) -> Self {
        Self::of(engine, 0, true, |setup| setup)
    }

    /// Three masters that are set up further: with passwords, say.
    #[must_use]
    pub fn set_up(engine: Engine, further: impl Fn(Setup) -> Setup) -> Self {
        Self::of(engine, 0, false, further)
    }

    fn of(engine: Engine, replicas: u16, has_relays: bool, further: impl Fn(Setup) -> Setup) -> Self {
        let (mut nodes, mut relays, mut buses) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..MASTERS * (1 + replicas) {
            let setup = Setup::new(engine).line("cluster-enabled yes").line("cluster-node-timeout 1000");
            let relay = has_relays.then(|| Relay::before(setup.address));
            let announced = relay.as_ref().map_or(setup.address, Relay::address);
            let setup = setup.line(format!("cluster-announce-ip {}", announced.ip()));
            // Other nodes look for it at the address that clients are told.
            let bus = |address: SocketAddr| SocketAddr::new(address.ip(), address.port() + BUS);
            buses.extend(relay.as_ref().map(|relay| Relay::at(bus(relay.address()), bus(setup.address))));
            nodes.push(further(setup).start());
            relays.extend(relay);
        }
        let cluster = Self { nodes, relays, _buses: buses };
        cluster.meet();
        cluster
    }

    fn meet(&self) {
        for (number, node) in (0..).zip(&self.nodes) {
            node.command(&["CLUSTER", "SET-CONFIG-EPOCH", &(number + 1_u16).to_string()]);
            if number < MASTERS {
                let first = |number| SLOTS / MASTERS * number;
                let last = if number + 1 == MASTERS { SLOTS } else { first(number + 1) } - 1;
                node.command(&["CLUSTER", "ADDSLOTSRANGE", &first(number).to_string(), &last.to_string()]);
            }
        }
        let (first, others) = self.nodes.split_at(1);
        for other in others {
            let address = other.address();
            first[0].command(&["CLUSTER", "MEET", &address.ip().to_string(), &address.port().to_string()]);
        }
        let count = self.nodes.len();
        let state = |node: &Server| node.ask::<String>(&["CLUSTER", "INFO"]);
        until("the nodes' meeting", || {
            self.nodes.iter().all(|node| state(node).contains(&format!("cluster_known_nodes:{count}\r\n")))
        });
        for (master, replica) in self.nodes.iter().zip(&self.nodes[usize::from(MASTERS)..]) {
            replica.command(&["CLUSTER", "REPLICATE", &id(master)]);
        }
        self.wait_until_ok();
        self.nodes[usize::from(MASTERS)..].iter().for_each(Server::wait_for_sync);
    }

    /// Waits until all nodes see all slots served.
    pub fn wait_until_ok(&self) {
        until("a cluster's good state", || {
            self.nodes
                .iter()
                .all(|node| node.ask::<String>(&["CLUSTER", "INFO"]).contains("cluster_state:ok"))
        });
    }

    /// The masters, and behind them their replicas in the same order.
    #[must_use]
    pub fn nodes(&self) -> &[Server] {
        &self.nodes
    }

    /// The same, to kill them and start them again.
    pub fn nodes_mut(&mut self) -> &mut [Server] {
        &mut self.nodes
    }

    /// The relays, in the order of the nodes.
    #[must_use]
    pub fn relays(&self) -> &[Relay] {
        &self.relays
    }

    /// Where clients may begin.
    #[must_use]
    pub fn urls(&self) -> Vec<String> {
        match self.relays.as_slice() {
            [] => self.nodes.iter().map(Server::url).collect(),
            relays => relays.iter().map(Relay::url).collect(),
        }
    }

    /// How many keys all masters have together.
    #[must_use]
    pub fn keys(&self) -> u64 {
        self.nodes[..usize::from(MASTERS)].iter().map(Server::keys).sum()
    }

    /// The number of the master that has this slot now.
    #[must_use]
    pub fn master_of(&self, slot: u16) -> usize {
        let has = |node: &Server| {
            node.info("role") == "master"
                && ranges(node)
                    .iter()
                    .any(|(first, last, owner)| (*first..=*last).contains(&slot) && *owner == id(node))
        };
        self.nodes.iter().position(has).unwrap_or_else(|| panic!("nobody has slot {slot}"))
    }

    /// Begins to give a slot to another master: from now on its keys can be moved, and what is asked of them is
    /// redirected.
    pub fn begin_migration(&self, slot: u16, to: usize) {
        let (from, slot) = (self.master_of(slot), slot.to_string());
        let [from, to] = [from, to].map(|number| &self.nodes[number]);
        to.command(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &id(from)]);
        from.command(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &id(to)]);
    }

    /// Moves at most so many keys of a slot that is being given away; how many there were.
    pub fn move_keys(&self, slot: u16, to: usize, count: usize) -> usize {
        let from = &self.nodes[self.master_of(slot)];
        let keys: Vec<Vec<u8>> =
            from.ask(&["CLUSTER", "GETKEYSINSLOT", &slot.to_string(), &count.to_string()]);
        let address = self.nodes[to].address();
        for key in &keys {
            let mut migrate = redis::cmd("MIGRATE");
            migrate.arg(address.ip().to_string()).arg(address.port()).arg(key).arg(0).arg(5000);
            migrate.query::<Value>(&mut from.connection()).unwrap();
        }
        keys.len()
    }

    /// The slot is the other's now.
    pub fn end_migration(&self, slot: u16, to: usize) {
        let to = id(&self.nodes[to]);
        for node in self.nodes.iter().filter(|node| node.info("role") == "master") {
            node.command(&["CLUSTER", "SETSLOT", &slot.to_string(), "NODE", &to]);
        }
    }

    /// All of it: a slot with its keys goes to another master.
    pub fn migrate(&self, slot: u16, to: usize) {
        if self.master_of(slot) != to {
            self.begin_migration(slot, to);
            while self.move_keys(slot, to, 100) > 0 {}
            self.end_migration(slot, to);
        }
    }
}

fn id(node: &Server) -> String {
    node.ask(&["CLUSTER", "MYID"])
}

/// Ranges of slots, each with the identifier of its master.
fn ranges(node: &Server) -> Vec<(u16, u16, String)> {
    let nodes: String = node.ask(&["CLUSTER", "NODES"]);
    let mut ranges = Vec::new();
    for line in nodes.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        for range in words.iter().skip(8).filter(|range| !range.starts_with('[')) {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            ranges.push((first.parse().unwrap(), last.parse().unwrap(), words[0].to_owned()));
        }
    }
    ranges
}
