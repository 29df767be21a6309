//! Routes that are not for the world, as those of the control socket and of the metrics.

use std::{convert::Infallible, io, sync::Arc};

use axum::{Router, body::Body, response::IntoResponse as _};
use http::{Request, Response, StatusCode};
use tokio::sync::watch;
use tower_service::Service as _;

use super::{
    bounds::Bounds,
    budget::{Budget, Metered},
    connection::{Bounded, Endpoint, Handler, PeerAddress, Phase},
    listen::Listener,
    overload::ConnectionLimit,
};

impl Handler for Router {
    async fn answer(&self, _: PeerAddress, request: Request<Metered>) -> Result<Response<Body>, Infallible> {
        self.clone().call(request).await
    }

    fn no_room(&self, _: &str) -> Response<Body> {
        StatusCode::SERVICE_UNAVAILABLE.into_response()
    }

    fn too_late(&self) -> Response<Body> {
        StatusCode::REQUEST_TIMEOUT.into_response()
    }
}

/// Answers at a listener for as long as it is polled. What bodies hold is for the routes to bound.
///
/// # Errors
/// The runtime has no place for the listener.
pub async fn serve_routes(
    listener: Listener,
    routes: Router,
    bounds: Bounds,
    room: Arc<ConnectionLimit>,
) -> io::Result<()> {
    // Nobody tells it to leave.
    let (_serving, phase) = watch::channel(Phase::Serving);
    let exchange = Bounded { handler: routes, budget: Budget::unlimited(), time: bounds.times.request };
    listener.run(room, Endpoint { exchange, bounds, phase }).await
}

#[cfg(test)]
mod tests {
    //! Clients as they are, such as tools that send their input and close their side.

    use axum::routing::get;
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::UnixStream,
    };

    use super::{
        super::{
            activity::Activity,
            connection::{Client, serve},
        },
        *,
    };

    #[tokio::test]
    async fn who_has_said_all_still_gets_the_answer() {
        let routes = Router::new().route("/", get(|| async { tokio::task::yield_now().await }));
        let (mut client, server) = UnixStream::pair().unwrap();
        client.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        client.shutdown().await.unwrap();
        let (_serving, phase) = watch::channel(Phase::Serving);
        let bounds = Bounds::INTERNAL;
        let exchange = Bounded { handler: routes, budget: Budget::unlimited(), time: None };
        let (who, endpoint) = (Client::new(PeerAddress(None), false), Endpoint { exchange, bounds, phase });
        serve(Box::new(server), who, Activity::new(&bounds.times), endpoint).await;
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await.unwrap();
        assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
    }
}
