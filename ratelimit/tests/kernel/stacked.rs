//! Interfaces on interfaces: the kernel gives no program to one below another that has one.

use std::{fs, process::Command};

use nix::sys::signal::Signal;

use crate::{
    daemon::{Daemon, command, config_at, config_for, judged, output, rule, run, status, text},
    frames::{self, Raw},
    guest,
    metrics::get,
    net::{Link, SERVER, bridge, ip, isolated},
    wait,
};

const EVERY: &str = "{name: every, rate: 1/h, burst: 10}";

fn attached() -> Vec<String> {
    let mut names: Vec<String> = status().interfaces.into_iter().map(|found| found.interface).collect();
    names.sort();
    names
}

/// Makes the server's interface again, in its place in the bridge before the daemon can see it by its name.
fn made_again_inside(link: &Link) {
    ip("link del server0");
    wait::until("it is gone", || (attached() == ["br0"]).then_some(()));
    link.add_wire(("other0", "02:00:00:00:00:01"), ("client0", "02:00:00:00:00:02"));
    ip("link set other0 master br0");
    ip("link set other0 down");
    ip("link set other0 name server0");
    ip("link set server0 up");
}

const BLOCKED: &str = "server0: can't attach: br0 above it has an XDP program, that of instance `default`, and the \
                       kernel takes lower interfaces first: let server0 get it between `ip link set dev server0 \
                       nomaster` and `ip link set dev server0 master br0`";

fn missing_in_metrics() -> bool {
    get("/metrics").contains("ratelimit_interface_missing{interface=\"server0\"} 1\n")
}

#[test]
fn a_port_gets_the_program_before_its_bridge() {
    isolated(|| {
        let link = Link::silent();
        bridge("br0", &[SERVER]);
        let _daemon = Daemon::start(&config_for("[br0, server0]", &[EVERY]));
        assert_eq!(attached(), ["br0", "server0"]);
        let raw = Raw::new(&link);
        (0..20).for_each(|_| raw.send(&frames::udp("10.1.0.2".parse().unwrap())));
        // What the port lets pass is judged once more where it comes out of the bridge, and pays twice.
        assert_eq!(rule(&judged(25), "every"), (10, 15));
    });
}

#[test]
fn a_port_below_a_limited_bridge_is_told_of_and_keeps_no_reload_from_working() {
    isolated(|| {
        let link = Link::silent();
        bridge("br0", &[SERVER]);
        let path = config_for("[br0, server0]", &[EVERY]);
        let with_metrics =
            format!("metrics: {{listen: 127.0.0.1:9102}}\n{}", fs::read_to_string(&path).unwrap());
        fs::write(&path, with_metrics).unwrap();
        let mut daemon = Daemon::start(&path);
        made_again_inside(&link);
        daemon.wait_for(BLOCKED);
        assert_eq!(status().missing, ["server0"]);
        let shown = run(&["status"]);
        assert!(shown.contains(&format!("interface   server0: not limited: {BLOCKED}\n")), "{shown}");
        assert!(missing_in_metrics());
        run(&["reload"]);
        let more = fs::read_to_string(&path).unwrap().replace("burst: 10", "burst: 11");
        fs::write(&path, more).unwrap();
        run(&["reload"]);
        assert!(run(&["rules"]).contains("burst=11"));
        assert_eq!(attached(), ["br0"]);
        // What the message says.
        ip("link set dev server0 nomaster");
        wait::until("it has the program", || (attached() == ["br0", "server0"]).then_some(()));
        ip("link set dev server0 master br0");
        assert_eq!((attached().len(), status().missing.len()), (2, 0));
        run(&["reload"]);
        assert!(!missing_in_metrics());
    });
}

#[test]
fn a_start_goes_on_where_a_port_lacks_the_program() {
    isolated(|| {
        let link = Link::silent();
        bridge("br0", &[SERVER]);
        let path = config_for("[br0, server0]", &[EVERY]);
        let mut daemon = Daemon::start(&path);
        made_again_inside(&link);
        daemon.wait_for(BLOCKED);
        daemon.kill();
        let daemon = Daemon::start(&path);
        assert_eq!((attached(), status().missing), (vec!["br0".to_owned()], vec![SERVER.to_owned()]));
        run(&["reload"]);
        // One that is gone and had been gone at the start is no reason to refuse a reload either.
        ip("link del server0");
        run(&["reload"]);
        daemon.signal(Signal::SIGTERM);
        assert_eq!(daemon.end().code(), Some(0));
    });
}

#[test]
fn an_interface_that_a_reload_adds_must_be_attached() {
    isolated(|| {
        let _link = Link::silent();
        bridge("br0", &[SERVER]);
        let _daemon = Daemon::start(&config_for("[br0]", &[EVERY]));
        config_for("[br0, server0]", &[EVERY]);
        let (said, complaint) = text(&output(&mut command(&["reload"])));
        assert!(complaint.contains(BLOCKED), "{said} {complaint}");
        assert_eq!(attached(), ["br0"]);
    });
}

#[test]
fn a_port_that_can_not_get_the_program_in_another_mode_keeps_it_as_it_is() {
    isolated(|| {
        let _link = Link::silent();
        bridge("br0", &[SERVER]);
        let _daemon = Daemon::start(&config_for("[br0, server0]", &[EVERY]));
        config_for("[br0, {name: server0, mode: generic}]", &[EVERY]);
        let (said, complaint) = text(&output(&mut command(&["reload"])));
        assert!(complaint.contains(BLOCKED), "{said} {complaint}");
        let modes: Vec<&str> = status().interfaces.iter().map(|found| found.mode.name()).collect();
        assert!(modes.contains(&"native") && modes.len() == 2, "{modes:?}");
    });
}

#[test]
fn an_instance_names_the_one_that_has_the_bridge() {
    isolated(|| {
        let _link = Link::silent();
        bridge("br0", &[SERVER]);
        let _daemon = Daemon::start(&config_for("[br0]", &[EVERY]));
        let other = config_at("/run/other.yaml", "instance: other", &[], &[EVERY]);
        let (said, complaint) = text(&output(command(&["run", "--config"]).arg(other)));
        assert!(complaint.contains(BLOCKED), "{said} {complaint}");
    });
}

#[test]
fn an_interface_gets_the_program_before_those_that_lie_on_it() {
    isolated(|| {
        let _link = Link::silent();
        ip("link add link server0 name upper0 type macvlan");
        ip("link set upper0 up");
        let mut daemon = Daemon::start(&config_for("[upper0, server0]", &[EVERY]));
        assert_eq!(attached(), ["server0", "upper0"]);
        // One that can't be taken out: another way is told.
        config_for("[upper0, {name: server0, mode: generic}]", &[EVERY]);
        assert!(!output(&mut command(&["reload"])).status.success());
        daemon
            .wait_for("`ratelimit detach --instance default` and a new start put it on the lower one first");
        run(&["detach"]);
        let _daemon = Daemon::start(&"/run/ratelimit.yaml".into());
        assert_eq!(attached(), ["server0", "upper0"]);
    });
}

/// Whether the kernel can make a bond.
fn has_bonds() -> bool {
    let made = Command::new("ip").args(["link", "add", "bond0", "type", "bond"]).output().unwrap();
    made.status.success()
}

#[test]
fn slaves_get_the_program_before_their_bond() {
    isolated(|| {
        let _link = Link::silent();
        if !has_bonds() {
            guest::not_run("slaves of a bond: this kernel has no bonds");
            return;
        }
        ip("link set server0 down");
        ip("link set server0 master bond0");
        ip("link set bond0 up");
        let _daemon = Daemon::start(&config_for("[bond0, server0]", &[EVERY]));
        assert_eq!(attached(), ["bond0", "server0"]);
        run(&["reload"]);
    });
}
