//! Servers that are slow, broken or gone, and clients that leave: who hears what of it, and who does not.

use std::{
    io::{Read as _, Write as _},
    net::{Shutdown, SocketAddr, SocketAddrV4, TcpListener},
    os::fd::{AsRawFd as _, OwnedFd},
    sync::atomic::Ordering::Relaxed,
    thread,
    time::Duration,
};

use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrIn, bind, connect, getpeername, getsockname, listen,
    socket,
};

use ratelimit_servers::UpstreamFailure;

use super::{
    server::{OK, Recorder},
    support::{Proxy, body, header, status, until},
};

fn failures(proxy: &Proxy, failure: UpstreamFailure) -> u64 {
    proxy.servers.proxy().counts().values().map(|counts| counts.failures[failure as usize]).sum()
}

/// A port at which nobody listens.
fn nobody() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

#[test]
fn the_answer_says_how_a_server_failed_and_the_counters_which() {
    for (answer, expected, failure, words) in [
        (Some(""), 502, UpstreamFailure::Closed, "closed the connection"),
        (Some("HTTP/1.1 200 O"), 502, UpstreamFailure::Closed, "closed the connection"),
        (Some("SSH-2.0-x\r\n\r\n"), 502, UpstreamFailure::Unreadable, "is not HTTP"),
        (
            Some("HTTP/1.1 101 X\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n"),
            502,
            UpstreamFailure::Unreadable,
            "is not HTTP",
        ),
        (None, 504, UpstreamFailure::ResponseTimeout, "did not answer in time"),
    ] {
        let server = Recorder::new(move |stream, _| match answer {
            Some(answer) => {
                stream.write_all(answer.as_bytes()).unwrap();
                let _ = stream.shutdown(Shutdown::Both);
                false
            }
            None => true,
        });
        let address = server.address;
        let proxy =
            Proxy::new(&format!("routes: [{{timeouts: {{response: 1s}}, upstreams: 'http://{address}'}}]"));
        let got = proxy.get("/");
        assert_eq!(status(&got), expected, "{answer:?} {got}");
        assert!(body(&got).contains("upstream 1 of 1 ") && body(&got).contains(words), "{got}");
        // Where it is, is for operators alone.
        assert!(!got.contains(&address.port().to_string()), "{got}");
        assert_eq!(header(&got, "content-type"), Some("application/problem+json"));
        assert_eq!(failures(&proxy, failure), 1, "{answer:?}");
    }
    let proxy = Proxy::before(nobody());
    let got = proxy.get("/");
    assert!(status(&got) == 502 && body(&got).contains("can't be connected to"), "{got}");
    assert_eq!(failures(&proxy, UpstreamFailure::Connect), 1);
    let proxy = Proxy::new("routes: [{upstreams: 'http://no-such-host.invalid'}]");
    assert!(body(&proxy.get("/")).contains("has a name that can't be found"));
}

/// A server with no room for another client, as one that hangs: who connects hears nothing. Its clients belong to it.
fn full() -> (OwnedFd, Vec<OwnedFd>, SocketAddr) {
    let new = |flags| socket(AddressFamily::Inet, SockType::Stream, flags, None).unwrap();
    let listener = new(SockFlag::SOCK_CLOEXEC);
    bind(listener.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, 0)).unwrap();
    listen(&listener, Backlog::new(0).unwrap()).unwrap();
    let address: SockaddrIn = getsockname(listener.as_raw_fd()).unwrap();
    let mut clients = Vec::new();
    // On this host a client is connected at once, or not as long as there is no room.
    for _ in 0..100 {
        let client = new(SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK);
        let _ = connect(client.as_raw_fd(), &address);
        let is_connected = getpeername::<SockaddrIn>(client.as_raw_fd()).is_ok();
        clients.push(client);
        if !is_connected {
            return (listener, clients, SocketAddrV4::from(address).into());
        }
    }
    panic!("there is room for any number of clients");
}

#[test]
fn a_server_that_can_not_be_connected_to_in_time_is_named_as_that() {
    let (_listener, _clients, hangs) = full();
    let connect = "timeouts: {connect: 1s}";
    let proxy = Proxy::new(&format!("routes: [{{{connect}, upstreams: 'http://{hangs}'}}]"));
    let got = proxy.get("/");
    assert_eq!(status(&got), 504, "{got}");
    assert!(body(&got).contains("upstream 1 of 1 can't be connected to in time"), "{got}");
    assert_eq!(failures(&proxy, UpstreamFailure::ConnectTimeout), 1);
    let server = Recorder::answering(OK);
    let other = server.address;
    let proxy =
        Proxy::new(&format!("routes: [{{{connect}, upstreams: ['http://{hangs}', 'http://{other}']}}]"));
    assert_eq!(status(&proxy.get("/")), 200, "nothing was sent, so another server is asked");
    assert_eq!(failures(&proxy, UpstreamFailure::ConnectTimeout), 1);
}

#[test]
fn what_was_not_sent_goes_to_another_server() {
    let server = Recorder::answering(OK);
    let proxy =
        Proxy::new(&format!("routes: [{{upstreams: ['http://{}', 'http://{}']}}]", nobody(), server.address));
    for _ in 0..10 {
        let request = "POST / HTTP/1.1\r\nHost: shop\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc";
        assert_eq!(body(&proxy.send(request)), "ok");
        assert!(server.next().ends_with("abc"));
    }
    // It is left alone for a while.
    assert_eq!(failures(&proxy, UpstreamFailure::Connect), 1);
}

#[test]
fn what_may_have_been_carried_out_is_not_sent_twice() {
    let broken = Recorder::new(|_, _| false);
    let other = Recorder::answering(OK);
    let proxy = Proxy::new(&format!(
        "routes: [{{upstreams: ['http://{}', 'http://{}']}}]",
        broken.address, other.address
    ));
    assert_eq!(status(&proxy.get("/")), 502);
    assert!(other.has_nothing());
    assert_eq!(status(&proxy.get("/")), 200);
}

#[test]
fn a_server_that_comes_back_is_found_again() {
    let address = nobody();
    let proxy = Proxy::before(address);
    assert_eq!(status(&proxy.get("/")), 502);
    let listener = TcpListener::bind(address).unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(OK.as_bytes());
        }
    });
    assert_eq!(status(&proxy.get("/")), 200);
}

#[test]
fn an_answer_that_stops_in_the_middle_is_no_whole_answer() {
    let server = Recorder::new(|stream, _| {
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nbegin").unwrap();
        true
    });
    let proxy =
        Proxy::new(&format!("routes: [{{timeouts: {{idle: 1s}}, upstreams: 'http://{}'}}]", server.address));
    let got = proxy.get("/");
    assert_eq!(
        (status(&got), body(&got)),
        (200, "begin"),
        "the client sees that it is cut off by its length"
    );
    assert_eq!(failures(&proxy, UpstreamFailure::Idle), 1);
}

#[test]
fn a_client_that_does_not_send_its_body_is_told_so() {
    let server = Recorder::answering(OK);
    let proxy = Proxy::new(&format!(
        "routes: [{{timeouts: {{response: 1s}}, upstreams: 'http://{}'}}]",
        server.address
    ));
    let got = proxy.send("POST / HTTP/1.1\r\nHost: shop\r\nContent-Length: 10\r\n\r\nabc");
    assert_eq!(status(&got), 408, "{got}");
    assert_eq!(failures(&proxy, UpstreamFailure::ResponseTimeout), 0, "the server is not to blame");
}

#[test]
fn a_client_that_leaves_leaves_nothing_behind() {
    // A server that goes on sending for ever, and says when that ends.
    let (ended, end) = std::sync::mpsc::channel();
    let server = Recorder::new(move |stream, _| {
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
        while stream.write_all(&[b'x'; 4096]).is_ok() {}
        ended.send(()).unwrap();
        false
    });
    let proxy = Proxy::before(server.address);
    let mut stream = proxy.connect();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: shop\r\n\r\n").unwrap();
    stream.read_exact(&mut [0; 1000]).unwrap();
    drop(stream);
    end.recv_timeout(Duration::from_secs(30)).unwrap();
    until("the end of the request", || {
        proxy.servers.proxy().counts().values().all(|counts| counts.in_flight == 0)
    });
}

#[test]
fn who_does_not_read_holds_up_nobody_else() {
    let server = Recorder::new(|stream, request| {
        let is_large = request.starts_with(b"GET /large");
        let length = if is_large { 50 << 20 } else { 2 };
        write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n").unwrap();
        (0..length / 2).all(|_| stream.write_all(b"ok").is_ok())
    });
    let proxy = Proxy::before(server.address);
    let slow: Vec<_> = (0..50)
        .map(|_| {
            let mut stream = proxy.connect();
            stream.write_all(b"GET /large HTTP/1.1\r\nHost: shop\r\n\r\n").unwrap();
            stream
        })
        .collect();
    until("fifty answers", || server.connections.load(Relaxed) >= 50);
    for _ in 0..20 {
        assert_eq!(body(&proxy.get("/")), "ok");
    }
    drop(slow);
}

#[test]
fn many_idle_clients_hold_up_nobody_else() {
    const CLIENTS: usize = 1_000;
    let server = Recorder::answering(OK);
    let proxy = Proxy::before(server.address);
    let mut idle: Vec<_> = (0..CLIENTS).map(|_| proxy.connect()).collect();
    for stream in idle.iter_mut().step_by(2) {
        stream.write_all(b"GET /").unwrap();
    }
    until("all connections", || proxy.servers.stats().open() >= CLIENTS as u64);
    for _ in 0..20 {
        assert_eq!(body(&proxy.get("/")), "ok");
    }
}

#[tokio::test]
async fn a_stop_answers_what_was_asked() {
    let server = Recorder::new(|stream, _| {
        thread::sleep(Duration::from_millis(1_500)); // tidy: sleep, an answer that takes longer than the farewell
        stream.write_all(OK.as_bytes()).is_ok()
    });
    let proxy = Proxy::before(server.address);
    let mut stream = proxy.connect();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: shop\r\n\r\n").unwrap();
    server.next();
    let reading = thread::spawn(move || {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    });
    proxy.servers.drain().await;
    let answer = reading.join().unwrap();
    assert_eq!((status(&answer), body(&answer)), (200, "ok"));
    assert_eq!(header(&answer, "connection"), Some("close"));
}
