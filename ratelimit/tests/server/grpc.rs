//! Envoy's service over gRPC, as its clients see it.

use http_body_util::{BodyExt as _, Full};
use hyper::{body::Bytes, client::conn::http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message as _;
use prost_types::value::Kind;
use ratelimit::server::proto::envoy::{
    extensions::common::ratelimit::v3::{
        RateLimitDescriptor,
        rate_limit_descriptor::{Entry, RateLimitOverride},
    },
    service::ratelimit::v3::{
        RateLimitRequest, RateLimitResponse,
        rate_limit_response::{Code, rate_limit::Unit},
        rate_limit_service_client::RateLimitServiceClient,
    },
    r#type::v3::RateLimitUnit,
};
use tonic::{Status, transport::Channel};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};
use tonic_reflection::pb::v1::{
    ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
    server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
};

use crate::support::{Fixture, PATIENCE};

pub async fn channel(fixture: &Fixture) -> Channel {
    let endpoint = Channel::from_shared(format!("http://{}", fixture.grpc())).unwrap();
    endpoint.timeout(PATIENCE).connect().await.unwrap()
}

pub fn descriptor(entries: &[(&str, &str)]) -> RateLimitDescriptor {
    let entry = |(key, value): &(&str, &str)| Entry { key: (*key).to_owned(), value: (*value).to_owned() };
    RateLimitDescriptor { entries: entries.iter().map(entry).collect(), ..RateLimitDescriptor::default() }
}

pub fn request(descriptors: Vec<RateLimitDescriptor>) -> RateLimitRequest {
    RateLimitRequest { domain: "edge".to_owned(), descriptors, hits_addend: 0 }
}

async fn ask(
    fixture: &Fixture,
    request: impl tonic::IntoRequest<RateLimitRequest>,
) -> Result<RateLimitResponse, Status> {
    let mut client = RateLimitServiceClient::new(channel(fixture).await);
    client.should_rate_limit(request).await.map(tonic::Response::into_inner)
}

#[tokio::test]
async fn each_descriptor_has_a_status() {
    let fixture = Fixture::new("");
    let descriptors = vec![
        descriptor(&[("user", "alice")]),
        descriptor(&[("quarter", "x")]),
        descriptor(&[("other", "x")]),
    ];
    let response = ask(&fixture, request(descriptors)).await.unwrap();
    assert_eq!(response.overall_code(), Code::Ok);
    let [user, quarter, other] = &response.statuses[..] else { panic!("{response:?}") };
    let limit = user.current_limit.as_ref().unwrap();
    assert_eq!((limit.name.as_str(), limit.requests_per_unit, limit.unit()), ("per-user", 2, Unit::Hour));
    assert_eq!((user.limit_remaining, user.duration_until_reset.as_ref().unwrap().seconds), (1, 3600));
    assert_eq!(quarter.current_limit.as_ref().unwrap().unit(), Unit::Unknown);
    assert_eq!((other.code(), &other.current_limit, other.limit_remaining), (Code::Ok, &None, 0));
    assert!(response.response_headers_to_add.is_empty() && response.dynamic_metadata.is_none());
}

#[tokio::test]
async fn hits_refunds_and_overrides_count() {
    let fixture = Fixture::new("");
    let with = |hits: u64, negative: bool, limit: Option<(u32, RateLimitUnit)>| {
        let mut descriptor = descriptor(&[("user", "bob")]);
        descriptor.hits_addend = Some(hits);
        descriptor.is_negative_hits = negative;
        descriptor.limit = limit.map(|(requests_per_unit, unit)| RateLimitOverride {
            requests_per_unit,
            unit: unit.into(),
            unit_multiplier: None,
        });
        request(vec![descriptor])
    };
    let hour = Some((5, RateLimitUnit::Hour));
    for (hits, negative, limit, code, remaining) in [
        (2, false, None, Code::Ok, 0),
        (1, false, None, Code::OverLimit, 0),
        // An override that is higher than what was exceeded lets through again, at the same counter.
        (1, false, hour, Code::Ok, 1),
        (2, true, hour, Code::Ok, 3),
        (0, false, hour, Code::Ok, 3),
        (4, false, hour, Code::OverLimit, 0),
    ] {
        let response = ask(&fixture, with(hits, negative, limit)).await.unwrap();
        let found = (response.overall_code(), response.statuses[0].limit_remaining);
        assert_eq!(found, (code, remaining), "{hits} {negative} {limit:?}");
    }
}

#[tokio::test]
async fn what_makes_no_sense_is_unknown() {
    let fixture = Fixture::new("");
    let mut unknown_unit = descriptor(&[("user", "x")]);
    unknown_unit.limit = Some(RateLimitOverride { requests_per_unit: 1, unit: 0, unit_multiplier: None });
    let mut odd_unit = unknown_unit.clone();
    odd_unit.limit.as_mut().unwrap().unit = 99;
    let no_domain = RateLimitRequest { domain: String::new(), ..request(vec![descriptor(&[("user", "x")])]) };
    for (request, part) in [
        (no_domain, "domain must not be empty"),
        (request(Vec::new()), "descriptor list must not be empty"),
        (request(vec![unknown_unit]), "unit"),
        (request(vec![odd_unit]), "unit"),
    ] {
        let status = ask(&fixture, request).await.unwrap_err();
        assert_eq!(status.code(), tonic::Code::Unknown, "{status}");
        assert!(status.message().contains(part), "{status}");
    }
    let mut several = descriptor(&[("user", "x")]);
    several.limit = Some(RateLimitOverride { requests_per_unit: 1, unit: 1, unit_multiplier: Some(2) });
    let status = ask(&fixture, request(vec![several])).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::InvalidArgument, "{status}");
    assert_eq!(ask(&fixture, request(vec![descriptor(&[("user", "x")])])).await.unwrap().statuses.len(), 1);
}

#[tokio::test]
async fn headers_that_are_too_large_are_refused_and_others_are_served() {
    let fixture = Fixture::new("");
    let megabytes = "x".repeat(2 << 20);
    let mut large = tonic::Request::new(request(vec![descriptor(&[("user", "x")])]));
    large.metadata_mut().insert("x-large", megabytes.parse().unwrap());
    // How a client takes the end of its stream is up to it.
    assert!(ask(&fixture, large).await.is_err());
    assert_eq!(ask(&fixture, request(vec![descriptor(&[("user", "x")])])).await.unwrap().statuses.len(), 1);
}

#[tokio::test]
async fn headers_come_if_they_are_wanted() {
    let fixture = Fixture::new("headers: {grpc: true, ietf: false}");
    let response = ask(&fixture, request(vec![descriptor(&[("none", "x")])])).await.unwrap();
    assert_eq!(response.overall_code(), Code::OverLimit);
    let headers: Vec<(&str, &str)> = response
        .response_headers_to_add
        .iter()
        .map(|header| (header.key.as_str(), header.value.as_str()))
        .collect();
    assert!(headers.contains(&("x-ratelimit-limit", "0")), "{headers:?}");
    assert!(!headers.iter().any(|(name, _)| name.starts_with("ratelimit")), "{headers:?}");
    // The answer of an allowed request is the application's, and may be kept if that says so.
    assert!(headers.contains(&("cache-control", "no-store")), "{headers:?}");
    let response = ask(&fixture, request(vec![descriptor(&[("user", "x")])])).await.unwrap();
    let names: Vec<&str> =
        response.response_headers_to_add.iter().map(|header| header.key.as_str()).collect();
    assert_eq!(names, ["x-ratelimit-limit", "x-ratelimit-remaining"]);
}

#[tokio::test]
async fn what_a_rule_has_for_later_filters_comes_as_metadata() {
    let fixture = Fixture::new("");
    let response = ask(&fixture, request(vec![descriptor(&[("tagged", "x")])])).await.unwrap();
    let metadata = response.dynamic_metadata.unwrap().fields;
    let Some(Kind::StructValue(of_rule)) = &metadata["metadata"].kind else { panic!("{metadata:?}") };
    assert_eq!(of_rule.fields["team"].kind, Some(Kind::StringValue("payments".to_owned())));
    assert_eq!(metadata["domain"].kind, Some(Kind::StringValue("edge".to_owned())));
    for soft in [false, true] {
        let response = ask(&fixture, request(vec![descriptor(&[("soft", "x")])])).await.unwrap();
        let flag = response.dynamic_metadata.and_then(|metadata| metadata.fields["soft"].kind.clone());
        assert_eq!(flag, soft.then_some(Kind::BoolValue(true)));
    }
}

#[tokio::test]
async fn a_deadline_that_is_over_is_said_so() {
    let fixture = Fixture::new("");
    let message = request(vec![descriptor(&[("user", "late")])]).encode_to_vec();
    // DEADLINE_EXCEEDED, before anything is charged.
    assert_eq!(send(&fixture, &message, Some("0n")).await, "4");
    assert_eq!(send(&fixture, &message, Some("20S")).await, "0");
    let response = ask(&fixture, request(vec![descriptor(&[("user", "late")])])).await.unwrap();
    assert_eq!(response.statuses[0].limit_remaining, 0);
}

#[tokio::test]
async fn health_and_reflection_answer() {
    let fixture = Fixture::new("");
    let channel = channel(&fixture).await;
    let name = "envoy.service.ratelimit.v3.RateLimitService";
    for service in ["", name] {
        let request = HealthCheckRequest { service: service.to_owned() };
        let mut client = HealthClient::new(channel.clone());
        // The reporter says so in its own time.
        let mut watched = client.watch(request).await.unwrap().into_inner();
        while watched.message().await.unwrap().unwrap().status() != ServingStatus::Serving {}
    }
    let ask = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let mut client = ServerReflectionClient::new(channel);
    let stream = client.server_reflection_info(tokio_stream::iter([ask])).await.unwrap();
    let answer = stream.into_inner().message().await.unwrap().unwrap();
    let Some(MessageResponse::ListServicesResponse(list)) = answer.message_response else {
        panic!("{answer:?}")
    };
    let names: Vec<&str> = list.service.iter().map(|service| service.name.as_str()).collect();
    assert!(names.contains(&name) && names.contains(&"grpc.health.v1.Health"), "{names:?}");
}

#[tokio::test]
async fn as_many_at_once_as_a_gateway_begins_on_a_new_connection_are_answered() {
    const MANY: usize = 1_500;
    let fixture = Fixture::new("");
    let stream = TokioIo::new(tokio::net::TcpStream::connect(fixture.grpc()).await.unwrap());
    let builder = http2::Builder::new(TokioExecutor::new()).initial_max_send_streams(MANY).clone();
    let (mut sender, connection) = builder.handshake(stream).await.unwrap();
    let connection = tokio::spawn(connection);
    let message = framed(&request(vec![descriptor(&[("user", "burst")])]).encode_to_vec());
    let answers: Vec<_> = (0..MANY)
        .map(|_| {
            let request = hyper::Request::post(format!("http://test{PATH}"));
            sender.send_request(request.body(Full::new(message.clone())).unwrap())
        })
        .collect();
    let mut passed = 0;
    for answer in answers {
        let body = answer.await.unwrap().into_body().collect().await.unwrap().to_bytes();
        passed += usize::from(RateLimitResponse::decode(&body[5..]).unwrap().overall_code() == Code::Ok);
    }
    assert_eq!(passed, 2);
    connection.abort();
}

pub const PATH: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// A message as gRPC has it in a body.
pub fn framed(message: &[u8]) -> Bytes {
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    [&[0], &length[..], message].concat().into()
}

/// Sends these bytes as a message, with a timeout that no client watches; returns the status.
pub async fn send(fixture: &Fixture, message: &[u8], timeout: Option<&str>) -> String {
    call(fixture, framed(message), timeout).await.0
}

/// What is decided about these bytes as the body of a call.
pub async fn code(fixture: &Fixture, body: Bytes) -> Code {
    let (status, answer) = call(fixture, body, None).await;
    assert_eq!(status, "0");
    RateLimitResponse::decode(&answer[5..]).unwrap().overall_code()
}

async fn call(fixture: &Fixture, body: Bytes, timeout: Option<&str>) -> (String, Bytes) {
    let stream = TokioIo::new(tokio::net::TcpStream::connect(fixture.grpc()).await.unwrap());
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    let connection = tokio::spawn(connection);
    let path = format!("http://test{PATH}");
    let mut request = hyper::Request::post(path).header("content-type", "application/grpc");
    if let Some(timeout) = timeout {
        request = request.header("grpc-timeout", timeout);
    }
    let answer = sender.send_request(request.body(Full::new(body)).unwrap()).await.unwrap();
    let in_header = answer.headers().get("grpc-status").cloned();
    let answer = answer.into_body().collect().await.unwrap();
    let status = in_header.or_else(|| answer.trailers()?.get("grpc-status").cloned());
    connection.abort();
    (status.unwrap().to_str().unwrap().to_owned(), answer.to_bytes())
}
