//! A daemon's servers and a program's layers, with one set of limits, and clients of all of them.

use std::{convert::Infallible, fs, sync::Arc};

use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::{
    body::{Bytes, Incoming},
    client::conn::{http1, http2},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message as _;
use ratelimit::{
    application::{self, Descriptor, Service},
    clock::FakeClock,
    config,
    limiter::{Limiter, Rule},
    policy::application::{Application, ListenAddress, Quantity},
    server::{
        Servers,
        proto::envoy::service::ratelimit::v3::{
            RateLimitRequest, RateLimitResponse, rate_limit_response::Code,
        },
    },
    tower::{ClientAddress, RateLimitLayer},
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, UnixStream},
    runtime::Runtime,
    task::JoinHandle,
};
use tower::{Layer as _, ServiceExt as _, service_fn};

use super::question::{Question, Way, text};

const CALL: &str = "http://test/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
const REMAINING: &str = "x-ratelimit-remaining";

/// What came of a question. All else is a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Allowed { remaining: u64 },
    Denied,
}

pub struct Side {
    runtime: Runtime,
    servers: Servers,
    service: Arc<Service>,
    by_address: RateLimitLayer<ByAddress>,
    _directory: TempDir,
}

type ByAddress = ratelimit::tower::ByKey<ClientAddress, FakeClock, ratelimit::store::MemoryStore>;

impl Side {
    /// With a limit on each fact.
    pub fn new(limit: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let application = application(&directory, limit);
        let clock = FakeClock::new(ratelimit::limiter::Nanos::from_secs(1_700_000_000));
        let service =
            Arc::new(Service::with_clock(&application.service_policy(), Arc::new(clock.clone())).unwrap());
        let servers = Servers::start(&application, Arc::clone(&service)).unwrap();
        let limiter = Limiter::builder().rule(Rule::new("client", spec(&application))).clock(clock);
        let by_address = ClientAddress { trusted_hops: 1, ..ClientAddress::default() };
        Self {
            runtime: tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap(),
            servers,
            service,
            by_address: RateLimitLayer::by_key(limiter.build().unwrap(), by_address),
            _directory: directory,
        }
    }

    pub fn ask(&self, question: &Question) -> Answer {
        self.runtime.block_on(async {
            match question.way() {
                Way::Grpc => self.over_grpc(question).await,
                Way::Json => self.over_http(question, "/json", question.json()).await,
                Way::Check => self.over_http(question, "/v1/check", question.json()).await,
                Way::Auth => self.send(question.request(Full::default()), question).await,
                Way::Descriptors => self.by_descriptors(question).await,
                Way::Address => {
                    let inside = service_fn(async |_| Ok::<_, Infallible>(Response::new(String::new())));
                    let answer = self.by_address.layer(inside).oneshot(question.own_request(())).await;
                    of_http(answer.unwrap().map(drop), question)
                }
                Way::Raw => unreachable!(),
            }
        })
    }

    /// Sends a message that may be none. It is answered; or an error says what it does not ask.
    pub fn ask_raw(&self, message: &[u8]) {
        let (status, _) = self.runtime.block_on(self.call(message, false));
        let asks_nothing = |request: RateLimitRequest| {
            request.domain.is_empty()
                || request.descriptors.is_empty()
                || request.descriptors.iter().any(|descriptor| descriptor.limit.is_some())
        };
        let may_fail = RateLimitRequest::decode(message).map_or_else(|_| !message.is_empty(), asks_nothing);
        assert!(status == "0" || (may_fail && ["2", "3"].contains(&&*status)), "{status}: {message:?}");
    }

    async fn over_grpc(&self, question: &Question) -> Answer {
        let (status, answer) = self.call(&question.message(), question.over_unix).await;
        assert_eq!(status, "0", "{question:?}");
        let response = RateLimitResponse::decode(&answer[5..]).unwrap();
        if response.overall_code() == Code::OverLimit {
            return Answer::Denied;
        }
        let headers = &response.response_headers_to_add;
        let remaining = headers.iter().find(|header| header.key == REMAINING);
        let remaining = remaining.unwrap_or_else(|| panic!("no limit: {question:?}"));
        Answer::Allowed { remaining: remaining.value.parse().unwrap() }
    }

    async fn call(&self, message: &[u8], over_unix: bool) -> (String, Bytes) {
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        let body: Bytes = [&[0], &length[..], message].concat().into();
        let request = Request::post(CALL).header("content-type", "application/grpc");
        let request = request.body(Full::new(body)).unwrap();
        let answer = exchange(&self.servers.addresses().grpc, over_unix, true, request).await;
        let in_header = answer.headers().get("grpc-status").cloned();
        let answer = answer.into_body().collect().await.unwrap();
        let status = in_header.or_else(|| answer.trailers()?.get("grpc-status").cloned());
        (status.unwrap().to_str().unwrap().to_owned(), answer.to_bytes())
    }

    async fn over_http(&self, question: &Question, path: &str, body: Vec<u8>) -> Answer {
        let request = Request::post(path).body(Full::new(body.into())).unwrap();
        self.send(request, question).await
    }

    async fn send(&self, mut request: Request<Full<Bytes>>, question: &Question) -> Answer {
        request.headers_mut().insert("host", http::HeaderValue::from_static("test"));
        let answer = exchange(&self.servers.addresses().http, question.over_unix, false, request).await;
        of_http(answer.map(drop), question)
    }

    async fn by_descriptors(&self, question: &Question) -> Answer {
        let describe = |request: &Request<Question>| {
            let entries = request.body().entries().map(|(key, value)| Descriptor::of([(key, text(value))]));
            let descriptors = entries.collect();
            Some(application::Request { domain: "edge".to_owned(), descriptors, hits_addend: 1 })
        };
        let layer = RateLimitLayer::by_descriptors(Arc::clone(&self.service), describe);
        let inside = service_fn(async |_| Ok::<_, Infallible>(Response::new(String::new())));
        let answer = layer.layer(inside).oneshot(question.own_request(question.clone())).await;
        of_http(answer.unwrap().map(drop), question)
    }
}

fn application(directory: &TempDir, limit: &str) -> Application {
    let keys = ["user", "method", "path", "host", "client", "page"];
    let rules: String = keys.iter().map(|key| format!("  - {{key: {key}, rate_limit: {limit}}}\n")).collect();
    let at = |name: &str| directory.path().join(name);
    fs::write(at("rules.yaml"), format!("domain: edge\ndescriptors:\n{rules}")).unwrap();
    let facts = "{user: '{header:x-user}'}, {method: '{method}'}, {path: '{path}'}, {host: '{host}'}, \
                 {page: '{query:page}'}";
    let text = format!(
        "application:
  rules: [rules.yaml]
  trusted_hops: 1
  headers: {{grpc: true}}
  auth: {{domain: edge, descriptors: [{{client: '{{client_address}}'}}, {facts}]}}
  listen:
    grpc: ['127.0.0.1:0', 'unix:{}']
    http: ['127.0.0.1:0', 'unix:{}']\n",
        at("grpc.sock").display(),
        at("http.sock").display()
    );
    fs::write(at("ratelimit.yaml"), text).unwrap();
    config::check(&at("ratelimit.yaml")).unwrap().policy.application.unwrap()
}

/// The limit of all rules, for a program that has no files of them.
fn spec(application: &Application) -> ratelimit::limiter::LimitSpec {
    let limit = application.rules.domains()[0].descriptors[0].limit.as_ref().unwrap();
    match &limit.quantity {
        Quantity::Limited(rate) => *rate.spec(),
        Quantity::Unlimited => panic!("no limit"),
    }
}

fn of_http(answer: Response<()>, question: &Question) -> Answer {
    let remaining = |headers: &HeaderMap| headers.get(REMAINING)?.to_str().ok()?.parse().ok();
    match answer.status() {
        StatusCode::OK => {
            let remaining = remaining(answer.headers()).unwrap_or_else(|| panic!("no limit: {question:?}"));
            Answer::Allowed { remaining }
        }
        StatusCode::TOO_MANY_REQUESTS | StatusCode::FORBIDDEN => Answer::Denied,
        status => panic!("{status}: {question:?}"),
    }
}

/// Asks at the one or the other of two addresses.
async fn exchange(
    addresses: &[ListenAddress],
    over_unix: bool,
    is_http2: bool,
    request: Request<Full<Bytes>>,
) -> Response<Incoming> {
    match &addresses[usize::from(over_unix)] {
        ListenAddress::Tcp(address) => {
            over(TcpStream::connect(address).await.unwrap(), is_http2, request).await
        }
        ListenAddress::Unix(path) => over(UnixStream::connect(path).await.unwrap(), is_http2, request).await,
    }
}

async fn over<S>(stream: S, is_http2: bool, request: Request<Full<Bytes>>) -> Response<Incoming>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let io = TokioIo::new(stream);
    // It ends when nobody asks any more.
    let serve = |connection| -> JoinHandle<()> { tokio::spawn(connection) };
    if is_http2 {
        let (mut sender, connection) = http2::handshake(TokioExecutor::new(), io).await.unwrap();
        serve(
            Box::pin(async { drop(connection.await) }) as std::pin::Pin<Box<dyn Future<Output = ()> + Send>>
        );
        return sender.send_request(request).await.unwrap();
    }
    let (mut sender, connection) = http1::handshake(io).await.unwrap();
    serve(Box::pin(async { drop(connection.await) }));
    sender.send_request(request).await.unwrap()
}
