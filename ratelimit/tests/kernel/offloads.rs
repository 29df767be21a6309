//! Warnings of what happens to packets before the program sees them, with the command that ends it.

use std::os::fd::AsRawFd as _;

use crate::{
    daemon::{Daemon, config, run, status},
    net::{Link, SERVER, isolated},
    tun::Tun,
    tunnels::device,
};

// From the kernel's `sockios.h` and `ethtool.h`.
const SIOCETHTOOL: libc::c_ulong = 0x8946;
const SET_GRO: u32 = 0x2c;
const SET_FLAGS: u32 = 0x26;
const RX_VLAN: u32 = 1 << 8;

/// What `ethtool -K` does.
fn set(command: u32, value: u32) {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut words = [command, value];
    // SAFETY: all zeros is a request.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(SERVER.bytes()) {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
    // SAFETY: the request and what it points to live during the call.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) };
    assert_eq!(done, 0, "{command} {value}: {}", std::io::Error::last_os_error());
}

fn interfaces(list: &str, rule: &str) -> std::path::PathBuf {
    let path = config(&[], &[rule]);
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace(&format!("[{SERVER}]"), list)).unwrap();
    path
}

#[test]
fn rules_on_packets_in_generic_mode_warn_of_joined_packets() {
    isolated(|| {
        let _link = Link::silent();
        set(SET_GRO, 1);
        const GENERIC: &str = "[{name: server0, mode: generic}]";
        const COMMAND: &str = "`ethtool -K server0 gro off`";
        let mut daemon = Daemon::start(&interfaces(GENERIC, "{name: every, rate: 1/h}"));
        daemon.wait_for(COMMAND);
        assert!(status().warnings.iter().any(|warning| warning.contains(COMMAND)));
        assert!(run(&["status"]).contains(COMMAND));
        run(&["reload"]);
        daemon.wait_for(COMMAND);
        set(SET_GRO, 0);
        let warnings = status().warnings;
        let of_the_pair = "packets can come in on server0 joined by the other end of the pair";
        assert!(warnings.len() == 1 && warnings[0].starts_with(of_the_pair), "{warnings:?}");
        set(SET_GRO, 1);
        interfaces(GENERIC, "{name: every, rate: 1MB/h}");
        run(&["reload"]);
        assert_eq!(status().warnings, [""; 0], "bytes are counted as they are");
        interfaces("[server0]", "{name: every, rate: 1/h}");
        drop(daemon);
        run(&["detach"]);
        let _daemon = Daemon::start(&interfaces("[server0]", "{name: every, rate: 1/h}"));
        assert_eq!(status().warnings, [""; 0], "native mode sees each packet");
    });
}

#[test]
fn rules_on_vlans_warn_where_tags_are_gone() {
    isolated(|| {
        let _link = Link::silent();
        let _tun = Tun::new("tun0");
        const RULE: &str = "{name: every, rate: 1/h, match: {vlan: [7]}}";
        const COMMAND: &str = "`ethtool -K server0 rxvlan off`";
        set(SET_FLAGS, RX_VLAN);
        let mut daemon = Daemon::start(&interfaces("[server0, tun0]", RULE));
        daemon.wait_for(COMMAND);
        daemon.wait_for("packets on tun0 have no VLAN tags");
        let shown = run(&["status"]);
        assert!(shown.contains(COMMAND) && shown.contains("tun0 have no VLAN tags"), "{shown}");
        run(&["reload"]);
        daemon.wait_for(COMMAND);
        set(SET_FLAGS, 0);
        interfaces("[server0]", RULE);
        run(&["reload"]);
        assert_eq!(status().warnings, [""; 0]);
        if device("server0.7 link server0", "vlan", "id 7") {
            interfaces("[server0.7]", RULE);
            run(&["reload"]);
            let shown = run(&["status"]);
            assert!(shown.contains("limit on the interface below it"), "{shown}");
        }
    });
}

#[test]
fn rules_on_packets_warn_of_who_writes_joined_ones() {
    isolated(|| {
        let _link = Link::silent();
        let (_plain, _joining) = (Tun::new("tun0"), Tun::joining("tap0"));
        let _daemon = Daemon::start(&interfaces("[tun0, tap0]", "{name: every, rate: 1/h}"));
        let is_it = |warning: &String| warning.contains("joined by the program or virtual machine behind it");
        let warnings: Vec<String> = status().warnings.into_iter().filter(is_it).collect();
        assert!(
            warnings.len() == 1 && warnings[0].starts_with("packets can come in on tap0"),
            "{warnings:?}"
        );
    });
}

#[test]
fn an_interface_on_which_nothing_comes_in_is_a_warning() {
    isolated(|| {
        if !device("ifb7", "ifb", "") {
            return;
        }
        let _daemon = Daemon::start(&interfaces("[ifb7]", "{name: every, rate: 1MB/h}"));
        let warnings = status().warnings;
        let expected = "packets hardly ever come in on ifb7";
        assert!(warnings.len() == 1 && warnings[0].starts_with(expected), "{warnings:?}");
    });
}
