//! The cases: who asks what, with how many clients, and what comes out.

use std::{
    fs,
    sync::Arc,
    time::{Duration, Instant},
};

use ratelimit::{
    application::{Descriptor, Request, Service},
    config,
    limiter::store::remote::RemoteStore as _,
};
use ratelimit_policy::application::{RedisAddress, RedisSettings};
use ratelimit_redis::RedisStore;
use ratelimit_redis_testing::{
    Engine, Server,
    redis::{self, aio::MultiplexedConnection},
};
use tokio::runtime::Runtime;

use super::{
    bare,
    daemon::{Daemon, Rpc},
};

/// Keys that are asked about, in no order.
pub const KEYS: u64 = 100_000;

/// Under which nothing is ever denied, so that all answers are alike and each is charged.
pub const RULES: &str = "
domain: bench
descriptors:
  - key: key
    rate_limit: {algorithm: token_bucket, unit: second, requests_per_unit: 1000000}
";

/// The store, the daemon, and a service in this process for each store.
pub struct World {
    pub server: Server,
    runtime: Runtime,
    daemon: Daemon,
    shared: Arc<Service>,
    memory: Arc<Service>,
}

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// redis-benchmark, with so many questions before it waits.
    Bare(u64),
    /// The bare script over one connection, on which all clients' questions follow each other.
    Pipelined,
    /// INCRBY and EXPIRE over one connection.
    Incr,
    Library,
    Daemon,
    Memory,
}

pub struct Case {
    pub way: Way,
    pub clients: u64,
}

/// What a case came to in one round; times in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    pub a_second: f64,
    pub p50: f64,
    pub p99: f64,
    pub p999: f64,
    /// The store's processor time for a decision.
    pub store: f64,
    /// This process's: of the library all that it takes, of others their clients'.
    pub own: f64,
    /// Decisions that one call of the script makes.
    pub a_call: f64,
}

impl Way {
    pub fn name(self) -> String {
        match self {
            Self::Bare(depth) => format!("bare script, redis-benchmark, {depth} deep"),
            Self::Pipelined => "bare script, one connection".to_owned(),
            Self::Incr => "INCRBY and EXPIRE, one connection".to_owned(),
            Self::Library => "library".to_owned(),
            Self::Daemon => "daemon, gRPC".to_owned(),
            Self::Memory => "library, in memory".to_owned(),
        }
    }
}

impl World {
    pub fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("threads");
        let server = Server::start(Engine::Redis);
        let address: RedisAddress = server.url().parse().expect("an address");
        let settings =
            RedisSettings { timeout: Duration::from_secs(5).into(), ..RedisSettings::new(address) };
        let service = || Service::new(&policy()).expect("a service");
        let store = RedisStore::connect(&settings, runtime.handle());
        assert!(store.answers_within() >= Duration::from_secs(1));
        let shared = Arc::new(service().sharing(store).remembering(0));
        let daemon = Daemon::start(&server.url());
        Self { server, daemon, shared, memory: Arc::new(service()), runtime }
    }
}

fn policy() -> ratelimit::limiter::application::ServicePolicy {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("rules.yaml");
    fs::write(&path, RULES).expect("a file");
    let checked = config::check_rules(&[path], false).expect("rules");
    ratelimit::limiter::application::ServicePolicy::of_rules(checked.rules)
}

/// Seconds of processor time that the store has taken.
pub fn store_time(world: &World) -> f64 {
    processor_time(&world.server.id().to_string())
}

/// Calls of scripts that the store has had.
fn calls(world: &World) -> f64 {
    let text: String = world.server.ask(&["INFO", "commandstats"]);
    let line = text.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    line.and_then(|rest| rest.split(',').next()?.parse().ok()).unwrap_or(0.0)
}

fn processor_time(process: &str) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).expect("a process");
    let fields: Vec<&str> = stat.rsplit(')').next().expect("fields").split_whitespace().collect();
    let ticks = |index: usize| fields[index].parse::<f64>().expect("ticks");
    (ticks(11) + ticks(12)) / 100.0
}

enum Client {
    Pipelined(MultiplexedConnection, redis::Script),
    Incr(MultiplexedConnection),
    Service(Arc<Service>),
    Rpc(Rpc),
}

impl Case {
    pub fn all() -> Vec<Self> {
        let bare = [Way::Bare(1), Way::Bare(16), Way::Pipelined];
        let ways = bare.into_iter().chain([Way::Incr, Way::Library, Way::Daemon, Way::Memory]);
        let clients = [1, 50, 500];
        ways.flat_map(|way| clients.map(|clients| Self { way, clients })).collect()
    }

    /// Whether a word names it: a part of its name, or its number of clients.
    pub fn is(&self, word: &str) -> bool {
        match word.parse::<u64>() {
            Ok(clients) => clients == self.clients,
            Err(_) => self.way.name().contains(word),
        }
    }

    /// Asks for so long.
    pub fn run(&self, world: &World, time: Duration) -> Option<Figures> {
        world.server.command(&["FLUSHALL"]);
        if let Way::Bare(depth) = self.way {
            return bare::run(world, self.clients, depth, time);
        }
        let (before, own, made) = (store_time(world), processor_time("self"), calls(world));
        let mut times = world.runtime.block_on(self.ask(world, time));
        let (store, own) = (store_time(world) - before, processor_time("self") - own);
        let count = times.len() as f64;
        times.sort_unstable();
        let at = |share: f64| f64::from(times[((times.len() - 1) as f64 * share) as usize]) / 1000.0;
        Some(Figures {
            a_second: times.len() as f64 / time.as_secs_f64(),
            p50: at(0.5),
            p99: at(0.99),
            p999: at(0.999),
            store: store * 1e6 / count,
            own: own * 1e6 / count,
            a_call: count / (calls(world) - made),
        })
    }

    async fn ask(&self, world: &World, time: Duration) -> Vec<u32> {
        let redis = redis::Client::open(world.server.url()).expect("an address");
        let shared = redis.get_multiplexed_async_connection().await.expect("a connection");
        let mut clients = Vec::new();
        for _ in 0..self.clients {
            clients.push(match self.way {
                Way::Daemon => Client::Rpc(world.daemon.connect().await),
                Way::Memory => Client::Service(Arc::clone(&world.memory)),
                Way::Library => Client::Service(Arc::clone(&world.shared)),
                Way::Pipelined => Client::Pipelined(shared.clone(), redis::Script::new(bare::SCRIPT)),
                Way::Incr | Way::Bare(_) => Client::Incr(shared.clone()),
            });
        }
        let end = Instant::now() + time;
        let asking: Vec<_> = clients
            .into_iter()
            .enumerate()
            .map(|(index, client)| tokio::spawn(ask_until(end, client, index as u64)))
            .collect();
        let mut times = Vec::new();
        for asked in asking {
            times.extend(asked.await.expect("answers"));
        }
        times
    }
}

/// The time of each answer in nanoseconds.
async fn ask_until(end: Instant, mut client: Client, first: u64) -> Vec<u32> {
    let mut times = Vec::with_capacity(1 << 12);
    let mut number = first;
    let mut before = Instant::now();
    while before < end {
        number = number.wrapping_add(500 * 7_919);
        ask(&mut client, format!("key-{}", number % KEYS)).await;
        let after = Instant::now();
        times.push(u32::try_from((after - before).as_nanos()).unwrap_or(u32::MAX));
        before = after;
        if let Client::Service(service) = &client
            && service.shared_store().is_none()
        {
            // In memory nothing waits.
            tokio::task::yield_now().await;
        }
    }
    times
}

async fn ask(client: &mut Client, key: String) {
    match client {
        Client::Pipelined(connection, script) => {
            let mut asked = script.key(&key);
            asked.arg(1).arg(1_000_000).invoke_async::<()>(connection).await.expect("an answer");
        }
        Client::Incr(connection) => {
            let mut pipe = redis::pipe();
            pipe.cmd("INCRBY").arg(&key).arg(1).cmd("EXPIRE").arg(&key).arg(2);
            pipe.query_async::<()>(connection).await.expect("an answer");
        }
        Client::Service(service) => {
            let entries = vec![("key".to_owned(), key)];
            let descriptors = vec![Descriptor { entries, ..Descriptor::default() }];
            let request = Request { domain: "bench".to_owned(), descriptors, ..Request::default() };
            service.decide_async(&request).await.expect("an answer");
        }
        Client::Rpc(rpc) => rpc.ask(key).await,
    }
}
