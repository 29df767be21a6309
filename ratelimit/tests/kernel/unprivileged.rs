//! A user who is not root, with the three capabilities and nothing else.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, chown},
    process::Command,
};

use nix::sys::signal::Signal;

use crate::{
    daemon::{Daemon, command, config, output, text},
    leftovers::{PINS, assert_gone, in_kernel},
    net::{Link, isolated},
};

const USER: u32 = 65_534;
const OTHER: u32 = 65_533;

/// The binary as this user, whose files are in `/run/user`.
fn started_by(user: u32, arguments: &[&str]) -> Command {
    let started = command(arguments);
    let mut command = Command::new("setpriv");
    command.args([format!("--reuid={user}"), format!("--regid={user}"), "--clear-groups".to_owned()]);
    let capabilities = "-all,+bpf,+net_admin,+perfmon";
    for set in ["inh-caps", "ambient-caps", "bounding-set"] {
        command.arg(format!("--{set}={capabilities}"));
    }
    command.arg(started.get_program()).args(started.get_args());
    command.env_remove("RUST_LOG").env("XDG_RUNTIME_DIR", "/run/user");
    command
}

fn failure(mut command: Command) -> String {
    let output = output(&mut command);
    let (_, stderr) = text(&output);
    assert_eq!((output.status.code(), stderr.lines().count()), (Some(1), 1), "{stderr}");
    stderr
}

fn permit(path: &str, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn capabilities_alone_suffice() {
    isolated(|| {
        let _link = Link::new(&[]);
        fs::create_dir("/run/user").unwrap();
        chown("/run/user", Some(USER), None).unwrap();
        permit("/run", 0o755);
        let config = config(&[], &["{name: every, rate: 1/h, burst: 50}"]);
        let run = ["run", "--config", config.to_str().unwrap()];

        // As systemd mounts it.
        permit("/sys/fs/bpf", 0o700);
        let said = failure(started_by(USER, &run));
        assert!(said.contains("chown USER /sys/fs/bpf/ratelimit"), "{said}");

        permit("/sys/fs/bpf", 0o701);
        fs::create_dir(PINS).unwrap();
        chown(PINS, Some(USER), None).unwrap();
        let mut nowhere = started_by(USER, &run);
        nowhere.env_remove("XDG_RUNTIME_DIR");
        let said = failure(nowhere);
        assert!(said.contains("XDG_RUNTIME_DIR") && said.contains("`control:`"), "{said}");

        for signal in [None, Some(Signal::SIGTERM)] {
            let mut daemon = Daemon::spawn(&mut started_by(USER, &run));
            daemon.wait_for("limiting");
            let kernel = in_kernel();
            assert!(fs::exists("/run/user/ratelimit/default.sock").unwrap());
            let shown = output(&mut started_by(USER, &["status"]));
            assert!(text(&shown).0.contains("running, process"), "{shown:?}");
            for what in ["status", "detach"] {
                let said = failure(started_by(OTHER, &[what]));
                assert!(said.contains("be root or the user who started it"), "{said}");
            }
            let mut elsewhere = started_by(OTHER, &["reload"]);
            elsewhere.env("XDG_RUNTIME_DIR", "/run/other");
            let said = failure(elsewhere);
            assert!(said.contains("if root has started it, be root (`sudo`); else start it"), "{said}");
            for what in [&["reload"][..], &["observe", "on"], &["bucket", "192.0.2.7"], &["events"]] {
                let mut hidden = started_by(OTHER, what);
                hidden.env_remove("XDG_RUNTIME_DIR");
                let said = failure(hidden);
                assert!(
                    said.contains("no permission to ask the daemon: be the user who"),
                    "{what:?}: {said}"
                );
            }
            let socket = "/run/user/ratelimit/default.sock";
            let said = failure(started_by(OTHER, &["reload", "--control", socket]));
            assert!(said.contains("only the user who has started its daemon may ask it"), "{said}");
            match signal {
                Some(signal) => daemon.signal(signal),
                None => assert!(output(&mut started_by(USER, &["detach"])).status.success()),
            }
            assert_eq!(daemon.end().code(), Some(0));
            assert!(!fs::exists("/run/user/ratelimit/default.sock").unwrap());
            // It may not remove its own directory from one of root's.
            fs::remove_dir(PINS).unwrap();
            assert_gone(&kernel);
            fs::create_dir(PINS).unwrap();
            chown(PINS, Some(USER), None).unwrap();
        }
    });
}
