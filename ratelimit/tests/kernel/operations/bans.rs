//! `config/bans`: bans that come back after a stop that detaches, as they do after a reboot.

use std::process::Command;

use ratelimit::dataplane::BanStatus;

use super::{example, with_path};
use crate::{
    daemon::{Daemon, config, judged, output, reason, run, text},
    frames::{self, Raw},
    net::{Link, isolated},
    wait,
};

fn bans(what: &str) {
    let mut script = Command::new(example("bans/ratelimit-bans"));
    let done = output(with_path(&mut script).args([what, "/run/bans.json"]));
    assert!(done.status.success(), "{:?}", text(&done));
}

#[test]
fn bans_are_restored_with_what_they_have_left() {
    isolated(|| {
        let link = Link::silent();
        let config = config(&[], &["{name: every, rate: 1M/s}"]);
        let daemon = Daemon::start(&config);
        let listed =
            || -> Vec<BanStatus> { serde_json::from_str(&run(&["bans", "--output", "json"])).unwrap() };
        run(&["ban", "10.9.0.0/16", "--for", "forever", "--reason", "-- spam; 'quoted'"]);
        run(&["ban", "10.8.0.1", "fd00:0:0:7::/64", "--for", "2d"]);
        run(&["ban", "10.7.0.1", "--for", "2s"]);
        let before = listed();
        bans("save");
        run(&["detach"]);
        drop(daemon);
        wait::until("the shortest has ended", || {
            let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
            (now > before[0].until.unwrap()).then_some(())
        });

        let _daemon = Daemon::start(&config);
        assert!(listed().is_empty());
        bans("restore");
        let after = listed();
        assert_eq!(after.len(), 3, "{after:?}");
        for (before, after) in before[1..].iter().zip(&after) {
            assert_eq!(before.prefix, after.prefix);
            let (was, is) = (before.until.unwrap_or(0), after.until.unwrap_or(0));
            assert!(is >= was && is <= was + 3_700, "{before:?} {after:?}");
            assert_eq!(before.until.is_none(), after.until.is_none());
        }
        let reasons: Vec<_> = after.iter().map(|ban| ban.reason.as_deref().unwrap()).collect();
        assert_eq!(reasons, ["command", "-- spam; 'quoted'", "command"]);
        Raw::new(&link).send(&frames::udp("10.9.1.1".parse().unwrap()));
        assert_eq!(reason(&judged(1), "banned").packets, 1);
    });
}
