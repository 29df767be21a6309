//! What the service manager is told.

use std::os::unix::net::UnixDatagram;

use nix::sys::signal::Signal;

use crate::{
    daemon::{Daemon, command, config, run},
    net::{Link, isolated},
    wait,
};

#[test]
fn the_service_manager_hears_of_start_reload_and_stop() {
    isolated(|| {
        let _link = Link::silent();
        let socket = UnixDatagram::bind("/run/notify").unwrap();
        socket.set_read_timeout(Some(wait::LONGEST)).unwrap();
        let heard = || {
            let mut message = [0; 256];
            let length = socket.recv(&mut message).expect("a message");
            String::from_utf8_lossy(&message[..length]).into_owned()
        };
        let config = config(&[], &["{name: every, rate: 1/h, burst: 10}"]);
        let mut started = command(&["run", "--config"]);
        let daemon = Daemon::spawn(started.arg(&config).env("NOTIFY_SOCKET", "/run/notify"));
        assert_eq!(heard().trim(), "READY=1");
        run(&["reload"]);
        let reloading = heard();
        assert!(reloading.contains("RELOADING=1") && reloading.contains("MONOTONIC_USEC="), "{reloading}");
        assert_eq!(heard().trim(), "READY=1");
        daemon.signal(Signal::SIGTERM);
        assert_eq!(heard().trim(), "STOPPING=1");
        assert_eq!(daemon.end().code(), Some(0));
    });
}
