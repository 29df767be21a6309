//! Bans and lists on real traffic.

use std::{fs, path::Path, time::Duration};

use aya::maps::{Array, Map, MapData};
use ratelimit::{
    control,
    dataplane::{Bans, NewBan},
    policy::{BanLength, InstanceName, Prefix},
};
use ratelimit_common::{bans::SETS, table::SLOTS, time::Nanos};
use serde_json::json;

use crate::{
    daemon::{Daemon, command, config, judged, output, reason, rule, run, status, text},
    frames::{self, Raw},
    leftovers::PINS,
    limits::{all_arrivals, count, send},
    net::{Link, SERVER_V4, SERVER_V6, isolated, receiver},
    wait,
};

const EVERY: &str = "{name: every, rate: 1M/s}";

fn asked(seconds: u64) -> NewBan {
    NewBan::asked(BanLength::For(Nanos::from_secs(seconds)))
}

fn prefix(text: &str) -> Prefix {
    text.parse().unwrap()
}

#[test]
fn a_ban_of_a_24_covers_all_of_it_and_nothing_else() {
    isolated(|| {
        let (inside, outside) = (["10.1.7.0", "10.1.7.128", "10.1.7.255"], ["10.1.6.255", "10.1.8.0"]);
        let link = Link::silent();
        let _daemon = Daemon::start(&config(&[], &[EVERY]));
        assert_eq!(run(&["ban", "10.1.7.0/24", "--for", "1h"]), "banned 10.1.7.0/24 for 1h0m\n");
        let raw = Raw::new(&link);
        for source in inside.iter().chain(&outside) {
            raw.send(&frames::udp(source.parse().unwrap()));
        }
        let status = judged(5);
        assert_eq!((reason(&status, "banned").packets, rule(&status, "every")), (3, (2, 0)));
        let listed = run(&["bans"]);
        assert!(
            listed.contains("10.1.7.0/24  ") && (listed.contains("59m") || listed.contains("1h0m")),
            "{listed}"
        );

        let said = "10.1.7.9/32 is not banned, but 10.1.7.0/24 is\n";
        assert_eq!(run(&["unban", "10.1.7.9"]), said);
        run(&["unban", "10.1.7.0/24"]);
        raw.send(&frames::udp(inside[0].parse().unwrap()));
        assert_eq!(rule(&judged(6), "every"), (3, 0));
        assert_eq!(run(&["bans"]), "nobody is banned\n");
    });
}

#[test]
fn ipv6_bans_of_any_length_are_listed_as_they_were_made() {
    isolated(|| {
        let link = Link::silent();
        let _daemon = Daemon::start(&config(&["allow: [\"fd00::a\"]"], &[EVERY]));
        let all =
            ["fd00::7/128", "fd00:0:0:5::/64", "fd00:0:8000::/33", "fd00:0:0:6:8000::/65", "192.0.2.0/25"];
        run(&[&["ban"], &all[..], &["--for", "7d"]].concat());
        run(&["ban", "fd00::a"]);
        let listed = run(&["bans"]);
        for prefix in all {
            assert!(listed.lines().any(|line| line.starts_with(&format!("{prefix} "))), "{prefix}: {listed}");
        }
        let raw = Raw::new(&link);
        let (banned, free) = (
            ["fd00::7", "fd00:0:0:5:ffff::", "fd00:0:ffff::1", "fd00:0:0:6:8000::1"],
            ["fd00::6", "fd00:0:0:4::", "fd00:0:7fff::1", "fd00:0:0:6::1", "fd00::a"],
        );
        for source in banned.iter().chain(&free) {
            raw.send(&frames::udp(source.parse().unwrap()));
        }
        let status = judged(9);
        assert_eq!((reason(&status, "banned").packets, reason(&status, "allowed").packets), (4, 1));
        run(&["unban", "--all"]);
        assert_eq!(status_bans(), 0);
        for (wrong, expected) in
            [("::/0", "everybody"), ("10.0.0.1/0", "everybody"), ("10.0.0.1/33", "too long")]
        {
            let refused = output(&mut command(&["ban", wrong]));
            assert_eq!(refused.status.code(), Some(2));
            assert!(text(&refused).1.contains(expected));
        }
        let refused = output(&mut command(&["ban", "10.0.0.1", "::/0"]));
        assert_eq!((refused.status.code(), status_bans()), (Some(2), 0));
        let refused = output(&mut command(&["ban", "10.0.0.1", "--for", "366d"]));
        assert!(text(&refused).1.contains("365 days"));
    });
}

fn status_bans() -> usize {
    status().bans
}

#[test]
fn a_ban_ends_at_its_deadline_with_the_daemon_dead() {
    isolated(|| {
        let link = Link::new(&["10.1.0.2"]);
        let daemon = Daemon::start(&config(&[], &[EVERY]));
        daemon.kill();
        run(&["ban", "10.1.0.2", "--for", "2s"]);
        let (server, client) = (receiver(SERVER_V4), link.sender("10.1.0.2"));
        send(&client, 10);
        assert_eq!(reason(&judged(10), "banned").packets, 10);
        wait::until("the ban has ended", || (status_bans() == 0).then_some(()));
        send(&client, 10);
        assert_eq!(reason(&judged(20), "banned").packets, 10);
        assert_eq!(all_arrivals(&server, 10).len(), 10);
        run(&["detach"]);
    });
}

#[test]
fn sources_that_go_on_exceeding_a_rule_are_banned_by_the_kernel() {
    isolated(|| {
        let (bad, good) = (["10.1.0.2", "fd00:0:0:2::1"], ["10.1.0.3", "fd00:0:0:3::1"]);
        let link = Link::new(&[bad, good].concat());
        let rules = [
            "{name: small, match: {protocol: udp, destination_port: 9000}, rate: 1/h, burst: 10, \
             ban: {after: 20, within: 1h, for: 1h}}",
            "{name: loose, rate: 1M/s, ban: {after: 1, within: 1s, for: 1h}}",
        ];
        let daemon = Daemon::start(&config(&[], &rules));
        daemon.kill();
        let servers = [receiver(SERVER_V4), receiver(SERVER_V6)];
        // 10 pass, 19 are denied, the 20th denied one bans.
        for client in bad {
            send(&link.sender(client), 29);
        }
        assert_eq!(status_bans(), 0);
        for client in bad {
            send(&link.sender(client), 1);
        }
        let limited = judged(60);
        assert_eq!((limited.bans, rule(&limited, "small")), (2, (20, 40)));
        for client in bad.iter().chain(&good) {
            send(&link.sender(client), 5);
        }
        let status = judged(80);
        assert_eq!((reason(&status, "banned").packets, rule(&status, "small")), (10, (30, 40)));
        assert_eq!((status.table.bans_made, status.rules[0].bans, status.rules[1].bans), (2, 2, 0));
        let listed = run(&["bans"]);
        assert!(listed.contains("10.1.0.2/32") && listed.contains("fd00:0:0:2::/64"), "{listed}");
        let rules = run(&["rules"]);
        for (rule, shown) in
            [("small ", "  2  after=20,within=1h,for=1h  "), ("loose ", "  0  after=1,within=1s,for=1h ")]
        {
            assert!(
                rules.lines().any(|line| line.starts_with(rule) && line.contains(shown)),
                "{rule}{shown}: {rules}"
            );
        }
        for (server, good) in servers.iter().zip(good) {
            assert_eq!(count(&all_arrivals(server, 15), &[good]), 5);
        }
        run(&["detach"]);
    });
}

#[test]
fn the_first_denied_packet_can_ban_and_long_prefixes_are_listed() {
    isolated(|| {
        let link = Link::new(&["fd00:0:0:2::1"]);
        let rule_text = "{name: small, match: {protocol: udp}, key: {source: {ipv6: 128}}, rate: 1/h, burst: 1, \
             ban: {after: 1, within: 1s, for: 1h}}";
        let _daemon = Daemon::start(&config(&[], &[rule_text]));
        send(&link.sender("fd00:0:0:2::1"), 5);
        let status = judged(5);
        assert_eq!((rule(&status, "small"), reason(&status, "banned").packets), ((1, 1), 3));
        assert!(run(&["bans"]).contains("fd00:0:0:2::1/128"));
    });
}

#[test]
fn a_rule_does_not_shorten_a_ban() {
    isolated(|| {
        let link = Link::new(&["10.1.0.2"]);
        let rule_text = "{name: small, match: {protocol: udp}, rate: 1/h, burst: 1, \
             ban: {after: 1, within: 1s, for: 10m}}";
        let daemon = Daemon::start(&config(&[], &[rule_text]));
        run(&["ban", "10.1.0.2", "--for", "7d30m"]);
        // It looks at the table now and then, and would find the ban again.
        daemon.kill();
        // As if the packets had been on their way through the rules when the ban was made: it is not looked up.
        let lengths = MapData::from_pin(format!("{PINS}/default/v2/BAN_LENGTHS")).unwrap();
        let mut lengths: Array<_, [u64; 3]> = Map::Array(lengths).try_into().unwrap();
        lengths.set(0, [0; 3], 0).unwrap();
        send(&link.sender("10.1.0.2"), 3);
        let status = judged(3);
        // The second one was denied, and made the ban that the third one met.
        assert_eq!((rule(&status, "small"), reason(&status, "banned").packets), ((1, 1), 1));
        let listed = run(&["bans"]);
        assert!(status.bans == 1 && listed.contains("7d0h"), "{listed}");
    });
}

#[test]
fn bans_stay_over_a_reload_and_a_daemon_s_death() {
    isolated(|| {
        let link = Link::new(&["10.1.0.2"]);
        let config = config(&[], &[EVERY]);
        let daemon = Daemon::start(&config);
        run(&["ban", "10.1.0.2"]);
        run(&["reload"]);
        let client = link.sender("10.1.0.2");
        send(&client, 10);
        assert_eq!(reason(&judged(10), "banned").packets, 10);
        daemon.kill();
        let _daemon = Daemon::start(&config);
        send(&client, 10);
        assert_eq!(reason(&judged(20), "banned").packets, 20);
    });
}

#[test]
fn thousands_of_bans_are_taken_at_the_socket() {
    isolated(|| {
        let _link = Link::new(&[]);
        let _daemon = Daemon::start(&config(&[], &[EVERY]));
        let (socket, instance) = (Path::new("/run/ratelimit/default.sock"), InstanceName::default());
        let before = std::time::Instant::now();
        for index in 0..2_000_u32 {
            let asked =
                json!({"prefix": format!("10.{}.{}.0/24", index >> 8, index & 255), "for_seconds": 600});
            control::ask(socket, &instance, "bans", &asked, Duration::from_secs(5)).expect("banned");
        }
        println!("{:?} for 2,000 bans", before.elapsed());
        assert_eq!(status_bans(), 2_000);
    });
}

#[test]
fn in_a_full_table_of_bans_the_soonest_to_end_give_way() {
    isolated(|| {
        let link = Link::silent();
        let _daemon = Daemon::start(&config(&[], &[EVERY]));
        let bans = Bans::open(&InstanceName::default()).unwrap();
        let room = SETS * SLOTS as u32;
        let of = |index: u32| Prefix::new(std::net::Ipv4Addr::from(0x0a00_0000 + index).into(), 32).unwrap();
        for index in 0..room * 2 {
            let hours = if index % 2 == 0 { 1 } else { 2 };
            bans.ban(of(index), &asked(hours * 3_600)).unwrap();
        }
        let listed = bans.list().unwrap();
        assert!(listed.len() as u32 > room / 100 * 99, "{}", listed.len());
        let long = listed.iter().filter(|ban| ban.left > BanLength::For(Nanos::from_secs(3_600))).count();
        assert!(long as u32 > room / 100 * 90, "{long} of {}", listed.len());
        // The last one is there in any case.
        Raw::new(&link).send(&frames::udp(of(room * 2 - 1).address()));
        assert_eq!(reason(&judged(1), "banned").packets, 1);
    });
}

#[test]
fn lookups_of_lengths_without_bans_are_forgotten_and_found_again() {
    isolated(|| {
        let link = Link::silent();
        let _daemon = Daemon::start(&config(&[], &[EVERY]));
        let bans = Bans::open(&InstanceName::default()).unwrap();
        bans.ban(prefix("10.9.0.0/16"), &asked(3_600)).unwrap();
        bans.ban(prefix("10.8.0.0/15"), &NewBan::asked(BanLength::For(Nanos(1)))).unwrap();
        bans.forget_lengths().unwrap();
        let raw = Raw::new(&link);
        raw.send(&frames::udp("10.9.1.1".parse().unwrap()));
        raw.send(&frames::udp("10.8.1.1".parse().unwrap()));
        assert_eq!(reason(&judged(2), "banned").packets, 1);
        bans.ban(prefix("10.8.0.0/15"), &asked(3_600)).unwrap();
        raw.send(&frames::udp("10.8.1.1".parse().unwrap()));
        assert_eq!(reason(&judged(3), "banned").packets, 2);
    });
}

#[test]
fn long_lists_from_files_allow_and_deny() {
    isolated(|| {
        let link = Link::silent();
        let every_other = |base: u32| -> String {
            (0..100_000_u32)
                .map(|index| format!("{}\n", std::net::Ipv4Addr::from(base + index * 2)))
                .collect()
        };
        fs::write("/run/allow.txt", every_other(0x0a10_0000) + "fd00:0:0:7::/64\n").unwrap();
        fs::write("/run/deny.txt", every_other(0x0a20_0000) + "fd00::/16\n10.16.0.0/16\n").unwrap();
        let network = ["allow: [{file: allow.txt}]", "deny: [{file: /run/deny.txt}, 192.0.2.0/24]"];
        let _daemon = Daemon::start(&config(&network, &["{name: every, rate: 1/h, burst: 1}"]));
        let raw = Raw::new(&link);
        let allowed = ["10.16.0.0", "10.16.0.2", "10.19.13.62", "fd00:0:0:7::1"];
        let denied = ["10.32.0.0", "10.35.13.62", "10.16.0.1", "192.0.2.255", "fd00:0:0:8::1"];
        let neither = ["10.32.0.1", "10.35.13.64", "10.18.0.1", "192.0.3.0", "fe00::1"];
        for source in allowed.iter().chain(&denied).chain(&neither) {
            raw.send(&frames::udp(source.parse().unwrap()));
            raw.send(&frames::udp(source.parse().unwrap()));
        }
        let status = judged(28);
        let packets = |name| reason(&status, name).packets;
        assert_eq!((packets("allowed"), packets("denied"), rule(&status, "every")), (8, 10, (5, 5)));
        assert_eq!((status.allow, status.deny), (100_001, 100_003));
        // A list that is emptied is no list that denies, and the other way round.
        fs::write("/run/allow.txt", "# nobody\n").unwrap();
        run(&["reload"]);
        raw.send(&frames::udp("10.19.13.62".parse().unwrap()));
        let status = judged(29);
        assert_eq!((reason(&status, "allowed").packets, rule(&status, "every")), (8, (6, 5)));
    });
}
