//! One way to serve, whatever is answered: listeners, what happens when there are too many connections, and connections
//! within bounds. Bounds and what happens are data of a listener; who answers is a [`Handler`].

mod activity;
mod bounds;
mod budget;
mod connection;
mod held;
mod linger;
mod listen;
mod overload;
mod routes;

pub use self::{
    bounds::{Bounds, Times, Versions},
    budget::{Budget, Full, Metered},
    connection::{Endpoint, Handler, PeerAddress, Phase},
    listen::Listener,
    overload::{Overload, Room},
    routes::serve_routes,
};
