//! A daemon whose log nobody can write or read limits all the same.

use std::{
    fs::File,
    process::{Child, Stdio},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::{
    daemon::{command, config, judged, output, rule},
    leftovers::{assert_gone, in_kernel},
    limits::send,
    net::{Link, isolated},
    wait,
};

const CLIENT: &str = "10.1.0.2";

/// Ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_daemon_whose_log_can_not_be_written_limits_and_ends_cleanly() {
    isolated(|| {
        let link = Link::new(&[CLIENT]);
        let config = config(&[], &["{name: every, rate: 1/h, burst: 50}"]);
        let full = || Stdio::from(File::options().write(true).open("/dev/full").unwrap());
        let unread = || Stdio::from(std::io::pipe().unwrap().1);
        for stderr in [full(), unread()] {
            let mut command = command(&["run", "--config"]);
            let mut daemon = Running(command.arg(&config).stdout(full()).stderr(stderr).spawn().unwrap());
            wait::until("the limits are in force", || {
                assert_eq!(daemon.0.try_wait().unwrap(), None);
                output(&mut crate::daemon::command(&["status"])).status.success().then_some(())
            });
            let kernel = in_kernel();
            send(&link.sender(CLIENT), 60);
            assert_eq!(rule(&judged(60), "every"), (50, 10));
            kill(Pid::from_raw(daemon.0.id().cast_signed()), Signal::SIGTERM).unwrap();
            let status = wait::until("the daemon has ended", || daemon.0.try_wait().unwrap());
            assert_eq!(status.code(), Some(0));
            assert_gone(&kernel);
        }
    });
}
