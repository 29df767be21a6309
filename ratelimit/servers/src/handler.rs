//! Who answers at the servers' listeners: the services of gRPC, or the routes of HTTP.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{Router, body::Body};
use http::{HeaderMap, Request, Response};
use tower_service::Service as _;

use crate::{
    context::ServeContext,
    deadline, grpc,
    limits::{self, BOUNDS},
    serving::{Bounds, Full, Handler, Metered, PeerAddress, Versions},
    unjudged::Unjudged,
    web,
};

/// Which protocols a listener speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// gRPC, so HTTP/2 only.
    Grpc,
    /// HTTP/1 and HTTP/2.
    Http,
}

impl Protocol {
    /// As TLS names them, the preferred one first.
    pub const fn alpn(self) -> &'static [&'static [u8]] {
        match self {
            Self::Grpc => &[b"h2"],
            Self::Http => &[b"h2", b"http/1.1"],
        }
    }

    /// As people call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Grpc => "gRPC",
            Self::Http => "HTTP",
        }
    }

    /// What is borne.
    pub const fn bounds(self) -> Bounds {
        match self {
            Self::Grpc => Bounds { versions: Versions::Http2, streams: limits::GRPC_STREAMS, ..BOUNDS },
            Self::Http => BOUNDS,
        }
    }
}

/// Who answers, and in which protocol.
#[derive(Clone, Debug)]
pub enum RateLimitHandler {
    /// The services of gRPC: the router has those that are not asked about requests.
    Grpc(Arc<ServeContext>, Router),
    /// The routes of HTTP.
    Http(Arc<ServeContext>),
}

impl RateLimitHandler {
    /// What is spoken.
    pub const fn protocol(&self) -> Protocol {
        match self {
            Self::Grpc(..) => Protocol::Grpc,
            Self::Http(_) => Protocol::Http,
        }
    }

    fn context(&self) -> &ServeContext {
        match self {
            Self::Grpc(context, _) | Self::Http(context) => context,
        }
    }
}

impl Handler for RateLimitHandler {
    async fn answer(
        &self,
        peer: PeerAddress,
        request: Request<Metered>,
    ) -> Result<Response<Body>, Infallible> {
        match self {
            Self::Grpc(context, _) if request.uri().path() == grpc::SHOULD_RATE_LIMIT => {
                Ok(grpc::should_rate_limit(context, peer, request.into_body()).await)
            }
            Self::Grpc(_, router) => router.clone().call(request).await,
            Self::Http(context) => Ok(web::answer(context, peer, request).await),
        }
    }

    fn no_room(&self, path: &str) -> Response<Body> {
        match self {
            Self::Grpc(context, _) if path == grpc::SHOULD_RATE_LIMIT => {
                context.stats().unjudged(Unjudged::NoRoom);
                grpc::unjudged(context)
            }
            Self::Grpc(context, _) => {
                context.stats().refused_request();
                tonic::Status::resource_exhausted(Full.to_string()).into_http()
            }
            Self::Http(context) => web::no_room(context, path),
        }
    }

    fn too_late(&self) -> Response<Body> {
        deadline::exceeded(self.protocol())
    }

    fn deadline(&self, headers: &HeaderMap) -> Option<Duration> {
        match self {
            Self::Grpc(..) => deadline::asked(headers),
            Self::Http(_) => None,
        }
    }

    fn answered(&self, response: &Response<Body>, time: Duration) {
        let (stats, protocol) = (self.context().stats(), self.protocol());
        if protocol == Protocol::Grpc && grpc::is_unreadable(response) {
            stats.refused_request();
        }
        stats.answered(protocol, time);
    }

    fn opened(&self) {
        self.context().stats().opened();
    }

    fn closed(&self) {
        self.context().stats().closed();
    }

    fn refused(&self) {
        self.context().stats().refused_one();
    }
}
