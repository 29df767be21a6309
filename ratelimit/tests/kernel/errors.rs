//! What can't be done ends with one line that says what to do, exit status 1, and nothing changed.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, symlink},
    path::PathBuf,
    process::Command,
    sync::Arc,
};

use aya::sys::BpfHelper;
use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use object::{Object as _, ObjectSection as _};
use ratelimit::dataplane::{Feature, OBJECT, check_kernel, refuse_without};
use serde_json::Value;
use tracing_subscriber::{filter::Targets, fmt, layer::SubscriberExt as _};

use crate::{
    daemon::{Daemon, command, config, config_at, output, text},
    foreign::{self, Foreign},
    leftovers::{assert_no_files, in_kernel},
    log::second_subscriber,
    net::{Link, SERVER, freeze, ip, isolated, mount_new, unmount_all},
    offline,
};

const RULES: [&str; 1] = ["{name: every, rate: 100/s, burst: 50}"];

/// Checks that a command fails as it should, with these words in its only line.
fn assert_refused(command: &mut Command, expected: &[&str]) {
    let output = output(command);
    let (stdout, stderr) = text(&output);
    println!("{stderr}");
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert_eq!((stdout.as_str(), stderr.lines().count()), ("", 1), "{stderr}");
    for expected in expected {
        assert!(stderr.contains(expected), "no {expected:?} in {stderr}");
    }
    // Causes that are told twice.
    let parts: Vec<&str> = stderr.trim_end().split(": ").collect();
    let twice = parts.iter().enumerate().find(|(index, part)| parts[..*index].contains(part));
    assert_eq!(twice, None, "{stderr}");
}

fn run(config: &PathBuf) -> Command {
    let mut command = command(&["run", "--config"]);
    command.arg(config);
    command
}

/// The binary, started by another program.
fn by(program: &str, arguments: &[&str], started: &Command) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).arg(started.get_program()).args(started.get_args()).env_remove("RUST_LOG");
    command
}

fn attached(interface: &str) -> Option<u64> {
    let links: Value = serde_json::from_str(&ip(&format!("-j link show {interface}"))).unwrap();
    links[0]["xdp"]["prog"]["id"].as_u64()
}

#[test]
fn an_interface_that_is_not_there() {
    isolated(|| {
        let _link = Link::new(&[]);
        let mut command = run(&config(&[], &RULES));
        assert_refused(command.args(["--interface", "nowhere0"]), &["no interface `nowhere0`", SERVER]);
        assert_no_files();

        let mut command = run(&config(&[], &RULES));
        command.args(["--interface", SERVER, "--interface", "nowhere0"]);
        assert_refused(&mut command, &["nowhere0"]);
        assert_eq!(attached(SERVER), None);
        assert_no_files();
    });
}

#[test]
fn without_root_or_capabilities() {
    isolated(|| {
        let _link = Link::new(&[]);
        let config = config(&[], &RULES);
        let nobody = ["--reuid", "65534", "--clear-groups", "--inh-caps=-all"];
        let no_capabilities = ["--inh-caps=-all", "--bounding-set=-all"];
        for how in [&nobody[..], &no_capabilities] {
            for (started, what) in [
                (run(&config), "load BPF programs"),
                (command(&["status"]), "look at limits"),
                (command(&["detach"]), "take limits off"),
            ] {
                let expected =
                    [what, "run as root", "CAP_BPF", "missing: CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON"];
                assert_refused(&mut by("setpriv", how, &started), &expected);
                assert_eq!(attached(SERVER), None);
                assert_no_files();
            }
        }
    });
}

#[test]
fn a_program_of_somebody_else_is_named_and_left_alone() {
    isolated(|| {
        let _link = Link::new(&[]);
        let _foreign = Foreign::attach(SERVER);
        let id = attached(SERVER).expect("the other program");

        let expected = [SERVER, "`somebody`", &format!("id {id}"), "`bpftool link show`"];
        assert_refused(&mut run(&config(&[], &RULES)), &expected);
        assert_eq!(attached(SERVER), Some(id));
        assert_no_files();
    });
}

#[test]
fn a_program_of_somebody_else_without_a_link_is_told_how_to_take_off() {
    isolated(|| {
        let _link = Link::new(&[]);
        foreign::pin("/sys/fs/bpf/somebody");
        for kind in ["xdpdrv", "xdpgeneric"] {
            ip(&format!("link set dev {SERVER} {kind} pinned /sys/fs/bpf/somebody"));
            let advice = format!("link set dev {SERVER} {kind} off");
            assert_refused(&mut run(&config(&[], &RULES)), &["`somebody`", &format!("`ip {advice}`")]);
            assert!(attached(SERVER).is_some());
            ip(&advice);
            assert_eq!(attached(SERVER), None);
        }
        assert_no_files();
    });
}

#[test]
fn another_instance_on_the_interface_is_left_alone() {
    isolated(|| {
        let _link = Link::new(&[]);
        let _daemon = Daemon::start(&config(&[], &RULES));
        let kernel = in_kernel();

        let other = config_at("/run/other.yaml", "instance: other", &[], &RULES);
        let expected = [SERVER, "instance `default`", "`ratelimit detach --instance default`"];
        assert_refused(&mut run(&other), &expected);
        assert_eq!(in_kernel(), kernel);
        assert_eq!(attached(SERVER), Some(kernel.program.into()));
        assert!(!fs::exists("/sys/fs/bpf/ratelimit/other").unwrap());
        assert!(!fs::exists("/run/ratelimit/other.sock").unwrap());
    });
}

#[test]
fn a_second_daemon_of_an_instance() {
    isolated(|| {
        let _link = Link::new(&[]);
        let config = config(&[], &RULES);
        let daemon = Daemon::start(&config);
        let kernel = in_kernel();

        let process = format!("process {}", daemon.process());
        let expected = ["`default`", "another daemon", &process, "stop it first", "`instance:`"];
        assert_refused(&mut run(&config), &expected);
        let beside = config_at("/run/beside.yaml", "control: /run/beside.sock", &[], &RULES);
        assert_refused(&mut run(&beside), &expected);
        assert_eq!(in_kernel(), kernel);
        assert_eq!(attached(SERVER), Some(kernel.program.into()));
        assert!(
            fs::exists("/run/ratelimit/default.sock").unwrap() && !fs::exists("/run/beside.sock").unwrap()
        );
    });
}

#[test]
fn another_file_system_in_the_place_of_the_bpf_file_system_is_left_alone() {
    isolated(|| {
        let _link = Link::new(&[]);
        mount_new("tmpfs", "/sys/fs/bpf");
        let config = config(&[], &RULES);
        assert_refused(&mut run(&config), &["another file system is there", "mount -t bpf bpf /sys/fs/bpf"]);
        for what in ["status", "detach"] {
            let expected = ["no instance is attached here", "start it with `systemctl start ratelimit`"];
            assert_refused(&mut command(&[what]), &expected);
        }
        assert_eq!(attached(SERVER), None);
        assert_no_files();
    });
}

#[test]
fn a_bpf_file_system_that_is_missing_is_mounted_by_the_daemon_if_it_may() {
    isolated(|| {
        let _link = Link::new(&[]);
        unmount_all("/sys/fs/bpf");
        let config = config(&[], &RULES);
        for what in ["status", "bans", "detach"] {
            let expected = ["no instance is attached here", "start it with `systemctl start ratelimit`"];
            assert_refused(&mut command(&[what]), &expected);
        }
        let few = "-all,+bpf,+net_admin,+perfmon";
        let few = [format!("--inh-caps={few}"), format!("--bounding-set={few}")];
        let mut refused = by("setpriv", &few.each_ref().map(String::as_str), &run(&config));
        let expected = ["can't be mounted here (Operation not permitted", "mount -t bpf bpf /sys/fs/bpf"];
        assert_refused(&mut refused, &expected);
        assert_eq!(attached(SERVER), None);

        let mut daemon = Daemon::spawn(&mut run(&config));
        daemon.wait_for("mounted a BPF file system");
        daemon.wait_for("limiting");
        assert!(attached(SERVER).is_some());
        assert_eq!(fs::metadata("/sys/fs/bpf").unwrap().mode() & 0o777, 0o700);
        // The next one goes on with what this one has pinned.
        let program = in_kernel().program;
        daemon.kill();
        let next = Daemon::start(&config);
        assert!(in_kernel().program != program);
        assert!(output(&mut command(&["detach"])).status.success());
        assert_eq!(next.end().code(), Some(0));
        unmount_all("/sys/fs/bpf");
    });
}

#[test]
fn a_bpf_file_system_that_can_not_be_written() {
    isolated(|| {
        let _link = Link::new(&[]);
        freeze("/sys/fs/bpf");
        let expected = ["/sys/fs/bpf/ratelimit", "Read-only", "`mount -o remount,rw /sys/fs/bpf`"];
        assert_refused(&mut run(&config(&[], &RULES)), &expected);
        assert_eq!(attached(SERVER), None);
        assert_no_files();
    });
}

#[test]
fn a_driver_without_native_mode() {
    isolated(|| {
        let config = config(&[], &RULES);
        let text = fs::read_to_string(&config).unwrap();
        fs::write(&config, text.replace(SERVER, "{name: lo, mode: native}")).unwrap();
        assert_refused(&mut run(&config), &["lo", "native mode", "`mode: auto` or `mode: generic`"]);
        assert_no_files();
    });
}

#[test]
fn a_kernel_counts_by_what_it_can_do_and_not_by_its_number() {
    isolated(|| {
        let _link = Link::new(&[]);
        let config = config(&[], &RULES);
        let mut daemon = Daemon::spawn(&mut by("setarch", &["--uname-2.6"], &run(&config)));
        daemon.wait_for("limiting");
        drop(daemon);
        for what in ["status", "detach"] {
            let old = output(&mut by("setarch", &["--uname-2.6"], &command(&[what])));
            assert!(old.status.success(), "{:?}", text(&old));
        }
        assert_no_files();
    });
}

#[test]
fn what_a_kernel_lacks_is_named() {
    check_kernel().expect("all that is needed");
    // A function that no kernel has, because its number is the first one that is free.
    let nonsense = Feature::helper("bpf_nonsense", "99.9", BpfHelper::__BPF_FUNC_MAX_ID);
    let clock = Feature::helper("bpf_ktime_get_ns", "4.1", BpfHelper::BPF_FUNC_ktime_get_ns);
    refuse_without(&[clock]).expect("a function that every kernel has");
    let said = refuse_without(&[clock, nonsense]).unwrap_err().to_string();
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert!(said.contains("bpf_nonsense, in Linux since 99.9") && said.contains(release.trim()), "{said}");
    assert!(!said.contains("bpf_ktime_get_ns"), "{said}");
}

#[test]
fn of_a_program_that_is_refused_the_verifiers_last_words_are_shown() {
    isolated(|| {
        offline::load_object(OBJECT).expect("the program as it is");
        let mut object = OBJECT.to_vec();
        let file = object::File::parse(OBJECT).unwrap();
        let (start, _) = file.section_by_name("xdp.frags").unwrap().file_range().unwrap();
        // `r0 = r9`, where nothing is in r9 yet.
        object[start as usize..][..8].copy_from_slice(&[0xbf, 0x90, 0, 0, 0, 0, 0, 0]);
        let said = offline::load_object(&object).unwrap_err().to_string();
        println!("{said}");
        assert!(!said.contains("(bf) r0 = r9"), "{said}");
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        for expected in [
            "refuses the XDP program: Permission denied",
            "`R9 !read_ok`",
            &format!("Linux {}, ratelimit {}", release.trim(), env!("CARGO_PKG_VERSION")),
            "`RUST_LOG=info,verifier=trace ratelimit run",
        ] {
            assert!(said.contains(expected), "no {expected:?} in {said}");
        }
        assert!(said.len() < 1_500, "{said}");

        // All of it, down to single instructions, is logged if somebody wants it.
        let log = Arc::new(fs::File::create("/run/log").unwrap());
        let levels: Targets = "info,verifier=trace".parse().unwrap();
        let subscriber = tracing_subscriber::registry().with(levels).with(fmt::layer().with_writer(log));
        let _second = second_subscriber();
        tracing::subscriber::with_default(subscriber, || offline::load_object(&object).unwrap_err());
        let logged = fs::read_to_string("/run/log").unwrap();
        assert!(logged.contains("(bf) r0 = r9") && logged.contains("R9 !read_ok"), "{logged}");
    });
}

#[test]
fn a_control_socket_that_can_not_be_made() {
    isolated(|| {
        let _link = Link::new(&[]);
        fs::write("/run/file", "").unwrap();
        fs::create_dir("/run/frozen").unwrap();
        mount_new("tmpfs", "/run/frozen");
        freeze("/run/frozen");
        for (path, why) in [
            ("/proc/nothing/x.sock", "No such file"),
            ("/proc/x.sock", "No such file"),
            ("/run/file/x.sock", "not a directory"),
            ("/run/frozen/x.sock", "Read-only"),
            ("/run/frozen/directory/x.sock", "Read-only"),
        ] {
            let config = config_at("/run/x.yaml", &format!("control: {path}"), &[], &RULES);
            assert_refused(&mut run(&config), &[path, why, "set `control:`"]);
            assert_eq!(attached(SERVER), None);
            assert_no_files();
        }
    });
}

#[test]
fn a_file_where_the_control_socket_would_be_is_left_alone() {
    isolated(|| {
        let _link = Link::new(&[]);
        let make = |name: &str, kind, device| mknod(name, kind, Mode::S_IRWXU, device).unwrap();
        make("/run/a", SFlag::S_IFREG, 0);
        make("/run/b", SFlag::S_IFCHR, makedev(1, 3));
        make("/run/c", SFlag::S_IFIFO, 0);
        symlink("/run/a", "/run/d").unwrap();
        fs::create_dir("/run/e").unwrap();
        let kinds = ["a regular file", "a device", "a named pipe", "a symbolic link", "a directory"];
        for (path, kind) in ["/run/a", "/run/b", "/run/c", "/run/d", "/run/e"].into_iter().zip(kinds) {
            let before = fs::symlink_metadata(path).unwrap().ino();
            let config = config_at("/run/x.yaml", &format!("control: {path}"), &[], &RULES);
            assert_refused(&mut run(&config), &[path, kind, "give `control:` another path"]);
            assert_eq!(fs::symlink_metadata(path).unwrap().ino(), before);
            assert_eq!(attached(SERVER), None);
            assert_no_files();
        }
    });
}
