//! Asking, over HTTP or gRPC, through TCP, TLS or a Unix socket.

use std::{error::Error, io, time::Duration};

use http::{Request, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use prost_types::value::Kind;
use serde_json::{Value, json};
use thiserror::Error;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, UnixStream},
};
use tonic::{
    Code,
    transport::{Channel, Endpoint as ChannelTo},
};

use super::{
    endpoint::{CheckEndpoint, EndpointAddress},
    tls::{self, ClientIdentity, HandshakeError, TlsRefusal},
};
use crate::server::proto::envoy::{
    extensions::common::ratelimit::v3::{RateLimitDescriptor, rate_limit_descriptor::Entry},
    service::ratelimit::v3::{
        RateLimitRequest, RateLimitResponse,
        rate_limit_response::{self as proto, DescriptorStatus},
        rate_limit_service_client::RateLimitServiceClient,
    },
};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of an answer.
const MOST_ANSWER: usize = 1 << 20;

/// No answer.
#[derive(Debug, Error)]
pub enum AskError {
    /// Nobody is there.
    #[error(
        "{to}: no daemon answers there ({source}); say where with `--url` or `--config FILE`, and see that the file has \
         `application.listen`"
    )]
    Nobody {
        /// Where.
        to: String,
        /// Why not.
        source: io::Error,
    },
    /// It takes too long.
    #[error("the daemon does not answer")]
    Stuck,
    /// There is no TLS, or it says no.
    #[error(transparent)]
    Tls(#[from] HandshakeError),
    /// The exchange broke off.
    #[error(
        "the daemon does not understand the question: {0}; HTTP and gRPC have addresses of their own, \
         each with TLS or without, so check that `--url` names the right one: http://, https://, grpc:// \
         or grpcs://"
    )]
    Broken(String),
    /// It can't answer that.
    #[error("the daemon answers: {0}")]
    Refused(String),
}

/// Who asks, and where.
pub struct Caller<'c> {
    /// Where.
    pub endpoint: &'c CheckEndpoint,
    /// What to show there, if it asks for something.
    pub own: Option<&'c ClientIdentity>,
}

/// Asks what `/v1/check` takes, and answers as it does.
pub fn ask(caller: &Caller<'_>, question: &Value) -> Result<Value, AskError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(broken)?;
    let refusal = TlsRefusal::default();
    let asked = async {
        let stream = connect(caller, &refusal).await?;
        if caller.endpoint.is_grpc {
            ask_grpc(stream, question).await
        } else {
            ask_http(stream, question).await
        }
    };
    let answer = runtime
        .block_on(async { tokio::time::timeout(PATIENCE, asked).await.unwrap_or(Err(AskError::Stuck)) });
    answer.map_err(|error| refusal.error(caller.own).map_or(error, AskError::Tls))
}

fn broken(error: impl std::fmt::Display) -> AskError {
    AskError::Broken(error.to_string())
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

async fn connect(caller: &Caller<'_>, refusal: &TlsRefusal) -> Result<TokioIo<Box<dyn Stream>>, AskError> {
    let endpoint = caller.endpoint;
    let protocol = if endpoint.is_grpc { "h2" } else { "http/1.1" };
    // Before anything is sent: a file that is wrong is so wherever the daemon is.
    let config = endpoint.ca.as_ref().map(|ca| tls::config(ca, caller.own, protocol)).transpose()?;
    let (stream, host): (Box<dyn Stream>, &str) = match &endpoint.place {
        EndpointAddress::Tcp { host, port } => {
            let failed = |source| AskError::Nobody { to: format!("{host}:{port}"), source };
            (Box::new(TcpStream::connect((host.as_str(), *port)).await.map_err(failed)?), host)
        }
        EndpointAddress::Unix(path) => {
            let failed = |source| AskError::Nobody { to: format!("unix:{}", path.display()), source };
            (Box::new(UnixStream::connect(path).await.map_err(failed)?), "localhost")
        }
    };
    Ok(TokioIo::new(match config {
        None => stream,
        Some(config) => Box::new(tls::connect(stream, host, config, refusal).await?),
    }))
}

async fn ask_http(stream: TokioIo<Box<dyn Stream>>, question: &Value) -> Result<Value, AskError> {
    let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.map_err(broken)?;
    tokio::spawn(connection);
    let request = Request::post("/v1/check")
        .header(header::HOST, "ratelimit")
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(question.to_string())))
        .map_err(broken)?;
    let answer = sender.send_request(request).await.map_err(broken)?;
    let status = answer.status();
    let body = Limited::new(answer.into_body(), MOST_ANSWER).collect().await.map_err(broken)?.to_bytes();
    let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
    if answer["allowed"].is_boolean() {
        return Ok(answer);
    }
    let detail = answer["detail"].as_str().map_or_else(|| status.to_string(), str::to_owned);
    Err(AskError::Refused(detail))
}

async fn ask_grpc(stream: TokioIo<Box<dyn Stream>>, question: &Value) -> Result<Value, AskError> {
    let channel = channel(stream).await?;
    let answer = RateLimitServiceClient::new(channel).should_rate_limit(message(question)).await;
    answer.map(|answer| members(&answer.into_inner())).map_err(|status| match status.code() {
        // No such service, or no gRPC at all.
        Code::Unimplemented | Code::Unavailable | Code::Internal => broken(status.message()),
        // The connection broke off, as it does where TLS is spoken: that is no answer.
        _ if status.source().is_some() => broken(root(&status)),
        _ => AskError::Refused(status.message().to_owned()),
    })
}

/// What an error comes from in the end.
fn root<'e>(mut error: &'e (dyn Error + 'static)) -> &'e (dyn Error + 'static) {
    while let Some(source) = error.source() {
        error = source;
    }
    error
}

/// Over a stream that is there already, since tonic would hide why it is not.
async fn channel(stream: TokioIo<Box<dyn Stream>>) -> Result<Channel, AskError> {
    let mut stream = Some(stream);
    let connector = tower::service_fn(move |_: http::Uri| {
        std::future::ready(stream.take().ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected)))
    });
    ChannelTo::from_static("http://ratelimit").connect_with_connector(connector).await.map_err(broken)
}

fn message(question: &Value) -> RateLimitRequest {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let entry = |entry: &Value| Entry { key: text(&entry["key"]), value: text(&entry["value"]) };
    let each = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let descriptor = |descriptor: Value| RateLimitDescriptor {
        entries: each(&descriptor["entries"]).iter().map(entry).collect(),
        hits_addend: descriptor["hits_addend"].as_u64(),
        ..RateLimitDescriptor::default()
    };
    RateLimitRequest {
        domain: text(&question["domain"]),
        descriptors: each(&question["descriptors"]).into_iter().map(descriptor).collect(),
        hits_addend: 0,
    }
}

/// What Envoy's messages say, in the words of `/v1/check`.
fn members(response: &RateLimitResponse) -> Value {
    let status = |status: &DescriptorStatus| {
        let mut members = json!({"allowed": status.code() == proto::Code::Ok});
        if let Some(limit) = &status.current_limit {
            members["limit"] = limit.requests_per_unit.into();
            members["remaining"] = status.limit_remaining.into();
            if !limit.name.is_empty() {
                members["rule"] = limit.name.clone().into();
            }
        }
        if let Some(reset) = &status.duration_until_reset {
            members["reset_after"] = reset.seconds.into();
        }
        members
    };
    let descriptors: Vec<Value> = response.statuses.iter().map(status).collect();
    json!({
        "allowed": response.overall_code() == proto::Code::Ok,
        "soft": is_soft(response),
        "descriptors": descriptors,
    })
}

/// Whether the whole request is soft: the messages have no place for it beside a descriptor.
fn is_soft(response: &RateLimitResponse) -> bool {
    let soft = response.dynamic_metadata.as_ref().and_then(|metadata| metadata.fields.get("soft"));
    soft.is_some_and(|soft| soft.kind == Some(Kind::BoolValue(true)))
}
