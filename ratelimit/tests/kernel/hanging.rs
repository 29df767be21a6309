//! Files on a file system that hangs, as one on a network that is gone does.

use std::{
    fs::{self, File},
    os::fd::AsRawFd as _,
};

use nix::{
    mount::{MsFlags, mount},
    sys::signal::Signal,
};

use crate::{
    daemon::{Daemon, config_at, run},
    net::{Link, isolated},
    wait,
};

/// A file system in user space where nobody answers.
fn hang(directory: &str) -> File {
    let fuse = File::options().read(true).write(true).open("/dev/fuse").unwrap();
    let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", fuse.as_raw_fd());
    mount(Some("hanging"), directory, Some("fuse"), MsFlags::empty(), Some(options.as_str())).unwrap();
    fuse
}

/// Whether a thread waits for such a file system.
fn is_hanging(process: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let stack = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("stack")).unwrap_or_default();
    threads.map_while(Result::ok).any(|thread| stack(thread).contains("fuse_"))
}

#[test]
fn signals_and_commands_do_not_wait_for_files_that_hang() {
    isolated(|| {
        let _link = Link::silent();
        fs::create_dir("/run/rules").unwrap();
        fs::write("/run/rules/a.yaml", "domain: d\n").unwrap();
        let application = "application: {rules: [rules/*.yaml], listen: {http: 'unix:/run/http.sock'}}";
        let config = config_at("/run/ratelimit.yaml", application, &[], &["{name: every, rate: 1/h}"]);
        let daemon = Daemon::start(&config);
        let _hanging = hang("/run/rules");
        daemon.signal(Signal::SIGHUP);
        wait::until("the daemon reads", || is_hanging(daemon.process()).then_some(()));
        assert!(run(&["observe", "on"]).contains("observe"));
        daemon.signal(Signal::SIGTERM);
        assert_eq!(daemon.end().code(), Some(0));
    });
}
