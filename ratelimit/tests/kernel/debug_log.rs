//! What the XDP program itself logs, for a daemon that logs at the level of debugging.

use crate::{
    daemon::{Daemon, command, config},
    frames::{self, Raw},
    net::{Link, isolated},
};

#[test]
fn a_daemon_that_logs_at_the_level_of_debugging_says_what_became_of_each_packet() {
    isolated(|| {
        let link = Link::silent();
        let config = config(&[], &["{name: every, rate: 1/h, burst: 1}"]);
        let mut daemon = Daemon::spawn(
            command(&["run", "--config"]).arg(config).env("RUST_LOG", "debug,aya=info,aya_obj=info"),
        );
        daemon.wait_for("limiting");
        let raw = Raw::new(&link);
        let frame = frames::udp("10.1.0.2".parse().unwrap());
        raw.send(&frame);
        daemon.wait_for(&format!("{} bytes: passed", frame.len()));
        raw.send(&frame);
        daemon.wait_for(&format!("{} bytes: limited", frame.len()));
    });
}
