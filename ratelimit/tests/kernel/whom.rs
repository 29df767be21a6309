//! Whom an interface limits, as `docs/interfaces.md` says it.

use crate::{
    daemon::{Daemon, config, config_for, judged, rule, run},
    frames::{self, Raw},
    net::{Link, SERVER, bridge, isolated},
    packets::V4,
};

const FIVE: &str = "{name: every, rate: 1/h, burst: 5}";

#[test]
fn a_bridge_limits_what_is_for_the_host_and_a_port_all_that_comes_in() {
    isolated(|| {
        let link = Link::silent();
        link.add_wire(("server1", "02:00:00:00:00:11"), ("client1", "02:00:00:00:00:12"));
        bridge("bridge0", &["server0", "server1"]);
        let raw = Raw::new(&link);
        let for_host = frames::udp(V4.into());
        let mut for_another_port = for_host.clone();
        for_another_port[..6].copy_from_slice(&[2, 0, 0, 0, 0, 0x12]);
        for (interface, judges) in [("bridge0", 20), ("server0", 40)] {
            let daemon = Daemon::start(&config_for(&format!("[{interface}]"), &[FIVE]));
            for _ in 0..20 {
                raw.send(&for_another_port);
                raw.send(&for_host);
            }
            assert_eq!(rule(&judged(judges), "every"), (5, judges - 5), "{interface}");
            drop(daemon);
            run(&["detach"]);
        }
    });
}

#[test]
fn the_hosts_end_of_a_pair_limits_what_the_container_sends() {
    isolated(|| {
        let link = Link::silent();
        let _daemon = Daemon::start(&config(&[], &[FIVE]));
        let container = Raw::new(&link);
        let host = frames::packet_socket(SERVER, 0);
        for _ in 0..20 {
            // What the container gets is none of it.
            assert_eq!(nix::unistd::write(&host, &frames::udp(V4.into())), Ok(frames::udp(V4.into()).len()));
            container.send(&frames::udp(V4.into()));
        }
        assert_eq!(rule(&judged(20), "every"), (5, 15));
    });
}
