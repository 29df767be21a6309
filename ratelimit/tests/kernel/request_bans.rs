//! Bans that rules on requests make: the packets of whoever goes on asking stop in the XDP program.

use std::{
    fs,
    io::{ErrorKind, Read, Write},
    net::{IpAddr, SocketAddr, TcpListener, TcpStream},
    os::unix::net::UnixStream,
    path::PathBuf,
};

use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrStorage, bind, connect, socket};
use serde_json::{Value, json};

use crate::{
    daemon::{Daemon, config_at, reason, run, status},
    net::{Link, SERVER, SERVER_V4, SERVER_V6, ip, isolated},
    wait,
};

const LISTENER: u16 = 8000;
/// Its number (capabilities(7)).
const CAP_NET_BIND_SERVICE: u32 = 10;
const OFFENDER: &str = "10.1.0.7";
const NEIGHBOUR: &str = "10.1.0.8";
const ALLOWED: &str = "10.1.0.9";

/// A rule that lets one request pass and bans at the second denied one, for a daemon that is asked at a Unix socket and
/// at an address that clients reach.
fn configuration(length: &str) -> PathBuf {
    let ban = format!("{{after: 2, within: 1h, for: {length}, source_entry: client}}");
    let limit = format!("rate_limit: {{unit: day, requests_per_unit: 1, ban: {ban}}}");
    fs::write("/run/rules.yaml", format!("domain: d\ndescriptors: [{{key: client, {limit}}}]\n")).unwrap();
    let listen = format!("listen: {{http: ['unix:/run/http.sock', '{SERVER_V4}:8080']}}");
    let application = format!("application: {{rules: [rules.yaml], {listen}}}");
    let network = format!("allow: [{ALLOWED}]");
    config_at("/run/ratelimit.yaml", &application, &[&network], &["{name: every, rate: 1M/s}"])
}

/// Asks about a client, as a gateway does, and returns the status of the answer.
fn ask(mut stream: impl Read + Write, client: &str) -> u16 {
    let body = json!({"domain": "d", "descriptors": [{"entries": [{"key": "client", "value": client}]}]})
        .to_string();
    let head = format!(
        "POST /v1/check HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: {}\r\n",
        body.len()
    );
    write!(stream, "{head}content-type: application/json\r\n\r\n{body}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

fn ask_as_gateway(client: &str) -> u16 {
    ask(UnixStream::connect("/run/http.sock").unwrap(), client)
}

/// Three requests of a client, the last two of which are denied.
fn offend(client: &str) {
    assert_eq!([(); 3].map(|()| ask_as_gateway(client)), [200, 429, 429], "{client}");
}

/// A wire on which the server answers, too: it knows the hardware address of these clients, who do not say it.
fn link(clients: &[&str]) -> Link {
    let link = Link::new(clients);
    for client in clients {
        ip(&format!("neigh replace {client} lladdr 02:00:00:00:00:02 dev {SERVER} nud permanent"));
    }
    link
}

fn wait_for_ban(prefix: &str) {
    wait::until("the ban is in force", || run(&["bans"]).contains(prefix).then_some(()));
}

/// A socket of a client whose SYN is on its way, again and again.
fn knock(link: &Link, client: &str) -> std::os::fd::OwnedFd {
    let client: IpAddr = client.parse().unwrap();
    let (server, family) = match client {
        IpAddr::V4(_) => (SERVER_V4, AddressFamily::Inet),
        IpAddr::V6(_) => (SERVER_V6, AddressFamily::Inet6),
    };
    link.client.enter(|| {
        let knocking = socket(family, SockType::Stream, SockFlag::SOCK_NONBLOCK, None).unwrap();
        let address = |ip: IpAddr, port| SockaddrStorage::from(SocketAddr::from((ip, port)));
        bind(std::os::fd::AsRawFd::as_raw_fd(&knocking), &address(client, 0)).unwrap();
        // It is under way.
        let _ =
            connect(std::os::fd::AsRawFd::as_raw_fd(&knocking), &address(server.parse().unwrap(), LISTENER));
        knocking
    })
}

fn listen(address: &str) -> TcpListener {
    let listener = TcpListener::bind((address, LISTENER)).unwrap();
    listener.set_nonblocking(true).unwrap();
    listener
}

fn accepted(listener: &TcpListener) -> Option<IpAddr> {
    match listener.accept() {
        Ok((_, from)) => Some(from.ip()),
        Err(error) if error.kind() == ErrorKind::WouldBlock => None,
        Err(error) => panic!("{error}"),
    }
}

fn banned_packets() -> u64 {
    reason(&status(), "banned").packets
}

#[test]
fn the_syns_of_an_offender_stop_and_come_back_when_the_ban_ends() {
    isolated(|| {
        let link = link(&[OFFENDER, NEIGHBOUR]);
        let _daemon = Daemon::start(&configuration("4s"));
        let listener = listen(SERVER_V4);
        let _before = knock(&link, OFFENDER);
        assert_eq!(wait::until("a connection", || accepted(&listener)).to_string(), OFFENDER);
        offend(OFFENDER);
        wait_for_ban(&format!("{OFFENDER}/32"));
        assert!(run(&["bans"]).contains("  request rule d.client  "), "{}", run(&["bans"]));
        let rules: Value = serde_json::from_str(&run(&["rules", "--output", "json"])).unwrap();
        let rule = &rules["request_rules"][0];
        let ban = "after=2,within=1h,for=4s,ipv4=32,ipv6=64,source_entry=client";
        assert_eq!((&rule["ban"], &rule["bans_asked"]), (&json!(ban), &json!(1)), "{rules}");
        let said = "nobody is banned by the rule `client`; there are bans by `d.client`\n";
        assert_eq!(run(&["unban", "--by", "client"]), said);
        let _knocking = knock(&link, OFFENDER);
        wait::until("its SYN is dropped", || (banned_packets() > 0).then_some(()));
        let _neighbour = knock(&link, NEIGHBOUR);
        assert_eq!(wait::until("a connection", || accepted(&listener)).to_string(), NEIGHBOUR);
        // Only a SYN that is sent again gets through, when the ban has ended.
        assert_eq!(wait::until("a connection", || accepted(&listener)).to_string(), OFFENDER);
        assert_eq!(run(&["bans"]), "nobody is banned\n");
    });
}

#[test]
fn an_ipv6_offender_is_banned_with_its_network() {
    isolated(|| {
        let (offender, other) = ("fd00:0:0:7::1", "fd00:0:0:7::2");
        let link = link(&[offender, other]);
        let _daemon = Daemon::start(&configuration("1h"));
        let _listener = listen(SERVER_V6);
        offend("fd00:0:0:7::/64");
        wait_for_ban("fd00:0:0:7::/64");
        let _knocking = knock(&link, other);
        wait::until("its SYN is dropped", || (banned_packets() > 0).then_some(()));
    });
}

#[test]
fn nobody_has_somebody_else_banned_nor_who_is_never_banned() {
    isolated(|| {
        let link = link(&[OFFENDER, NEIGHBOUR]);
        let _daemon = Daemon::start(&configuration("1h"));
        // Clients name others, and get denials for them.
        let answers = link
            .client
            .enter(|| [(); 5].map(|()| ask(TcpStream::connect((SERVER_V4, 8080)).unwrap(), NEIGHBOUR)));
        assert_eq!(answers, [200, 429, 429, 429, 429]);
        for spared in [ALLOWED, "127.0.0.1", "unknown", "10.1.0.0/24", "10.1.0.8 "] {
            offend(spared);
        }
        // What came before is banned by now, if it is.
        offend(OFFENDER);
        wait_for_ban(&format!("{OFFENDER}/32"));
        let bans = run(&["bans"]);
        assert_eq!(bans.matches('/').count(), 1, "{bans}");
    });
}

/// A proxy without a server behind it, whose rule lets one request of a client pass and bans at the second denied one.
fn proxy(lines: &str) -> PathBuf {
    proxy_before("http://127.0.0.1:1", lines)
}

fn proxy_before(server: &str, lines: &str) -> PathBuf {
    let limit = "rate_limit: {unit: day, requests_per_unit: 1, ban: {after: 2, within: 1h, for: 1h}}";
    fs::write("/run/rules.yaml", format!("domain: d\ndescriptors: [{{key: client, {limit}}}]\n")).unwrap();
    let asks = "domain: d, descriptors: [{client: '{client_address}'}]";
    let routes = format!("routes: [{{timeouts: {{connect: 1s}}, upstreams: ['{server}']}}]");
    let proxy = format!("proxy: [{{listen: '{SERVER_V4}:8080', {asks}, {routes}{lines}}}]");
    let application = format!("application: {{rules: [rules.yaml], {proxy}}}");
    config_at("/run/ratelimit.yaml", &application, &[], &["{name: every, rate: 1M/s}"])
}

/// Asks the proxy from the client's first address, after `before`.
fn get(link: &Link, before: &str) -> u16 {
    let answer = link.client.enter(|| {
        let mut stream = TcpStream::connect((SERVER_V4, 8080)).unwrap();
        let forged = format!("x-forwarded-for: {NEIGHBOUR}\r\nforwarded: for={NEIGHBOUR}\r\n");
        write!(stream, "{before}GET / HTTP/1.1\r\nhost: a\r\n{forged}connection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    });
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

#[test]
fn who_is_connected_to_the_proxy_is_banned_whatever_headers_say() {
    isolated(|| {
        let link = link(&[OFFENDER, NEIGHBOUR]);
        let _daemon = Daemon::start(&proxy(""));
        assert_eq!([(); 3].map(|()| get(&link, "")), [502, 429, 429]);
        wait_for_ban(&format!("{OFFENDER}/32"));
        assert_eq!(run(&["bans"]).matches('/').count(), 1);
        let _knocking = knock(&link, OFFENDER);
        wait::until("its SYN is dropped", || (banned_packets() > 0).then_some(()));
    });
}

#[test]
fn a_client_behind_a_trusted_proxy_never_bans_the_proxy() {
    isolated(|| {
        let link = link(&[OFFENDER]);
        let _daemon = Daemon::start(&proxy(&format!(", proxy_protocol: [{OFFENDER}]")));
        // About itself, as some do to see whether we live, and about a client.
        for client in [OFFENDER, "198.51.100.7"] {
            let before = format!("PROXY TCP4 {client} {SERVER_V4} 1000 8080\r\n");
            assert_eq!([(); 3].map(|()| get(&link, &before)), [502, 429, 429], "{client}");
        }
        wait_for_ban("198.51.100.7/32");
        let bans = run(&["bans"]);
        assert_eq!(bans.matches('/').count(), 1, "{bans}");
    });
}

#[test]
fn a_server_behind_the_proxy_is_not_banned_nor_is_a_network_that_it_is_in() {
    isolated(|| {
        let link = link(&[NEIGHBOUR]);
        for (server, (spared, spared_network), (banned, banned_network)) in [
            ("http://10.1.0.7:1", ("10.1.0.7", "10.1.0.7/32"), ("198.51.100.7", "198.51.100.7/32")),
            (
                "http://[fd00:0:0:7::99]:1",
                ("fd00:0:0:7::1", "fd00:0:0:7::/64"),
                ("fd00:0:0:8::1", "fd00:0:0:8::/64"),
            ),
        ] {
            let _daemon = Daemon::start(&proxy_before(server, &format!(", proxy_protocol: [{NEIGHBOUR}]")));
            for client in [spared, banned] {
                let (family, destination) =
                    if client.contains(':') { ("TCP6", SERVER_V6) } else { ("TCP4", SERVER_V4) };
                let line = format!("PROXY {family} {client} {destination} 1000 8080\r\n");
                let [first, rest @ ..] = [(); 3].map(|()| get(&link, &line));
                assert!(matches!(first, 502 | 504) && rest == [429, 429], "{client} {first} {rest:?}");
            }
            wait_for_ban(banned_network);
            let bans = run(&["bans"]);
            assert!(!bans.contains(spared_network), "{bans}");
        }
    });
}

#[test]
fn a_port_that_takes_rights_is_bound_before_they_are_given_up() {
    isolated(|| {
        let _link = link(&[]);
        let config = proxy("");
        let text = fs::read_to_string(&config).unwrap().replace(":8080", ":80");
        fs::write(&config, text).unwrap();
        let daemon = Daemon::start(&config);
        let mut stream = TcpStream::connect((SERVER_V4, 80)).unwrap();
        write!(stream, "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 502"), "{answer}");
        let status = fs::read_to_string(format!("/proc/{}/status", daemon.process())).unwrap();
        let held = status.lines().find_map(|line| line.strip_prefix("CapPrm:")).unwrap();
        let held = u64::from_str_radix(held.trim(), 16).unwrap();
        assert_eq!(held & (1 << CAP_NET_BIND_SERVICE), 0, "{held:x}");
    });
}
