//! Networks for tests: a server's interface here, its peer in a client's namespace, and nobody else on the wire.

use std::{
    fs::{self, File},
    net::{IpAddr, UdpSocket},
    os::fd::AsRawFd as _,
    panic::resume_unwind,
    process::Command,
    thread,
};

use nix::{
    mount::{MntFlags, MsFlags, mount, umount2},
    sched::{CloneFlags, setns, unshare},
    sys::socket::{setsockopt, sockopt::RcvBufForce},
};

/// The server's interface, which is the one with limits.
pub const SERVER: &str = "server0";
const CLIENT: &str = "client0";

pub const SERVER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
pub const CLIENT_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];

pub const SERVER_V4: &str = "10.1.0.1";
pub const SERVER_V6: &str = "fd00:0:0:ffff::1";
const PORT: u16 = 9000;

/// Runs a test where it has a network, a BPF file system and a `/run` of its own, which end with it.
pub fn isolated(test: impl FnOnce() + Send) {
    let in_namespaces = || {
        unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS).expect("namespaces");
        mount_new("bpf", "/sys/fs/bpf");
        mount_new("tmpfs", "/run");
        fs::create_dir("/run/tmp").unwrap();
        be_quiet();
        ip("link set lo up");
        test();
    };
    thread::scope(|scope| scope.spawn(in_namespaces).join().unwrap_or_else(|panic| resume_unwind(panic)));
}

pub fn mount_new(kind: &str, target: &str) {
    mount(Some(kind), target, Some(kind), MsFlags::empty(), None::<&str>).expect(target);
}

/// Takes off all that is mounted at a place, in this namespace.
pub fn unmount_all(target: &str) {
    while umount2(target, MntFlags::empty()).is_ok() {}
}

/// Makes a file system read-only.
pub fn freeze(target: &str) {
    remount(target, MsFlags::MS_RDONLY);
}

/// Makes it writable again.
pub fn thaw(target: &str) {
    remount(target, MsFlags::empty());
}

fn remount(target: &str, flags: MsFlags) {
    mount(None::<&str>, target, None::<&str>, MsFlags::MS_REMOUNT | flags, None::<&str>).expect(target);
}

/// No frame that nobody asked for, from interfaces that are made after this.
fn be_quiet() {
    for (name, value) in [("accept_ra", 0), ("autoconf", 0), ("accept_dad", 0), ("addr_gen_mode", 1)] {
        for which in ["all", "default"] {
            let path = format!("/proc/sys/net/ipv6/conf/{which}/{name}");
            fs::write(&path, value.to_string()).expect(&path);
        }
    }
}

/// Runs `ip` with these arguments, and returns what it says.
pub fn ip(arguments: &str) -> String {
    let output = Command::new("ip").args(arguments.split(' ')).output().expect("ip");
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A bridge with these ports.
pub fn bridge(name: &str, ports: &[&str]) {
    ip(&format!("link add {name} address 02:00:00:00:00:01 type bridge mcast_snooping 0"));
    for port in ports {
        ip(&format!("link set {port} master {name}"));
    }
    ip(&format!("link set {name} up"));
    // Where there is a filter on bridges, it would look at checksums, which the tests' frames lack.
    let _ = fs::write("/proc/sys/net/bridge/bridge-nf-call-iptables", "0");
}

/// Another network namespace.
pub struct Namespace(File);

impl Namespace {
    fn new() -> Self {
        let make = || {
            unshare(CloneFlags::CLONE_NEWNET).expect("a network namespace");
            be_quiet();
            File::open("/proc/thread-self/ns/net").expect("its file")
        };
        Self(thread::scope(|scope| scope.spawn(make).join()).unwrap())
    }

    /// The file that stands for it.
    pub fn file(&self) -> &File {
        &self.0
    }

    /// Runs something inside.
    pub fn enter<T: Send>(&self, what: impl FnOnce() -> T + Send) -> T {
        let inside = || {
            setns(&self.0, CloneFlags::CLONE_NEWNET).expect("entering a namespace");
            what()
        };
        thread::scope(|scope| scope.spawn(inside).join().unwrap_or_else(|panic| resume_unwind(panic)))
    }
}

/// Two ends of a wire: [`SERVER`] here, and a client's.
pub struct Link {
    pub client: Namespace,
}

impl Link {
    /// With addresses on both ends, each of which knows the other's hardware address.
    pub fn new(clients: &[&str]) -> Self {
        let link = Self::silent();
        ip(&format!("addr add {SERVER_V4}/16 dev {SERVER}"));
        ip(&format!("addr add {SERVER_V6}/32 dev {SERVER} nodad"));
        link.client.enter(|| {
            for client in clients {
                let options = if client.contains(':') { "/32 nodad" } else { "/16" };
                let (length, options) = options.split_once(' ').unwrap_or((options, ""));
                ip(format!("addr add {client}{length} dev {CLIENT} {options}").trim());
            }
            for server in [SERVER_V4, SERVER_V6] {
                ip(&format!("neigh replace {server} lladdr 02:00:00:00:00:01 dev {CLIENT} nud permanent"));
            }
        });
        link
    }

    /// Without addresses: only the test's own frames are on it.
    pub fn silent() -> Self {
        let link = Self::unwired();
        link.add_wire((SERVER, "02:00:00:00:00:01"), (CLIENT, "02:00:00:00:00:02"));
        link
    }

    /// Without a wire: the test brings its own.
    pub fn unwired() -> Self {
        Self { client: Namespace::new() }
    }

    /// Another wire between the same two, also without addresses: the ends' names and hardware addresses.
    pub fn add_wire(&self, server: (&str, &str), client: (&str, &str)) {
        let namespace = format!("/proc/{}/fd/{}", std::process::id(), self.client.0.as_raw_fd());
        ip(&format!(
            "link add {} address {} type veth peer name {} address {} netns {namespace}",
            server.0, server.1, client.0, client.1
        ));
        ip(&format!("link set {} up", server.0));
        self.client.enter(|| {
            // Without ARP there are no solicited-node groups to join either, which would be told to all.
            ip(&format!("link set {} arp off", client.0));
            ip(&format!("link set {} up", client.0));
        });
    }

    /// A client's socket, whose datagrams go to the server.
    pub fn sender(&self, address: &str) -> UdpSocket {
        let address: IpAddr = address.parse().unwrap();
        let server = if address.is_ipv4() { SERVER_V4 } else { SERVER_V6 };
        self.client.enter(|| {
            let socket = UdpSocket::bind((address, 0)).expect("a client's socket");
            socket.connect((server, PORT)).unwrap();
            socket
        })
    }
}

/// Sets the longest packets of both ends.
pub fn set_mtu(link: &Link, mtu: u32) {
    ip(&format!("link set {SERVER} mtu {mtu}"));
    link.client.enter(|| ip(&format!("link set {CLIENT} mtu {mtu}")));
}

/// The server's socket, with room for all that a test sends.
pub fn receiver(server: &str) -> UdpSocket {
    let socket = UdpSocket::bind((server, PORT)).expect("the server's socket");
    setsockopt(&socket, RcvBufForce, &(64 << 20)).unwrap();
    socket.set_nonblocking(true).unwrap();
    socket
}

/// The sources of the datagrams that have arrived.
pub fn arrivals(socket: &UdpSocket) -> Vec<IpAddr> {
    std::iter::from_fn(|| Some(socket.recv_from(&mut [0; 64]).ok()?.1.ip())).collect()
}

pub fn client_interface() -> &'static str {
    CLIENT
}
