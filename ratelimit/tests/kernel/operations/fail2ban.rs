//! Debian's fail2ban with `config/fail2ban`: what it reads in a log file ends in packets that no longer arrive.

use std::{
    fs::{self, OpenOptions},
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

use ratelimit::dataplane::BanStatus;

use super::{Running, example, program, with_path};
use crate::{
    blocks,
    daemon::{Daemon, config, output, run, text},
    net::{Link, SERVER_V4, SERVER_V6, arrivals, isolated, mount_new, receiver},
    wait,
};

const LOG: &str = "/run/service.log";

/// fail2ban with two jails that read the same log: one bans for an hour, one until it is told otherwise.
struct Fail2Ban {
    _server: Running,
}

impl Fail2Ban {
    fn configure() {
        let package = program("RATELIMIT_FAIL2BAN");
        let etc = package.ancestors().nth(3).unwrap().join("etc/fail2ban");
        let copied = Command::new("cp").args(["-r"]).arg(etc).arg("/run/fail2ban").status().unwrap();
        assert!(copied.success());
        // The distribution's own jails are about this machine's logs.
        let _ = fs::remove_dir_all("/run/fail2ban/jail.d");
        fs::copy(example("fail2ban/ratelimit.conf"), "/run/fail2ban/action.d/ratelimit.conf").unwrap();
        let filter =
            |word: &str| format!("[Definition]\nfailregex = ^{word} from <HOST>$\ndatepattern = {{NONE}}\n");
        for word in ["failure", "attack"] {
            fs::write(format!("/run/fail2ban/filter.d/{word}.conf"), filter(word)).unwrap();
        }
        let jail = |name: &str, rest: &str| {
            format!(
                "[{name}]\nenabled = true\nfilter = {name}\nlogpath = {LOG}\nbackend = polling\nmaxretry = 3\n{rest}\n"
            )
        };
        let jails = jail("failure", "bantime = 1h\naction = ratelimit\n")
            + &jail("attack", "bantime = -1\naction = ratelimit\n");
        fs::write("/run/fail2ban/jail.local", jails).unwrap();
        let server = "[DEFAULT]\nlogtarget = /run/fail2ban.log\ndbfile = /run/fail2ban.db\n";
        fs::write("/run/fail2ban/fail2ban.local", server).unwrap();
        fs::write(LOG, "").unwrap();
    }

    fn start() -> Self {
        let mut server = Self::command("fail2ban-server", &["-f", "start"]);
        let child = server.stdout(Stdio::null()).spawn().unwrap();
        let server = Self { _server: Running(child) };
        wait::until("fail2ban watches", || Self::asked(&["status", "attack"]).then_some(()));
        server
    }

    /// One of its programs, with everything below `/run`.
    fn command(name: &str, arguments: &[&str]) -> Command {
        let path = program("RATELIMIT_FAIL2BAN").with_file_name(name);
        let modules = path.ancestors().nth(2).unwrap().join("lib/python3/dist-packages");
        let mut python = Command::new("python3");
        with_path(&mut python).env("PYTHONPATH", modules).arg(path);
        python.args(["-c", "/run/fail2ban", "-s", "/run/fail2ban.sock", "-p", "/run/fail2ban.pid"]);
        python.args(arguments);
        python
    }

    fn asked(arguments: &[&str]) -> bool {
        output(&mut Self::command("fail2ban-client", arguments)).status.success()
    }

    fn tell(arguments: &[&str]) {
        let told = output(&mut Self::command("fail2ban-client", arguments));
        assert!(told.status.success(), "{arguments:?} {:?}", text(&told));
    }
}

#[test]
fn jails_of_the_documents_are_jails_of_fail2ban() {
    isolated(|| {
        Fail2Ban::configure();
        fs::create_dir("/run/fail2ban/jail.d").unwrap();
        mount_new("tmpfs", "/var/log");
        fs::write("/var/log/auth.log", "").unwrap();
        let jail = blocks::find("docs/coming-from.md", "[sshd]");
        let action = blocks::find("docs/lists-and-bans.md", "banaction");
        fs::write("/run/fail2ban/jail.d/ratelimit.local", format!("{action}\n{jail}")).unwrap();
        let dumped = output(&mut Fail2Ban::command("fail2ban-client", &["-d"]));
        let (dump, said) = text(&dumped);
        assert!(dumped.status.success(), "{said}");
        for part in [
            "'set', 'sshd', 'maxretry', 5]",
            "'set', 'sshd', 'findtime', '10m']",
            "'set', 'sshd', 'bantime', '1h']",
            "'set', 'sshd', 'addaction', 'ratelimit']",
        ] {
            assert!(dump.contains(part), "{part}: {dump}");
        }
    });
}

/// What a service says of somebody.
fn log(word: &str, address: &str) {
    let mut log = OpenOptions::new().append(true).open(LOG).unwrap();
    (0..3).for_each(|_| writeln!(log, "{word} from {address}").unwrap());
}

fn bans() -> Vec<BanStatus> {
    serde_json::from_str(&run(&["bans", "--output", "json"])).unwrap()
}

fn wait_for_bans(expected: &[&str]) {
    let explain = || fs::read_to_string("/run/fail2ban.log").unwrap_or_default();
    wait::until("the bans", || {
        let mut found: Vec<String> = bans().iter().map(|ban| ban.prefix.to_string()).collect();
        found.sort();
        if found != expected {
            println!("{found:?}, not {expected:?}\n{}", explain());
        }
        (found == expected).then_some(())
    });
}

#[test]
fn offenders_are_heard_no_more_until_they_are_unbanned() {
    isolated(|| {
        let (old, new, neighbour) = ("10.1.0.2", "fd00:0:0:2::1", "fd00:0:0:2::99");
        let link = Link::new(&[old, new, neighbour, "10.1.0.3"]);
        let _daemon = Daemon::start(&config(&[], &["{name: every, rate: 1M/s}"]));
        Fail2Ban::configure();
        let fail2ban = Fail2Ban::start();
        let (inbox, inbox6) = (receiver(SERVER_V4), receiver(SERVER_V6));
        let arrives = |client: &str| {
            let others: usize = [&inbox, &inbox6].map(|inbox| arrivals(inbox).len()).iter().sum();
            assert_eq!(others, 0);
            link.sender(client).send(b"hello").unwrap();
            // Behind it comes one that arrives in any case.
            link.sender("10.1.0.3").send(b"hello").unwrap();
            let mut found = Vec::new();
            wait::until("who is not banned", || {
                found.extend(arrivals(&inbox).into_iter().chain(arrivals(&inbox6)));
                found.contains(&"10.1.0.3".parse().unwrap()).then_some(())
            });
            found.contains(&client.parse().unwrap())
        };
        assert!(arrives(old) && arrives(new) && arrives(neighbour));

        log("failure", old);
        log("attack", new);
        let both = ["10.1.0.2/32", "fd00:0:0:2::/64"];
        wait_for_bans(&both);
        assert!(!arrives(old) && !arrives(new) && !arrives(neighbour));
        let left = |prefix: &str| bans().into_iter().find(|ban| ban.prefix == prefix).unwrap().seconds_left;
        // A minute longer than fail2ban says, so that it is fail2ban that ends the ban.
        assert!((3_600..=3_660).contains(&left(both[0]).unwrap()), "{:?}", left(both[0]));
        assert_eq!(left(both[1]), None);
        let reasons: Vec<_> = bans().into_iter().map(|ban| ban.reason.unwrap()).collect();
        assert_eq!(reasons, ["fail2ban failure", "fail2ban attack"]);

        // It ends its bans, and makes them again from its database.
        Fail2Ban::tell(&["stop"]);
        drop(fail2ban);
        wait_for_bans(&[]);
        assert!(arrives(old));
        let _fail2ban = Fail2Ban::start();
        wait_for_bans(&both);
        assert!(!arrives(old));

        Fail2Ban::tell(&["set", "failure", "unbanip", old]);
        Fail2Ban::tell(&["set", "attack", "unbanip", new]);
        wait_for_bans(&[]);
        assert!(arrives(old) && arrives(new));
        let said = fs::read_to_string("/run/fail2ban.log").unwrap();
        assert!(!said.contains("ERROR"), "{said}");
        Fail2Ban::tell(&["stop"]);
        assert!(!Path::new("/run/fail2ban.sock").exists());
    });
}
