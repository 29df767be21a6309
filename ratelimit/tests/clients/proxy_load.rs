//! What the reverse proxy bears: large bodies, many streams, many idle clients, and servers that come and go, with
//! little memory all the while.

use std::{
    convert::Infallible,
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    path::Path,
    process::Command,
    sync::LazyLock,
};

use axum::{
    Router,
    body::{Body, Bytes},
    routing::{get, post},
};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio_stream::StreamExt as _;
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

use crate::{
    http::Answer,
    process::{Daemon, Process, accepts, free_address, get as ask, program, until},
    proxy::{UNLIMITED, start_nginx, start_proxy},
};

const LARGE: usize = 100 << 20;
const PIECE: usize = 64 << 10;

/// A proxy before a server of axum, which runs as long as this.
struct Before {
    directory: TempDir,
    address: SocketAddr,
    daemon: Process,
    _runtime: Runtime,
}

/// A body whose pieces differ, and are all known.
pub fn piece(number: usize) -> Bytes {
    static PATTERN: LazyLock<Bytes> =
        LazyLock::new(|| (0..2 * PIECE as u64).map(|place| (place * place % 251) as u8).collect());
    let start = number % PIECE;
    PATTERN.slice(start..start + PIECE)
}

fn sum_of_large() -> u32 {
    let mut sum = crc32fast::Hasher::new();
    (0..LARGE / PIECE).for_each(|number| sum.update(&piece(number)));
    sum.finalize()
}

/// How long what came is, and its checksum.
async fn sum(body: Body) -> String {
    let (mut length, mut sum, mut pieces) = (0, crc32fast::Hasher::new(), body.into_data_stream());
    while let Some(piece) = pieces.next().await {
        let piece = piece.unwrap();
        length += piece.len();
        sum.update(&piece);
    }
    format!("{length} {}", sum.finalize())
}

impl Before {
    fn axum() -> Self {
        let runtime = Runtime::new().unwrap();
        let large = || async {
            let pieces = (0..LARGE / PIECE).map(|number| Ok::<_, Infallible>(piece(number)));
            Body::from_stream(tokio_stream::iter(pieces))
        };
        let app = Router::new()
            .route("/", get(|| async { "a page" }))
            .route("/large", get(large))
            .route("/sum", post(sum));
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let server = listener.local_addr().unwrap();
        runtime.spawn(async move { axum::serve(listener, app).await });
        let directory = tempfile::tempdir().unwrap();
        let (address, daemon) = start_proxy(&directory, server, UNLIMITED);
        Self { directory, address, daemon, _runtime: runtime }
    }

    fn curl(&self, arguments: &[&str], path: &str) -> Vec<u8> {
        let url = format!("http://{}{path}", self.address);
        let mut curl = Command::new(program("RATELIMIT_CURL"));
        curl.args(["-sS"]).args(arguments).arg(url).output().unwrap().stdout
    }

    /// Mebibytes that the daemon had at most, so far.
    fn peak(&self) -> u64 {
        memory(self.daemon.id(), "VmHWM:")
    }
}

pub fn memory(process: u32, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() >> 10
}

#[test]
fn large_bodies_pass_unchanged_in_little_memory() {
    let proxy = Before::axum();
    let file = proxy.directory.path().join("large");
    let all: Vec<Bytes> = (0..LARGE / PIECE).map(piece).collect();
    fs::write(&file, all.concat()).unwrap();
    let (upload, expected) = (format!("@{}", file.display()), sum_of_large());
    let before = proxy.peak();
    for version in ["--http1.1", "--http2-prior-knowledge"] {
        let got = proxy.curl(&[version], "/large");
        assert_eq!((got.len(), crc32fast::hash(&got)), (LARGE, expected), "{version}");
        for chunked in [&[][..], &["-H", "transfer-encoding: chunked"]] {
            if version != "--http1.1" && !chunked.is_empty() {
                continue;
            }
            // It asks whether to go on first, as it does with large bodies.
            let expect = [version, "-H", "expect: 100-continue", "--data-binary", &upload];
            let got = proxy.curl(&[&expect, chunked].concat(), "/sum");
            assert_eq!(
                String::from_utf8(got).unwrap(),
                format!("{LARGE} {expected}"),
                "{version} {chunked:?}"
            );
        }
    }
    let grown = proxy.peak() - before;
    assert!(grown < 16, "{grown} MiB more");
}

#[test]
fn a_thousand_streams_on_a_connection_are_answered() {
    let proxy = Before::axum();
    for arguments in
        [&["-c1", "-m1000", "-n5000"][..], &["-c20", "-m50", "-n5000"], &["--h1", "-c200", "-n5000"]]
    {
        let mut h2load = Command::new(program("RATELIMIT_H2LOAD"));
        let output = h2load.args(arguments).arg(format!("http://{}/", proxy.address)).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(said.contains("5000 succeeded, 0 failed") && said.contains("codes: 5000 2xx"), "{said}");
    }
}

#[test]
fn ten_thousand_idle_clients_take_little_memory_and_keep_nobody_out() {
    const CLIENTS: usize = 10_000;
    let proxy = Before::axum();
    let before = proxy.peak();
    let mut idle = Vec::new();
    for number in 0..CLIENTS {
        let mut stream = TcpStream::connect(proxy.address).unwrap();
        // Half of them begin to ask, and stop.
        if number % 2 == 0 {
            stream.write_all(b"GET / HTTP/1.1\r\nHo").unwrap();
        }
        idle.push(stream);
    }
    for _ in 0..20 {
        assert_eq!(ask(proxy.address, "/", &[]).body, "a page");
    }
    let grown = proxy.peak() - before;
    assert!(grown < 320, "{grown} MiB for {CLIENTS} connections");
}

#[test]
fn clients_that_do_not_read_or_reset_take_bounded_memory() {
    const CLIENTS: usize = 100;
    let proxy = Before::axum();
    let before = proxy.peak();
    let mut slow = Vec::new();
    for _ in 0..CLIENTS {
        let mut stream = TcpStream::connect(proxy.address).unwrap();
        stream.write_all(b"GET /large HTTP/1.1\r\nHost: shop\r\n\r\n").unwrap();
        // Its answer has begun.
        stream.read_exact(&mut [0; 100]).unwrap();
        slow.push(stream);
    }
    for _ in 0..20 {
        assert_eq!(ask(proxy.address, "/", &[]).body, "a page");
    }
    let grown = proxy.peak() - before;
    assert!(grown < 48, "{grown} MiB for {CLIENTS} answers of 100 MiB that nobody reads");
    // With unread bytes, this is a reset.
    drop(slow);
    let is_over = || status(proxy.directory.path()).contains("\"in_flight\":0");
    until("the end of all that was asked", is_over);
    assert_eq!(ask(proxy.address, "/", &[]).body, "a page");
}

/// What the daemon in this directory says of itself.
fn status(directory: &Path) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ratelimit"));
    let control = directory.join("control.sock");
    let output = command.args(["status", "--output", "json", "--control"]).arg(control).output().unwrap();
    String::from_utf8(output.stdout).unwrap().replace(": ", ":")
}

#[test]
fn a_server_that_starts_again_is_found_again() {
    let directory = tempfile::tempdir().unwrap();
    let server = free_address();
    let mut nginx = start_nginx(&directory, server, "");
    let (address, _daemon) = start_proxy(&directory, server, UNLIMITED);
    for _ in 0..3 {
        assert_eq!(ask(address, "/page", &[]).body, "a page");
        nginx.kill();
        let gone: Answer = ask(address, "/page", &[]);
        assert_eq!(gone.status, 502);
        assert!(gone.body.contains("upstream 1 of 1 can't be connected to"), "{gone:?}");
        nginx = start_nginx(&directory, server, "");
        // The connection that was kept is of the server before.
        assert_eq!(ask(address, "/page", &[]).body, "a page");
    }
}

#[test]
fn calls_over_grpc_pass_through_it() {
    let behind = Daemon::start("domain: d\n", "");
    let directory = tempfile::tempdir().unwrap();
    let config = UNLIMITED.replace("http://", "h2c://");
    let (address, _daemon) = start_proxy(&directory, behind.grpc, &config);
    Runtime::new().unwrap().block_on(async {
        let channel = tonic::transport::Channel::from_shared(format!("http://{address}")).unwrap();
        let mut health = HealthClient::new(channel.connect().await.unwrap());
        let answer = health.check(HealthCheckRequest::default()).await.unwrap().into_inner();
        assert_eq!(answer.status(), ServingStatus::Serving);
        // A stream that goes on, and an error, which is in the trailers.
        let mut watched = health.watch(HealthCheckRequest::default()).await.unwrap().into_inner();
        assert_eq!(watched.message().await.unwrap().unwrap().status(), ServingStatus::Serving);
        let request = HealthCheckRequest { service: "nobody".to_owned() };
        assert_eq!(health.check(request).await.unwrap_err().code(), tonic::Code::NotFound);
    });
}

#[test]
fn without_a_store_requests_pass_or_not_as_configured() {
    for (configured, expected) in [("allow", 200), ("deny", 429), ("local", 200)] {
        let directory = tempfile::tempdir().unwrap();
        let server = free_address();
        let _nginx = start_nginx(&directory, server, "");
        let rules =
            "domain: web\ndescriptors: [{key: all, rate_limit: {unit: day, requests_per_unit: 100}}]\n";
        fs::write(directory.path().join("rules.yaml"), rules).unwrap();
        let store = format!("store: {{redis: {{url: 'redis://{}'}}}}", free_address());
        let asks = "domain: web\n      descriptors: [{all: all}]\n      routes:";
        let config = UNLIMITED.replace("routes:", asks).replacen(
            "application:\n",
            &format!("application:\n  rules: [rules.yaml]\n  on_store_error: {configured}\n  {store}\n"),
            1,
        );
        let (address, mut daemon) = start_proxy(&directory, server, &config);
        for _ in 0..5 {
            assert_eq!(ask(address, "/page", &[]).status, expected, "{configured}");
        }
        assert!(daemon.is_running() && accepts(address));
    }
}
