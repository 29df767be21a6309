//! Questions over connections that stay, one at a time on each.

use std::{net::SocketAddr, path::Path};

use http::uri::PathAndQuery;
use memchr::memmem;
use prost::Message;
use ratelimit::server::proto::envoy::{
    extensions::common::ratelimit::v3::{RateLimitDescriptor, rate_limit_descriptor::Entry},
    service::ratelimit::v3::{RateLimitRequest, RateLimitResponse},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpStream, UnixStream},
};
use tonic::{client::Grpc, transport::Channel};
use tonic_prost::ProstCodec;

/// Keys that are asked about, in turn.
const KEYS: u64 = 100_000;

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// HTTP/1.1 over anything.
pub struct Http {
    stream: Box<dyn Stream>,
    /// The question for a key.
    question: fn(u64) -> String,
    buffer: Vec<u8>,
}

impl Http {
    pub async fn tcp(address: SocketAddr, question: fn(u64) -> String) -> Self {
        let stream = TcpStream::connect(address).await.expect("a connection");
        stream.set_nodelay(true).expect("a socket");
        Self { stream: Box::new(stream), question, buffer: Vec::new() }
    }

    pub async fn unix(path: &Path, question: fn(u64) -> String) -> Self {
        let stream = UnixStream::connect(path).await.expect("a connection");
        Self { stream: Box::new(stream), question, buffer: Vec::new() }
    }

    pub async fn ask(&mut self, number: u64) {
        let question = (self.question)(number % KEYS);
        self.stream.write_all(question.as_bytes()).await.expect("a question");
        self.buffer.clear();
        while !is_whole(&self.buffer) {
            assert!(self.stream.read_buf(&mut self.buffer).await.expect("an answer") > 0, "an answer");
        }
        assert!(self.buffer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&self.buffer));
    }
}

/// Whether all of it has come. It looks at no more than that, since whoever asks takes time from who answers; all
/// servers here write names in small letters.
pub fn is_whole(answer: &[u8]) -> bool {
    const LENGTH: &[u8] = b"\r\ncontent-length: ";
    let Some(end) = memmem::find(answer, b"\r\n\r\n") else { return false };
    let digits = memmem::find(&answer[..end], LENGTH).map(|place| &answer[place + LENGTH.len()..end]);
    let digits = digits.into_iter().flatten().take_while(|byte| byte.is_ascii_digit());
    let length = digits.fold(0, |length, digit| length * 10 + usize::from(digit - b'0'));
    answer.len() - end - 4 >= length
}

fn post(path: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

pub fn check(key: u64) -> String {
    let entries = format!(r#"[{{"key":"key","value":"key-{key}"}}]"#);
    post("/v1/check", &format!(r#"{{"domain":"bench","descriptors":[{{"entries":{entries}}}]}}"#))
}

pub fn throttle(key: u64) -> String {
    let limit = r#""max_burst":1000000,"count_per_period":1000000,"period":1,"quantity":1"#;
    post("/throttle", &format!(r#"{{"key":"key-{key}",{limit}}}"#))
}

/// What throttlecrab-server is asked.
#[derive(Clone, PartialEq, Message)]
pub struct ThrottleRequest {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(int32, tag = "2")]
    pub max_burst: i32,
    #[prost(int32, tag = "3")]
    pub count_per_period: i32,
    #[prost(int32, tag = "4")]
    pub period: i32,
    #[prost(int32, tag = "5")]
    pub quantity: i32,
}

/// What it answers.
#[derive(Clone, PartialEq, Message)]
pub struct ThrottleResponse {
    #[prost(bool, tag = "1")]
    pub allowed: bool,
}

/// gRPC, to either.
pub struct Rpc {
    client: Grpc<Channel>,
    is_throttlecrab: bool,
}

impl Rpc {
    pub async fn connect(address: SocketAddr, is_throttlecrab: bool) -> Self {
        let channel = Channel::from_shared(format!("http://{address}")).expect("an address");
        Self { client: Grpc::new(channel.connect().await.expect("a connection")), is_throttlecrab }
    }

    pub async fn ask(&mut self, number: u64) {
        let key = format!("key-{}", number % KEYS);
        self.client.ready().await.expect("a connection");
        if self.is_throttlecrab {
            let path = PathAndQuery::from_static("/throttlecrab.RateLimiter/Throttle");
            let request = ThrottleRequest {
                key,
                max_burst: 1_000_000,
                count_per_period: 1_000_000,
                period: 1,
                quantity: 1,
            };
            let codec: ProstCodec<_, ThrottleResponse> = ProstCodec::default();
            self.client.unary(tonic::Request::new(request), path, codec).await.expect("an answer");
        } else {
            let path =
                PathAndQuery::from_static("/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit");
            let entries = vec![Entry { key: "key".to_owned(), value: key }];
            let descriptors = vec![RateLimitDescriptor { entries, ..RateLimitDescriptor::default() }];
            let request = RateLimitRequest { domain: "bench".to_owned(), descriptors, hits_addend: 0 };
            let codec: ProstCodec<_, RateLimitResponse> = ProstCodec::default();
            self.client.unary(tonic::Request::new(request), path, codec).await.expect("an answer");
        }
    }
}
