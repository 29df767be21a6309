//! One way to serve, whatever is answered: listeners, what happens when there are too many connections, and connections
//! within bounds. Bounds and what happens are data of a listener; who answers is a [`Handler`], or an [`Exchange`] if
//! bodies are streams whose sizes nobody knows.

mod activity;
mod announced;
mod bounds;
mod budget;
mod budgeted_body;
mod connection;
mod frames;
mod linger;
mod listen;
mod overload;
mod routes;

pub use self::{
    activity::AnswerGuard,
    announced::Announcers,
    bounds::{Bounds, ConnectionTimeouts, Versions},
    budget::{Budget, Full, Metered, Share},
    connection::{
        Bounded, Client, Endpoint, Exchange, Handler, PeerAddress, Phase, close_after, room_for_refusal,
    },
    listen::Listener,
    overload::{ConnectionLimit, Overload},
    routes::serve_routes,
};
