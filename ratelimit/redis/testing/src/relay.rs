//! A relay in front of a server, which loses, holds or delays what it carries.

use std::{
    io::{Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex},
    thread,
    time::Duration,
};

use crate::setup::own_address;

/// What a relay does with what it gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Carries all, both ways.
    Open,
    /// Carries what clients ask, and drops what is answered.
    SwallowReplies,
    /// Carries nothing; connections stay, and what is sent waits.
    Hold,
    /// Carries all, this much later.
    Delay(Duration),
    /// Has no connections: cuts those there are, and each new one.
    Cut,
}

/// A relay of a test's own. It ends with its handle.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    inner: Mutex<Inner>,
    changed: Condvar,
}

#[derive(Debug)]
struct Inner {
    way: Way,
    ended: bool,
    streams: Vec<TcpStream>,
    swallowed: usize,
}

impl Relay {
    /// Before this server.
    #[must_use]
    pub fn before(server: SocketAddr) -> Self {
        Self::at(own_address(), server)
    }

    /// At an address that nobody else has.
    pub(crate) fn at(address: SocketAddr, server: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let inner = Inner { way: Way::Open, ended: false, streams: Vec::new(), swallowed: 0 };
        let state = Arc::new(State { inner: Mutex::new(inner), changed: Condvar::new() });
        let of_thread = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if of_thread.inner.lock().unwrap().ended {
                    break;
                }
                of_thread.take(client, server);
            }
        });
        Self { address, state }
    }

    /// Where clients connect.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its address as a URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// From now on it does this.
    pub fn set(&self, way: Way) {
        let mut inner = self.state.inner.lock().unwrap();
        inner.way = way;
        if way == Way::Cut {
            inner.cut();
        }
        self.state.changed.notify_all();
    }

    /// How many pieces of answers it has dropped; an answer is one or more.
    #[must_use]
    pub fn swallowed(&self) -> usize {
        self.state.inner.lock().unwrap().swallowed
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let mut inner = self.state.inner.lock().unwrap();
        inner.ended = true;
        inner.cut();
        self.state.changed.notify_all();
        drop(inner);
        // The listener's thread sees it with the next connection.
        let _ = TcpStream::connect(self.address);
    }
}

impl Inner {
    fn cut(&mut self) {
        for stream in self.streams.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl State {
    fn take(self: &Arc<Self>, client: TcpStream, server: SocketAddr) {
        if self.inner.lock().unwrap().way == Way::Cut {
            return;
        }
        let Ok(server) = TcpStream::connect(server) else { return };
        for (from, to, is_reply) in [(&client, &server, false), (&server, &client, true)] {
            let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
            let state = Arc::clone(self);
            thread::spawn(move || state.carry(&from, &to, is_reply));
        }
        self.inner.lock().unwrap().streams.extend([client, server]);
    }

    fn carry(&self, mut from: &TcpStream, mut to: &TcpStream, is_reply: bool) {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(length) = from.read(&mut buffer) {
            if length == 0 {
                break;
            }
            match self.way_once_not_held() {
                None => break,
                Some(Way::SwallowReplies) if is_reply => {
                    self.inner.lock().unwrap().swallowed += 1;
                    continue;
                }
                Some(Way::Delay(time)) => thread::sleep(time), // tidy: sleep, it is the delay itself
                Some(_) => {}
            }
            if to.write_all(&buffer[..length]).is_err() {
                break;
            }
        }
        let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
    }

    /// `None` once nothing is carried any more.
    fn way_once_not_held(&self) -> Option<Way> {
        let inner = self.inner.lock().unwrap();
        let inner = self.changed.wait_while(inner, |inner| inner.way == Way::Hold && !inner.ended).unwrap();
        (!inner.ended && inner.way != Way::Cut).then_some(inner.way)
    }
}
