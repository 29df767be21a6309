//! A cluster: a link to each node that has slots, and redirects, which are followed.
//!
//! What a node redirects or refuses for now it has not applied, so that only such calls are sent again.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use ratelimit_limiter::store::remote::Breaker;
use ratelimit_policy::application::{RedisAddress, RedisSettings};
use redis::{Cmd, Pipeline, Value};
use tokio::{
    runtime::Handle,
    sync::{Notify, watch},
    task::JoinHandle,
    time::{Instant, sleep, timeout, timeout_at},
};

use super::{
    backoff::jittered,
    dial::{DialError, Dialer, GREETING, connect},
    link::{Link, LinkCommand},
    reply::{CallFate, too_late},
    sentinel::moved_to,
    slots::{Node, SlotMap, parse_node},
};

/// How often one call is redirected.
const MOST_REDIRECTS: usize = 8;

/// The time between two looks at who has which slot, while something is wrong, and while nothing is.
const LOOKS: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(30));

/// More nodes than any cluster has; what a broken one says is cut off here.
const MOST_NODES: usize = 1_000;

/// The nodes, and the task that looks who has which slot.
#[derive(Debug)]
pub(super) struct Cluster {
    nodes: Arc<Nodes>,
    looker: JoinHandle<()>,
}

#[derive(Debug)]
struct Nodes {
    runtime: Handle,
    settings: Arc<RedisSettings>,
    map: watch::Sender<SlotMap>,
    links: Mutex<BTreeMap<Node, Arc<Link>>>,
    is_doubtful: Notify,
}

impl Cluster {
    pub(super) fn start(runtime: &Handle, settings: &Arc<RedisSettings>) -> Self {
        let nodes = Arc::new(Nodes {
            runtime: runtime.clone(),
            settings: Arc::clone(settings),
            map: watch::Sender::default(),
            links: Mutex::default(),
            is_doubtful: Notify::new(),
        });
        let looker = runtime.spawn(look(Arc::clone(&nodes)));
        Self { nodes, looker }
    }

    /// Sends it to the node that has the slot, and after redirects to others.
    pub(super) async fn send(&self, slot: u16, command: &Cmd, deadline: Instant) -> Result<Value, CallFate> {
        let (mut node, mut is_asking) = (self.nodes.node(slot, deadline).await?, false);
        let mut redirects = 0..MOST_REDIRECTS;
        loop {
            let request = if is_asking { asking(command) } else { LinkCommand::One(command.clone()) };
            let link = self.nodes.link(&node);
            let refused = match link.send(request, deadline).await {
                Ok(value) => return Ok(value),
                Err(refused) => refused,
            };
            let next = |text: &str| parse_node(text, &node.0);
            match &refused {
                CallFate::Moved(text) | CallFate::Ask(text) if redirects.next().is_some() => {
                    is_asking = matches!(refused, CallFate::Ask(_));
                    let Some(next) = next(text) else { return Err(refused) };
                    if !is_asking {
                        self.nodes.moved(slot, &next);
                    }
                    node = next;
                }
                CallFate::ReadOnly | CallFate::Unable(_) | CallFate::Lost(_) | CallFate::Failed(_) => {
                    self.nodes.is_doubtful.notify_one();
                    return Err(refused);
                }
                CallFate::Moved(_) | CallFate::Ask(_) | CallFate::TryAgain | CallFate::NoScript => {
                    return Err(refused);
                }
            }
        }
    }

    /// The worst of the nodes that have slots.
    pub(super) fn breaker(&self) -> Breaker {
        if self.nodes.map.borrow().nodes().next().is_none() {
            return Breaker::Open;
        }
        let links = self.nodes.links();
        let states = links.values().map(|link| link.breaker().state());
        states.fold(Breaker::Closed, |worst, state| match (worst, state) {
            (Breaker::Open, _) | (_, Breaker::Open) => Breaker::Open,
            (Breaker::HalfOpen, _) | (_, Breaker::HalfOpen) => Breaker::HalfOpen,
            (Breaker::Closed, Breaker::Closed) => Breaker::Closed,
        })
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.looker.abort();
    }
}

fn asking(command: &Cmd) -> LinkCommand {
    let mut commands = Pipeline::with_capacity(2);
    commands.cmd("ASKING").ignore().add_command(command.clone());
    LinkCommand::Asking(commands)
}

impl Nodes {
    /// The node that has a slot. Waits for it, at the start and while a cluster is broken.
    async fn node(&self, slot: u16, deadline: Instant) -> Result<Node, CallFate> {
        if let Some(node) = self.map.borrow().node(slot) {
            return Ok(node.clone());
        }
        self.is_doubtful.notify_one();
        let mut maps = self.map.subscribe();
        let known = timeout_at(deadline, maps.wait_for(|map| map.node(slot).is_some())).await;
        let node = known.ok().and_then(Result::ok).and_then(|map| map.node(slot).cloned());
        node.ok_or_else(|| CallFate::Failed(too_late()))
    }

    /// A node has said that another one has the slot.
    fn moved(&self, slot: u16, node: &Node) {
        self.map.send_modify(|map| map.set(slot, node));
        self.is_doubtful.notify_one();
    }

    fn link(&self, node: &Node) -> Arc<Link> {
        let mut links = self.links();
        let link = links.entry(node.clone()).or_insert_with(|| {
            let address = self.address(node);
            let name = address.to_string();
            let dialer = Dialer::Node(Arc::clone(&self.settings), address);
            Arc::new(Link::start(&self.runtime, name, dialer))
        });
        Arc::clone(link)
    }

    fn address(&self, node: &Node) -> RedisAddress {
        moved_to(&self.settings, node.clone())
    }

    fn links(&self) -> MutexGuard<'_, BTreeMap<Node, Arc<Link>>> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_well(&self) -> bool {
        self.map.borrow().is_complete()
            && self.links().values().all(|link| link.breaker().state() == Breaker::Closed)
    }

    /// Who has which slot, by the first node that says it.
    async fn ask(&self) -> Option<SlotMap> {
        let nodes: BTreeSet<Node> = self.map.borrow().nodes().cloned().collect();
        let known = nodes.iter().map(|node| self.address(node));
        let mut incomplete = None;
        for address in known.chain(self.settings.addresses.iter().cloned()) {
            match ask(&self.settings, &address).await {
                Ok(map) if map.is_complete() => return Some(map),
                Ok(map) => incomplete = Some(map),
                Err(error) => tracing::debug!("{} does not say who has which slot: {error}", address),
            }
        }
        incomplete
    }

    fn take(&self, map: SlotMap) {
        let nodes: BTreeSet<&Node> = map.nodes().take(MOST_NODES).collect();
        // Nodes that have no slots any more are forgotten, nodes that have some are connected before they are needed.
        self.links().retain(|node, _| nodes.contains(node));
        for node in nodes {
            self.link(node);
        }
        self.map.send_replace(map);
    }
}

/// The masters that the first node names which answers.
pub(super) async fn masters(settings: &RedisSettings) -> Result<Vec<RedisAddress>, DialError> {
    let mut result = Err(DialError::NoAddress);
    for address in &settings.addresses {
        match ask(settings, address).await {
            Ok(map) => {
                let nodes: BTreeSet<&Node> = map.nodes().take(MOST_NODES).collect();
                return Ok(nodes.into_iter().map(|node| moved_to(settings, node.clone())).collect());
            }
            Err(error) => result = Err(error),
        }
    }
    result
}

/// Who has which slot, by this node.
async fn ask(settings: &RedisSettings, address: &RedisAddress) -> Result<SlotMap, DialError> {
    let mut connection = connect(settings, address, &settings.login, || {}).await?.connection;
    let mut question = redis::cmd("CLUSTER");
    question.arg("SLOTS");
    let answer = timeout(GREETING, question.query_async(&mut connection)).await;
    let answer: Value = answer.map_err(|_| DialError::TimedOut)??;
    let host = match address {
        RedisAddress::Tcp { host, .. } => host,
        RedisAddress::Unix(_) => "",
    };
    SlotMap::parse(answer, host).ok_or(DialError::NoCluster)
}

/// Looks who has which slot: at the start, when a call shows that something has changed, and now and then.
async fn look(nodes: Arc<Nodes>) {
    loop {
        if let Some(map) = nodes.ask().await {
            nodes.take(map);
        }
        sleep(jittered(LOOKS.0)).await;
        if nodes.is_well() {
            // Also if nobody has noticed anything.
            let _ = timeout(jittered(LOOKS.1), nodes.is_doubtful.notified()).await;
        }
    }
}
