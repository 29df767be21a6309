//! The daemon as a process of its own, with the store of the benchmark.

use std::{
    fs,
    net::{SocketAddr, TcpListener, TcpStream},
    process::{Child, Stdio},
    thread,
    time::{Duration, Instant},
};

use http::uri::PathAndQuery;
use ratelimit::server::proto::envoy::{
    extensions::common::ratelimit::v3::{RateLimitDescriptor, rate_limit_descriptor::Entry},
    service::ratelimit::v3::{RateLimitRequest, RateLimitResponse},
};
use tempfile::TempDir;
use tonic::{client::Grpc, transport::Channel};
use tonic_prost::ProstCodec;

use super::{bound::bound, case::RULES};

/// A running daemon; it ends with this, and with the benchmark.
pub struct Daemon {
    child: Child,
    _directory: TempDir,
    grpc: SocketAddr,
}

impl Daemon {
    pub fn start(store: &str) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let grpc =
            TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
        fs::write(directory.path().join("rules.yaml"), RULES).expect("a file");
        let config = format!(
            "control: control.sock\napplication:\n  rules: [rules.yaml]\n  store: {{redis: {{url: '{store}', timeout: 5s}}}}\n  \
             listen: {{grpc: '{grpc}'}}\n"
        );
        let file = directory.path().join("ratelimit.yaml");
        fs::write(&file, config).expect("a file");
        let mut command = bound(env!("CARGO_BIN_EXE_ratelimit"));
        command.arg("run").arg("--config").arg(file).env("RUST_LOG", "error");
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("a daemon");
        let start = Instant::now();
        while TcpStream::connect(grpc).is_err() {
            assert!(start.elapsed() < Duration::from_secs(30), "the daemon does not start");
            thread::sleep(Duration::from_millis(20)); // tidy: sleep, another program's start can only be polled
        }
        Self { child, _directory: directory, grpc }
    }

    pub async fn connect(&self) -> Rpc {
        let channel = Channel::from_shared(format!("http://{}", self.grpc)).expect("an address");
        Rpc(Grpc::new(channel.connect().await.expect("a connection")))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client of Envoy's service.
pub struct Rpc(Grpc<Channel>);

impl Rpc {
    pub async fn ask(&mut self, key: String) {
        self.0.ready().await.expect("a connection");
        let path = PathAndQuery::from_static("/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit");
        let entries = vec![Entry { key: "key".to_owned(), value: key }];
        let descriptors = vec![RateLimitDescriptor { entries, ..RateLimitDescriptor::default() }];
        let request = RateLimitRequest { domain: "bench".to_owned(), descriptors, hits_addend: 0 };
        let codec: ProstCodec<_, RateLimitResponse> = ProstCodec::default();
        self.0.unary(tonic::Request::new(request), path, codec).await.expect("an answer");
    }
}
