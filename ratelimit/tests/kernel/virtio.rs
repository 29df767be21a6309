//! The network card of virtual machines, in native mode. Only a guest has two that nobody else uses: a wire joins them.

use std::fs::File;

use nix::sched::{CloneFlags, setns};

use crate::{
    daemon::{Daemon, config, judged, rule, run},
    frames::{self, Raw},
    guest,
    leftovers::{assert_gone, in_kernel},
    net::{Link, SERVER, SERVER_MAC, client_interface, ip, isolated},
};

/// What QEMU gives them for addresses, in the order of their names.
const CARDS: [&str; 2] = ["eth0", "eth1"];

#[test]
fn a_virtio_card_is_limited_in_native_mode() {
    if !guest::is_guest() {
        return guest::not_run("no virtio cards that nobody else uses");
    }
    isolated(|| {
        let link = cards();
        let config = config(&[], &["{name: every, rate: 1/h, burst: 10}"]);
        let native =
            std::fs::read_to_string(&config).unwrap().replace(SERVER, "{name: server0, mode: native}");
        std::fs::write(&config, native).unwrap();
        let _daemon = Daemon::start(&config);
        let kernel = in_kernel();
        let raw = Raw::new(&link);
        for source in ["10.1.0.2", "fd00::2"] {
            (0..20).for_each(|_| raw.send(&frames::udp(source.parse().unwrap())));
        }
        assert_eq!(rule(&judged(40), "every"), (20, 20));
        assert!(run(&["status"]).contains("server0 (native)"));
        run(&["detach"]);
        assert_gone(&kernel);
    });
}

/// Takes one card into this namespace, and the other into a client's. They go back when the namespaces end.
fn cards() -> Link {
    let link = Link::unwired();
    let [server, client] = CARDS;
    let here = File::open("/proc/thread-self/ns/net").unwrap();
    let [here, there] = [&here, link.client.file()].map(|file| {
        use std::os::fd::AsRawFd as _;
        format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd())
    });
    let in_first = || {
        setns(File::open("/proc/1/ns/net").unwrap(), CloneFlags::CLONE_NEWNET).unwrap();
        ip(&format!("link set {server} netns {here}"));
        ip(&format!("link set {client} netns {there}"));
    };
    std::thread::scope(|scope| scope.spawn(in_first).join()).unwrap();
    let mac: Vec<String> = SERVER_MAC.iter().map(|byte| format!("{byte:02x}")).collect();
    ip(&format!("link set {server} name {SERVER} address {} arp off", mac.join(":")));
    ip(&format!("link set {SERVER} up"));
    link.client.enter(|| {
        ip(&format!("link set {client} name {} arp off up", client_interface()));
    });
    link
}
