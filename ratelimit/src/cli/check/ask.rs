//! Asking, over HTTP or gRPC, through TCP, TLS or a Unix socket.

use std::{io, path::Path, sync::Arc, time::Duration};

use http::{Request, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use thiserror::Error;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, UnixStream},
};
use tokio_rustls::{
    TlsConnector,
    rustls::{
        self, ClientConfig, RootCertStore,
        pki_types::{InvalidDnsNameError, ServerName},
    },
};
use tonic::{
    Code,
    transport::{Channel, Endpoint as ChannelTo},
};

use super::endpoint::{Endpoint, Place};
use crate::server::{
    TlsError, certificates,
    proto::envoy::{
        extensions::common::ratelimit::v3::{RateLimitDescriptor, rate_limit_descriptor::Entry},
        service::ratelimit::v3::{
            RateLimitRequest, RateLimitResponse,
            rate_limit_response::{self as proto, DescriptorStatus},
            rate_limit_service_client::RateLimitServiceClient,
        },
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
    #[error("{to}: no daemon answers there ({source}); say where with `--url` or `--config`")]
    Nobody {
        /// Where.
        to: String,
        /// Why not.
        source: io::Error,
    },
    /// It takes too long.
    #[error("the daemon does not answer")]
    Stuck,
    /// The certificates to trust.
    #[error("`--ca`: {0}")]
    Ca(#[from] TlsError),
    /// The host has no name that certificates can be for.
    #[error(transparent)]
    Name(#[from] InvalidDnsNameError),
    /// TLS can't be set up.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// Its certificate is not trusted, or it does not speak TLS.
    #[error(
        "TLS: {0}; `--ca` says who vouches for the daemon's certificate, and http:// or grpc:// asks without TLS"
    )]
    Handshake(io::Error),
    /// The exchange broke off.
    #[error(
        "this is not understood there: {0}; HTTP and gRPC have addresses of their own, with TLS or without, so say by \
         `--url` which is spoken: http://, https://, grpc:// or grpcs://"
    )]
    Broken(String),
    /// It can't answer that.
    #[error("the daemon answers: {0}")]
    Refused(String),
}

/// Asks what `/v1/check` takes, and answers as it does.
pub fn ask(endpoint: &Endpoint, question: &Value) -> Result<Value, AskError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(broken)?;
    let asked = async {
        if endpoint.is_grpc { ask_grpc(endpoint, question).await } else { ask_http(endpoint, question).await }
    };
    runtime.block_on(async { tokio::time::timeout(PATIENCE, asked).await.unwrap_or(Err(AskError::Stuck)) })
}

fn broken(error: impl std::fmt::Display) -> AskError {
    AskError::Broken(error.to_string())
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

async fn connect(endpoint: &Endpoint) -> Result<Box<dyn Stream>, AskError> {
    let (stream, host): (Box<dyn Stream>, &str) = match &endpoint.place {
        Place::Tcp { host, port } => {
            let failed = |source| AskError::Nobody { to: format!("{host}:{port}"), source };
            (Box::new(TcpStream::connect((host.as_str(), *port)).await.map_err(failed)?), host)
        }
        Place::Unix(path) => {
            let failed = |source| AskError::Nobody { to: format!("unix:{}", path.display()), source };
            (Box::new(UnixStream::connect(path).await.map_err(failed)?), "localhost")
        }
    };
    let Some(ca) = &endpoint.ca else { return Ok(stream) };
    let name = ServerName::try_from(host.to_owned())?;
    let protocol = if endpoint.is_grpc { "h2" } else { "http/1.1" };
    let connector = TlsConnector::from(Arc::new(tls(ca, protocol)?));
    Ok(Box::new(connector.connect(name, stream).await.map_err(AskError::Handshake)?))
}

fn tls(ca: &Path, protocol: &str) -> Result<ClientConfig, AskError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates(ca)?);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    Ok(config)
}

async fn ask_http(endpoint: &Endpoint, question: &Value) -> Result<Value, AskError> {
    let stream = TokioIo::new(connect(endpoint).await?);
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

async fn ask_grpc(endpoint: &Endpoint, question: &Value) -> Result<Value, AskError> {
    let channel = channel(endpoint.clone()).await?;
    let answer = RateLimitServiceClient::new(channel).should_rate_limit(message(question)).await;
    answer.map(|answer| members(&answer.into_inner())).map_err(|status| match status.code() {
        // No such service, or no gRPC at all.
        Code::Unimplemented | Code::Unavailable | Code::Internal => broken(status.message()),
        _ => AskError::Refused(status.message().to_owned()),
    })
}

async fn channel(endpoint: Endpoint) -> Result<Channel, AskError> {
    // Once, before tonic hides why it failed.
    let mut stream = Some(TokioIo::new(connect(&endpoint).await?));
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
    json!({"allowed": response.overall_code() == proto::Code::Ok, "descriptors": descriptors})
}
