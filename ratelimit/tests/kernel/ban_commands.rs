//! What `ban`, `unban` and `bans` say, and what they leave behind.

use std::{
    fs,
    io::{Read as _, Write as _},
    os::unix::net::UnixStream,
};

use ratelimit::dataplane::{BanStatus, everything_passes};
use serde_json::{Value, json};

use crate::{
    daemon::{Daemon, command, config, judged, output, reason, run, status, text},
    frames::{self, Raw},
    limits::send,
    net::{Link, isolated},
};

const EVERY: &str = "{name: every, rate: 1M/s}";

#[test]
fn who_is_unbanned_is_counted_from_nothing() {
    isolated(|| {
        let (host, long) = ("10.1.0.2", "fd00:0:0:2::1");
        let link = Link::new(&[host, long]);
        let rule_text = "{name: small, match: {protocol: udp}, key: {source: {ipv4: 32, ipv6: 128}}, \
             rate: 1/h, burst: 1, ban: {after: 20, within: 1h, for: 1h}}";
        let _daemon = Daemon::start(&config(&[], &[rule_text]));
        let mut sent = 0;
        let mut judged_after = |count: u32| {
            [host, long].iter().for_each(|client| send(&link.sender(client), count));
            sent += 2 * u64::from(count);
            judged(sent)
        };
        // One passes, the 20th denied one bans.
        assert_eq!(judged_after(21).bans, 2);
        run(&["unban", host, long]);
        assert_eq!(judged_after(19).bans, 0);
        // Their networks are banned and let go before it is too much again.
        run(&["ban", "10.1.0.0/16", "fd00::/16"]);
        run(&["unban", "--all"]);
        assert_eq!(judged_after(19).bans, 0);
        // So is whoever gets all back, of whom one packet passes again.
        run(&["bucket", host, "--reset"]);
        run(&["bucket", long, "--reset"]);
        assert_eq!(judged_after(20).bans, 0);
        assert_eq!(judged_after(1).bans, 2);
    });
}

#[test]
fn a_ban_of_what_is_allowed_is_made_with_a_warning() {
    isolated(|| {
        let link = Link::silent();
        let config = config(&["allow: [10.7.0.0/16, {file: more.txt}]"], &[EVERY]);
        fs::write("/run/more.txt", "").unwrap();
        let daemon = Daemon::start(&config);
        fs::write("/run/more.txt", "10.8.1.2\nfd00:0:0:7::/64\n").unwrap();
        run(&["reload"]);
        daemon.kill();
        for (banned, expected) in [
            ("10.7.1.1/32", Some("10.7.0.0/16 is on the allow list")),
            ("10.8.0.0/16", Some("10.8.1.2/32 is on the allow list")),
            ("fd00:0:0:7::1/128", Some("fd00:0:0:7::/64 is on the allow list")),
            ("10.9.0.0/16", None),
        ] {
            let output = output(&mut command(&["ban", banned]));
            let (said, warned) = text(&output);
            assert_eq!(
                (output.status.code(), &said[..]),
                (Some(0), &format!("banned {banned} for 10m0s\n")[..])
            );
            match expected {
                Some(expected) => assert!(warned.contains(expected), "{warned}"),
                None => assert_eq!(warned, ""),
            }
        }
        let listed = run(&["bans"]);
        assert_eq!(listed.lines().filter(|line| line.contains("on the allow list")).count(), 3, "{listed}");
        let listed: Vec<BanStatus> = serde_json::from_str(&run(&["bans", "--output", "json"])).unwrap();
        let allowed: Vec<_> = listed.iter().map(|ban| ban.allowed.as_deref()).collect();
        assert_eq!(allowed, [Some("10.7.0.0/16"), Some("10.8.1.2/32"), None, Some("fd00:0:0:7::/64")]);
        let raw = Raw::new(&link);
        for source in ["10.7.1.1", "10.8.1.2", "10.8.1.3"] {
            raw.send(&frames::udp(source.parse().unwrap()));
        }
        let status = judged(3);
        assert_eq!((reason(&status, "allowed").packets, reason(&status, "banned").packets), (2, 1));
        run(&["detach"]);
    });
}

#[test]
fn many_are_banned_from_a_file_or_none_if_a_line_is_wrong() {
    isolated(|| {
        let _link = Link::silent();
        let _daemon = Daemon::start(&config(&[], &[EVERY]));
        fs::write("/run/bad", "10.9.0.1\n# fine\n10.9.0.0 /8\n\n  nonsense # why\n").unwrap();
        fs::write("/run/all", "10.9.0.1\n0.0.0.0/0\n").unwrap();
        for (file, expected) in [
            (
                "/run/bad",
                &[
                    "/run/bad:3: `10.9.0.0 /8`: `10.9.0.0` is followed by something",
                    "/run/bad:5: `nonsense`: not an IP",
                ][..],
            ),
            ("/run/all", &["/run/all:2: 0.0.0.0/0 is everybody"]),
            ("/run/none", &["/run/none: no such file"]),
        ] {
            let refused = output(&mut command(&["ban", "10.9.0.7", "--file", file]));
            let (_, said) = text(&refused);
            assert_eq!((refused.status.code(), said.lines().count()), (Some(2), expected.len()), "{said}");
            assert!(said.lines().zip(expected).all(|(line, expected)| line.starts_with(expected)), "{said}");
        }
        assert_eq!(status().bans, 0);
        let many: String = (0..300).map(|index| format!("10.9.{}.0/24 # {index}\n", index % 256)).collect();
        fs::write("/run/many", many).unwrap();
        let said = run(&["ban", "10.8.1.1", "--file", "/run/many", "--for", "1h30m"]);
        assert_eq!((&said[..], status().bans), ("banned 257 addresses or prefixes for 1h30m\n", 257));
        let shown = |asked: &str| run(&["bans", asked]);
        assert!(
            shown("10.9.7.7").lines().nth(1).unwrap().starts_with("10.9.7.0/24 "),
            "{}",
            shown("10.9.7.7")
        );
        assert_eq!(shown("10.9.0.0/23").lines().count(), 3);
        assert_eq!(shown("10.8.1.2"), "nobody in 10.8.1.2/32 is banned\n");
        assert_eq!(run(&["unban", "--file", "/run/many"]), "unbanned 256 addresses or prefixes\n");
        assert_eq!(status().bans, 1);
    });
}

#[test]
fn bans_have_one_form_whoever_makes_lists_or_ends_them() {
    isolated(|| {
        let _link = Link::silent();
        let _daemon = Daemon::start(&config(&[], &[EVERY]));
        let command = |arguments: &[&str]| -> Value {
            serde_json::from_str(&run(&[arguments, &["--output", "json"]].concat())).unwrap()
        };
        let asked = r#"{"prefix": "10.9.0.0/16", "for_seconds": 3600}"#;
        for bans in [
            command(&["ban", "10.9.0.0/16", "--for", "1h"]),
            command(&["bans"]),
            ask_socket("GET", ""),
            command(&["unban", "10.9.0.0/16"]),
            ask_socket("POST", asked),
            ask_socket("DELETE", asked),
        ] {
            let bans: Vec<BanStatus> = serde_json::from_value(bans).expect("a list of bans");
            assert_eq!(bans.len(), 1);
            assert_eq!(bans[0].prefix, "10.9.0.0/16");
            assert!((3_500..=3_600).contains(&bans[0].seconds_left.unwrap()), "{bans:?}");
        }
        assert_eq!((command(&["bans"]), ask_socket("GET", "")), (json!([]), json!([])));
    });
}

#[test]
fn a_longer_ban_stays_unless_it_is_to_be_replaced() {
    isolated(|| {
        let _link = Link::silent();
        let daemon = Daemon::start(&config(&[], &[EVERY]));
        let left = || -> Vec<u64> {
            let listed: Vec<BanStatus> = serde_json::from_str(&run(&["bans", "--output", "json"])).unwrap();
            listed.iter().map(|ban| ban.seconds_left.unwrap()).collect()
        };
        let is_week = |left: &[u64]| left.len() == 1 && (604_900..=606_600).contains(&left[0]);
        let stays = "10.9.0.0/16 is already banned for 7d0h, and that ban stays: `--replace` shortens it\n";
        run(&["ban", "10.9.0.0/16", "--for", "7d30m"]);
        assert_eq!(run(&["ban", "10.9.0.0/16", "--for", "10m"]), stays);
        assert!(is_week(&left()));

        // The others on a list are banned.
        fs::write("/run/list", "10.9.0.0/16\n10.8.0.0/16\n").unwrap();
        assert_eq!(run(&["ban", "--file", "/run/list"]), format!("banned 10.8.0.0/16 for 10m0s\n{stays}"));
        run(&["unban", "10.8.0.0/16"]);

        let asked = |more: &str| -> Vec<BanStatus> {
            let asked = format!(r#"{{"prefix": "10.9.0.0/16", "for_seconds": 600{more}}}"#);
            serde_json::from_value(ask_socket("POST", &asked)).expect("bans")
        };
        let kept = asked("");
        assert!(kept[0].longer && is_week(&[kept[0].seconds_left.unwrap()]), "{kept:?}");
        assert!(is_week(&left()));
        let replaced = asked(r#", "replace": true"#);
        assert!(!replaced[0].longer && replaced[0].seconds_left == Some(600), "{replaced:?}");
        assert!(left()[0] <= 600);

        // A longer one needs nobody's leave; and it is the same without a daemon.
        daemon.kill();
        assert_eq!(run(&["ban", "10.9.0.0/16", "--for", "7d30m"]), "banned 10.9.0.0/16 for 7d0h\n");
        assert_eq!(run(&["ban", "10.9.0.0/16"]), stays);
        let json = run(&["ban", "10.9.0.0/16", "--output", "json"]);
        assert!(json.contains(r#""longer":true"#) && is_week(&left()), "{json}");
        assert_eq!(run(&["ban", "10.9.0.0/16", "--replace"]), "banned 10.9.0.0/16 for 10m0s\n");
        assert!(left()[0] <= 600);
        run(&["detach"]);
    });
}

#[test]
fn the_log_has_what_commands_ban_and_unban_and_for_how_long_and_why() {
    isolated(|| {
        let _link = Link::silent();
        let mut daemon = Daemon::start(&config(&[], &[EVERY]));
        run(&["ban", "10.9.0.1", "--reason", "ticket \"4711\""]);
        daemon.wait_for(r#"banned by command prefix=10.9.0.1/32 seconds=600 reason="ticket \"4711\"""#);
        run(&["ban", "10.8.0.0/16", "--for", "forever"]);
        daemon.wait_for("banned forever by command prefix=10.8.0.0/16");
        // The longer one stays, so nothing is done.
        run(&["ban", "10.8.0.0/16"]);
        run(&["unban", "10.9.0.1", "10.9.0.2"]);
        daemon.wait_for("unbanned by command prefix=10.9.0.1/32");
        ask_socket("POST", r#"{"prefix": "10.9.0.3", "for_seconds": 60, "reason": "r"}"#);
        daemon.wait_for(r#"banned by command prefix=10.9.0.3/32 seconds=60 reason="r""#);
        ask_socket("DELETE", r#"{"prefix": "10.9.0.3"}"#);
        daemon.wait_for("unbanned by command prefix=10.9.0.3/32");
        let many: String = (0..23).map(|index| format!("10.7.{index}.0/24\n")).collect();
        fs::write("/run/many", many).unwrap();
        run(&["ban", "--file", "/run/many"]);
        daemon.wait_for("and others, by the same command left_out=3");
        run(&["detach"]);
        let said = daemon.last_words();
        let about = |part: &str| said.iter().filter(|line| line.contains(part)).count();
        assert_eq!((about("10.8.0.0/16"), about("10.9.0.2"), about("prefix=10.7.")), (1, 0, 20), "{said:#?}");
    });
}

#[test]
fn after_a_trial_that_failed_commands_say_that_everything_passes_and_bans_wait() {
    isolated(|| {
        let link = Link::silent();
        let path = config(&["deny: [10.8.0.0/16]"], &[EVERY]);
        let mut daemon = Daemon::spawn(command(&["run", "--revert-after", "1s", "--config"]).arg(&path));
        daemon.wait_for("nobody has confirmed");
        let commands = [
            &["ban", "10.9.0.1"][..],
            &["bans"],
            &["bucket", "10.9.0.1"],
            &["rules"],
            &["top", "--once"],
            &["status"],
            &["unban", "10.9.0.1"],
            &["bans"],
        ];
        let check = |is_in_force: bool| {
            for arguments in commands {
                let (answer, complaint) = text(&output(&mut command(arguments)));
                let said = answer + &complaint;
                let times = said.matches(&everything_passes()).count();
                assert_eq!(times, usize::from(!is_in_force), "{arguments:?}: {said}");
                let is_told = said.contains("Bans stay, and drop nothing until then");
                assert_eq!(is_told, !is_in_force && arguments[0].contains("ban"), "{arguments:?}: {said}");
                let json: Value =
                    serde_json::from_str(&run(&[arguments, &["--output", "json"]].concat())).unwrap();
                let parts = json.as_array().cloned().unwrap_or_else(|| vec![json.clone()]);
                assert!(parts.iter().all(|part| part["in_force"] == is_in_force), "{arguments:?}: {json}");
            }
        };
        check(false);
        run(&["ban", "10.9.0.1"]);
        let raw = Raw::new(&link);
        let send = || {
            ["10.9.0.1", "10.8.0.1"].iter().for_each(|source| raw.send(&frames::udp(source.parse().unwrap())))
        };
        send();
        assert_eq!(reason(&judged(2), "reverted").packets, 2);
        // So that it does not fail meanwhile.
        run(&["reload", "--revert-after", "1h"]);
        assert_eq!(run(&["confirm"]), "confirmed: the rules stay\n");
        send();
        let status = judged(4);
        assert_eq!((reason(&status, "banned").packets, reason(&status, "denied").packets), (1, 1));
        check(true);
    });
}

/// Asks the daemon for its bans in one of the ways that its socket knows.
fn ask_socket(method: &str, asked: &str) -> Value {
    let mut stream = UnixStream::connect("/run/ratelimit/default.sock").unwrap();
    let head = format!(
        "{method} /v1/instances/default/bans HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        asked.len()
    );
    stream.write_all((head + asked).as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}
