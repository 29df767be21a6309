//! The cases: a server, a protocol, and what comes out.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    ask::{self, Http, Rpc},
    process::{Kind, Server, throttlecrab_path},
};

/// Connections that ask at once.
const CONNECTIONS: u64 = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Grpc,
    Http,
    Unix,
}

/// A server and how it is asked.
pub struct Case {
    pub name: String,
    protocol: Protocol,
    kind: Kind,
    server: Arc<Server>,
}

/// What a case came to in one round; times in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    pub a_second: f64,
    pub p50: f64,
    pub p99: f64,
    pub p999: f64,
}

/// Each server runs once, for all of its cases.
pub fn all() -> Vec<Case> {
    let mut kinds = vec![(Kind::Limiter, "ratelimit"), (Kind::Empty, "no rule")];
    match throttlecrab_path() {
        Some(_) => kinds.push((Kind::Throttlecrab, "throttlecrab-server")),
        None => println!("throttlecrab-server is left out: THROTTLECRAB_SERVER does not say where it is"),
    }
    let servers: Vec<_> =
        kinds.into_iter().map(|(kind, name)| (kind, name, Arc::new(Server::start(kind)))).collect();
    let protocols =
        [(Protocol::Grpc, "gRPC"), (Protocol::Http, "HTTP"), (Protocol::Unix, "HTTP, Unix socket")];
    let mut cases = Vec::new();
    for (protocol, spoken) in protocols {
        for (kind, name, server) in &servers {
            // It has no such listener.
            if (*kind, protocol) != (Kind::Throttlecrab, Protocol::Unix) {
                let name = format!("{spoken}: {name}");
                cases.push(Case { name, protocol, kind: *kind, server: Arc::clone(server) });
            }
        }
    }
    cases
}

pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

enum Client {
    Http(Http),
    Rpc(Rpc),
}

impl Case {
    /// Asks for so long.
    pub fn run(&self, time: Duration) -> Figures {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("threads");
        let mut times = runtime.block_on(async {
            let mut clients = Vec::new();
            for _ in 0..CONNECTIONS {
                clients.push(self.client().await);
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
        });
        times.sort_unstable();
        let at = |share: f64| f64::from(times[((times.len() - 1) as f64 * share) as usize]) / 1000.0;
        Figures {
            a_second: times.len() as f64 / time.as_secs_f64(),
            p50: at(0.5),
            p99: at(0.99),
            p999: at(0.999),
        }
    }

    async fn client(&self) -> Client {
        let is_throttlecrab = self.kind == Kind::Throttlecrab;
        let question = if is_throttlecrab { ask::throttle } else { ask::check };
        match self.protocol {
            Protocol::Grpc => Client::Rpc(Rpc::connect(self.server.grpc, is_throttlecrab).await),
            Protocol::Http => Client::Http(Http::tcp(self.server.http, question).await),
            Protocol::Unix => Client::Http(Http::unix(&self.server.unix, question).await),
        }
    }
}

/// The time of each answer in nanoseconds.
async fn ask_until(end: Instant, mut client: Client, first: u64) -> Vec<u32> {
    let mut times = Vec::with_capacity(1 << 16);
    let mut number = first;
    let mut before = Instant::now();
    while before < end {
        // Numbers that differ by a large step, so that keys come in no order that a cache could like.
        number = number.wrapping_add(CONNECTIONS * 7_919);
        match &mut client {
            Client::Http(client) => client.ask(number).await,
            Client::Rpc(client) => client.ask(number).await,
        }
        let after = Instant::now();
        times.push(u32::try_from((after - before).as_nanos()).unwrap_or(u32::MAX));
        before = after;
    }
    times
}
