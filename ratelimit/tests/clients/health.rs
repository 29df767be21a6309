//! A health probe over gRPC, as orchestrators have it.

use tonic::transport::Channel;
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

use crate::process::Daemon;

#[tokio::test]
async fn the_probe_finds_the_daemon_healthy() {
    let mut daemon = Daemon::start("domain: edge\n", "");
    let address = format!("http://{}", daemon.grpc);
    let mut client = HealthClient::new(Channel::from_shared(address).unwrap().connect().await.unwrap());
    for service in ["", "envoy.service.ratelimit.v3.RateLimitService"] {
        let request = HealthCheckRequest { service: service.to_owned() };
        let answer = client.check(request).await.unwrap().into_inner();
        assert_eq!(answer.status(), ServingStatus::Serving, "{service:?}");
    }
    let unknown = HealthCheckRequest { service: "unknown".to_owned() };
    assert_eq!(client.check(unknown).await.unwrap_err().code(), tonic::Code::NotFound);
    daemon.kill();
    assert!(client.check(HealthCheckRequest::default()).await.is_err());
}
