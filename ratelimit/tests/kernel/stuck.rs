//! Daemons that died half-way, that do not answer, and that are not where one would look for them.

use std::{fs, path::Path, time::Instant};

use aya::programs::links::{FdLink, PinnedLink};
use nix::sys::signal::Signal;

use crate::{
    daemon::{Daemon, command, config, config_at, output, run, text},
    leftovers::{InKernel, PINS, assert_gone, in_kernel},
    net::{Link, SERVER, ip, isolated},
    wait,
};

const EVERY: &str = "{name: every, rate: 1/h, burst: 50}";

/// So large that the daemon has to do for a while after it has attached.
const LARGE: &str = "table_size: 4M";

/// What a command that must fail says.
fn failure(arguments: &[&str]) -> String {
    let output = output(&mut command(arguments));
    let (_, stderr) = text(&output);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {stderr}");
    stderr
}

/// Starts a daemon and kills it as soon as its program is on the interface, in the place of `before`.
fn die_half_way(config: &Path, before: Option<u32>) -> InKernel {
    let daemon = Daemon::spawn(command(&["run", "--config"]).arg(config));
    wait::until("the program is attached", || {
        let link = fs::read_dir(format!("{PINS}/default/links")).ok()?.next()?.ok()?;
        let link = FdLink::from(PinnedLink::from_pin(link.path()).ok()?);
        (Some(link.info().ok()?.program_id()) != before).then_some(())
    });
    daemon.kill();
    in_kernel()
}

#[test]
fn a_daemon_that_dies_while_it_starts_is_not_hidden() {
    isolated(|| {
        let _link = Link::new(&[]);
        let config = config(&[LARGE], &[EVERY]);
        let words = ["server0", "before its start was complete", "`ratelimit run", "`ratelimit detach"];
        let check = || {
            let said = failure(&["status"]);
            assert!(words.iter().all(|word| said.contains(word)), "{said}");
        };

        let kernel = die_half_way(&config, None);
        check();
        run(&["detach"]);
        assert_gone(&kernel);

        die_half_way(&config, None);
        check();
        let second = Daemon::start(&config);
        run(&["status"]);
        let kernel = in_kernel();
        second.kill();
        run(&["status"]);

        // One that goes on with another's program, too.
        let kernel = die_half_way(&config, Some(kernel.program));
        check();
        ip(&format!("link del {SERVER}"));
        let said = failure(&["status"]);
        assert!(said.contains("attached to no interface"), "{said}");
        run(&["detach"]);
        assert_gone(&kernel);
    });
}

#[test]
fn a_stopped_daemon_keeps_nobody_waiting() {
    isolated(|| {
        let _link = Link::new(&[]);
        let config = config(&[], &[EVERY]);
        let stuck = Daemon::start(&config);
        let kernel = in_kernel();
        stuck.signal(Signal::SIGSTOP);
        let process = stuck.process().to_string();
        assert!(run(&["status"]).contains(&format!("running, process {process}")));

        let began = Instant::now();
        let detached = output(&mut command(&["detach"]));
        assert!(began.elapsed() < wait::LONGEST / 2);
        let (_, stderr) = text(&detached);
        assert_eq!(detached.status.code(), Some(0), "{stderr}");
        assert!(stderr.contains(&format!("kill -9 {process}")), "{stderr}");
        let links = ip(&format!("link show {SERVER}"));
        assert!(!links.contains("xdp"), "{links}");

        // What it does when it wakes up harms no other.
        let next = Daemon::start(&config);
        let after = in_kernel();
        assert_ne!(after, kernel);
        stuck.signal(Signal::SIGCONT);
        stuck.signal(Signal::SIGTERM);
        assert_eq!(stuck.end().code(), Some(0));
        assert_eq!(in_kernel(), after);
        assert!(run(&["status"]).contains(&format!("running, process {}", next.process())));
        run(&["detach"]);
        assert_eq!(next.end().code(), Some(0));
        assert_gone(&after);
    });
}

#[test]
fn a_daemon_is_found_wherever_its_socket_is() {
    isolated(|| {
        let _link = Link::new(&[]);
        fs::create_dir("/run/elsewhere").unwrap();
        let config = config_at("/run/elsewhere/c.yaml", "control: sockets/a.sock", &[], &[EVERY]);
        let socket = Path::new("/run/elsewhere/sockets/a.sock");
        let mut relative = command(&["run", "--config", "elsewhere/c.yaml"]);
        let mut daemon = Daemon::spawn(relative.current_dir("/run"));
        daemon.wait_for("limiting");
        let running = format!("running, process {}", daemon.process());
        assert!(run(&["status"]).contains(&running));

        // Its socket is gone, but it is not.
        fs::rename(socket, "/run/moved.sock").unwrap();
        let shown = run(&["status"]);
        assert!(shown.contains(&running) && shown.contains("nobody answers at /run/elsewhere"), "{shown}");
        let said = failure(&["detach"]);
        assert!(said.contains("--control") && said.contains("kill"), "{said}");
        let moved = ["detach", "--control", "/run/moved.sock"];
        let said = failure(&[&moved[..], &["--instance", "other"]].concat());
        assert!(said.contains("is not attached"), "{said}");
        let kernel = in_kernel();
        run(&moved);
        assert_eq!(daemon.end().code(), Some(0));
        assert_gone(&kernel);

        // A dead one leaves its socket, which goes with the rest.
        Daemon::start(&config).kill();
        assert!(socket.exists());
        run(&["detach"]);
        assert!(!socket.exists());
    });
}

#[test]
fn the_socket_of_another_instance_detaches_nothing() {
    isolated(|| {
        let _link = Link::new(&[]);
        ip("link add other0 type veth peer name other1");
        let daemon = Daemon::start(&config(&[], &[EVERY]));
        let other = config_at("/run/other.yaml", "instance: other", &[], &[EVERY]);
        let mut start = command(&["run", "--interface", "other0", "--config"]);
        let mut second = Daemon::spawn(start.arg(other));
        second.wait_for("limiting");
        let said = failure(&["detach", "--control", "/run/ratelimit/other.sock"]);
        assert!(said.contains("instance `other`"), "{said}");
        run(&["status"]);
        run(&["status", "--instance", "other"]);
        run(&["detach"]);
        run(&["detach", "--instance", "other"]);
        assert_eq!((daemon.end().code(), second.end().code()), (Some(0), Some(0)));
        assert!(!Path::new(PINS).exists());
    });
}

#[test]
fn a_link_that_somebody_holds_open_is_detached_all_the_same() {
    isolated(|| {
        let _link = Link::new(&[]);
        let daemon = Daemon::start(&config(&[], &[EVERY]));
        let links = fs::read_dir(format!("{PINS}/default/links")).unwrap();
        let pin = links.last().unwrap().unwrap().path();
        let _held = PinnedLink::from_pin(pin).unwrap();
        run(&["detach"]);
        assert_eq!(daemon.end().code(), Some(0));
        let links = ip(&format!("link show {SERVER}"));
        assert!(!links.contains("xdp"), "{links}");
    });
}
