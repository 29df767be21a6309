//! How long bans last, who made them and why: as rules and people make them, with a daemon and without.

use std::{fs, time::Instant};

use ratelimit::dataplane::BanStatus;

use crate::{
    daemon::{Daemon, command, config, judged, output, reason, run, status, text},
    leftovers::PINS,
    limits::send,
    net::{Link, isolated},
    wait,
};

const EVERY: &str = "{name: every, rate: 1M/s}";
const CLIENT: &str = "10.1.0.2";

/// A rule that lets one packet pass and bans at the second, on these terms.
fn banning(terms: &str) -> String {
    format!(
        "{{name: small, match: {{protocol: udp}}, rate: 1/d, burst: 1, ban: {{after: 1, within: 1s, {terms}}}}}"
    )
}

fn listed() -> Vec<BanStatus> {
    serde_json::from_str(&run(&["bans", "--output", "json"])).unwrap()
}

fn wait_for_the_end() {
    wait::until("the ban has ended", || (status().bans == 0).then_some(()));
}

#[test]
fn bans_lengthen_in_the_kernel_until_somebody_is_let_go() {
    isolated(|| {
        let link = Link::new(&[CLIENT]);
        let daemon =
            Daemon::start(&config(&[], &[&banning("for: 1s, factor: 1000, up_to: 20m, forget: 1d")]));
        daemon.kill();
        let client = link.sender(CLIENT);
        send(&client, 2);
        let first = judged(2);
        assert_eq!(
            (first.table.bans_made, listed().iter().all(|ban| ban.seconds_left <= Some(1))),
            (1, true)
        );
        wait_for_the_end();
        send(&client, 1);
        judged(3);
        let left = || listed()[0].seconds_left.unwrap();
        assert!((900..=1_000).contains(&left()), "{}", left());
        // While it is banned nothing makes it longer.
        send(&client, 5);
        assert_eq!((reason(&judged(8), "banned").packets, status().table.bans_made), (5, 2));
        assert!((900..=1_000).contains(&left()), "{}", left());
        // Who is let go begins anew.
        run(&["unban", CLIENT]);
        send(&client, 1);
        judged(9);
        assert!(listed().iter().all(|ban| ban.seconds_left <= Some(1)), "{:?}", listed());
        wait_for_the_end();
        // A ban by hand of another length is no reason to forget.
        run(&["ban", CLIENT, "--for", "1s"]);
        wait_for_the_end();
        send(&client, 1);
        judged(10);
        assert!((900..=1_000).contains(&left()), "{}", left());
        run(&["detach"]);
    });
}

#[test]
fn bans_that_ended_long_ago_are_forgotten() {
    isolated(|| {
        let link = Link::new(&[CLIENT]);
        let terms = "for: 1s, factor: 1000, up_to: 20m, forget: 1s";
        let _daemon = Daemon::start(&config(&[], &[&banning(terms)]));
        let client = link.sender(CLIENT);
        for (count, sent) in [(2, 2), (1, 3)] {
            send(&client, count);
            judged(sent);
            assert!(listed().iter().all(|ban| ban.seconds_left <= Some(1)), "{:?}", listed());
            wait_for_the_end();
            let ended = Instant::now();
            wait::until("a second has passed", || (ended.elapsed().as_secs() >= 1).then_some(()));
        }
        assert_eq!(status().table.bans_made, 2);
    });
}

#[test]
fn a_ban_of_a_rule_is_logged_and_says_which_rule_made_it() {
    isolated(|| {
        let link = Link::new(&[CLIENT]);
        let path = config(&[], &[&banning("for: forever")]);
        let mut daemon = Daemon::spawn(command(&["run", "--config"]).arg(&path));
        daemon.wait_for("one burst of spoofed packets bans an address for so long");
        daemon.wait_for("limiting");
        run(&["ban", "10.9.0.0/16"]);
        send(&link.sender(CLIENT), 2);
        daemon.wait_for("banned forever by rule small");
        let all = listed();
        let of = |prefix: &str| all.iter().find(|ban| ban.prefix == prefix).unwrap();
        let (by_hand, by_rule) = (of("10.9.0.0/16"), of("10.1.0.2/32"));
        assert_eq!((&by_hand.by[..], by_hand.rule.as_deref()), ("command", None));
        assert_eq!((&by_rule.by[..], by_rule.rule.as_deref()), ("rule", Some("small")));
        assert_eq!((by_rule.seconds_left, by_rule.until), (None, None));
        let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
        assert!(all.iter().all(|ban| (now - 600..=now).contains(&ban.made.unwrap())), "{all:?}");
        let shown = run(&["bans"]);
        let line = shown.lines().find(|line| line.starts_with("10.1.0.2/32 ")).unwrap();
        assert!(line.contains(" forever ") && line.contains(" rule small "), "{line}");

        // The rule goes, and another gets its number; its ban stays, and says who made it.
        fs::write(&path, fs::read_to_string(&path).unwrap().replace("name: small", "name: other")).unwrap();
        assert_eq!(status().rules[0].bans, 1);
        run(&["reload"]);
        assert_eq!(status().rules[0].bans, 0);
        assert_eq!(
            listed().iter().find(|ban| ban.prefix == "10.1.0.2/32").unwrap().rule.as_deref(),
            Some("small")
        );
        let said = "nobody is banned by the rule `other`; there are bans by `small`\n";
        assert_eq!(run(&["unban", "--by", "other"]), said);
        let strict = output(&mut command(&["unban", "--by", "other", "--strict"]));
        assert_eq!(strict.status.code(), Some(1));
        assert_eq!(run(&["unban", "--by", "small"]), "unbanned 10.1.0.2/32\n");
        assert_eq!(listed().len(), 1);
        run(&["detach"]);
    });
}

#[test]
fn a_ban_forever_outlives_a_daemon_and_ends_when_it_is_told_to() {
    isolated(|| {
        let link = Link::new(&[CLIENT]);
        let config = config(&[], &[EVERY]);
        let daemon = Daemon::start(&config);
        assert_eq!(run(&["ban", CLIENT, "--for", "forever"]), "banned 10.1.0.2/32 forever\n");
        daemon.kill();
        let stays = "10.1.0.2/32 is already banned forever, and that ban stays: `--replace` shortens it\n";
        assert_eq!(run(&["ban", CLIENT, "--for", "365d"]), stays);
        let _daemon = Daemon::start(&config);
        let client = link.sender(CLIENT);
        send(&client, 3);
        assert_eq!(reason(&judged(3), "banned").packets, 3);
        assert_eq!(listed()[0].seconds_left, None);
        assert_eq!(run(&["ban", CLIENT, "--replace"]), "banned 10.1.0.2/32 for 10m0s\n");
        run(&["ban", CLIENT, "--for", "forever"]);
        assert_eq!(run(&["unban", CLIENT]), "unbanned 10.1.0.2/32\n");
        send(&client, 1);
        assert_eq!(reason(&judged(4), "passed").packets, 1);
    });
}

#[test]
fn reasons_are_kept_with_a_daemon_and_without_and_end_with_their_bans() {
    isolated(|| {
        let _link = Link::silent();
        let daemon = Daemon::start(&config(&[], &[EVERY]));
        let reason = || listed()[0].reason.clone();
        let longest = "é".repeat(32);
        run(&["ban", CLIENT, "--reason", &longest]);
        assert_eq!(reason().as_deref(), Some(&longest[..]));
        daemon.kill();
        assert_eq!(reason().as_deref(), Some(&longest[..]));
        // A longer ban that stays keeps its reason, the next one has its own or none.
        run(&["ban", CLIENT, "--for", "1m", "--reason", "other"]);
        assert_eq!(reason().as_deref(), Some(&longest[..]));
        run(&["ban", CLIENT, "--for", "1h", "--reason", "--other"]);
        assert!(run(&["bans"]).lines().nth(1).unwrap().ends_with("  command  --other"), "{}", run(&["bans"]));
        run(&["ban", CLIENT, "--for", "2h"]);
        assert_eq!(reason(), None);
        run(&["ban", CLIENT, "--for", "3h", "--reason", "again"]);
        run(&["unban", CLIENT]);
        run(&["ban", CLIENT]);
        assert_eq!(reason(), None);
        for (wrong, expected) in [
            ("a".repeat(65), "at most 64 are kept"),
            ("a\nb".to_owned(), "one line"),
            (String::new(), "empty"),
        ] {
            let refused = output(&mut command(&["ban", "10.9.9.9", "--reason", &wrong]));
            assert_eq!(refused.status.code(), Some(2), "{wrong:?}");
            assert!(text(&refused).1.contains(expected), "{wrong:?}: {}", text(&refused).1);
        }
        assert_eq!(listed().len(), 1);
        run(&["detach"]);
    });
}

#[test]
fn who_is_not_banned_can_be_let_go() {
    isolated(|| {
        let _link = Link::silent();
        let _daemon = Daemon::start(&config(&[], &[EVERY]));
        assert_eq!(run(&["unban", CLIENT]), "10.1.0.2/32 is not banned\n");
        assert_eq!(run(&["unban", CLIENT, "--output", "json"]), "[]\n");
        run(&["ban", CLIENT]);
        let strict = output(&mut command(&["unban", CLIENT, "10.1.0.3", "--strict"]));
        assert_eq!(strict.status.code(), Some(1));
        assert_eq!(text(&strict).1, "ratelimit: 10.1.0.3/32 is not banned; unbanned 10.1.0.2/32\n");
        run(&["ban", CLIENT]);
        assert_eq!(run(&["unban", CLIENT, "--strict"]), "unbanned 10.1.0.2/32\n");
    });
}

/// A version without these maps left the others, with a ban of whom nobody knows who made it.
#[test]
fn maps_without_records_are_gone_on_with() {
    isolated(|| {
        let link = Link::new(&[CLIENT]);
        let config = config(&[], &[&banning("for: 1h")]);
        let daemon = Daemon::start(&config);
        send(&link.sender(CLIENT), 2);
        assert_eq!(judged(2).bans, 1);
        daemon.kill();
        for map in ["BAN_RECORDS", "BAN_TEXTS", "RULE_BANS", "RULE_OBSERVED"] {
            fs::remove_file(format!("{PINS}/default/v2/{map}")).unwrap();
        }
        assert_eq!((&listed()[0].by[..], listed()[0].made), ("unknown", None));
        assert_eq!((status().table.bans_made, status().rules[0].bans), (1, 0));
        run(&["ban", "10.9.0.0/16", "--reason", "is not kept"]);
        assert_eq!(listed().len(), 2);
        assert_eq!(run(&["unban", "10.9.0.0/16"]), "unbanned 10.9.0.0/16\n");
        let _daemon = Daemon::start(&config);
        let status = status();
        // Counters and bans go on.
        assert_eq!((status.bans, status.table.bans_made), (1, 1));
        assert_eq!(&listed()[0].by[..], "unknown");
        run(&["ban", "10.9.0.0/16", "--reason", "is kept"]);
        assert!(listed().iter().any(|ban| ban.reason.as_deref() == Some("is kept")), "{:?}", listed());
        run(&["detach"]);
    });
}
