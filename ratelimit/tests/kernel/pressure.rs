//! What the daemon meets when its surroundings fail: limits stay in force, and errors are clear.

use std::{
    fs,
    io::{Read as _, Write as _},
    os::unix::net::UnixStream,
    path::Path,
    thread,
    time::Duration,
};

use ratelimit::{control, policy::InstanceName};
use serde_json::json;

use crate::{
    daemon::{Daemon, command, config, judged, output, rule, run, text},
    leftovers::in_kernel,
    limits::send,
    net::{Link, freeze, isolated, thaw},
};

const CLIENT: &str = "10.1.0.2";
const EVERY: &str = "{name: every, rate: 1/h, burst: 10}";
const SOCKET: &str = "/run/ratelimit/default.sock";
/// How long whoever asks at the control socket waits.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a raw request to the control socket gets.
fn raw(request: &[u8]) -> String {
    let mut stream = UnixStream::connect(SOCKET).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // It may be cut off while more is to come.
    let _ = stream.write_all(request);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn malformed_and_huge_requests_at_the_control_socket_do_no_harm() {
    isolated(|| {
        let link = Link::new(&[CLIENT]);
        let _daemon = Daemon::start(&config(&[], &[EVERY]));
        let kernel = in_kernel();
        let post = |path: &str, body: &str| {
            format!(
                "POST /v1/instances/{path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\n\
                 content-length: {}\r\n\r\n{body}",
                body.len()
            )
        };
        let cases: [(String, &str); 11] = [
            ("\0\u{1}\u{2}\r\n\r\n".to_owned(), "400"),
            (format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(100_000)), "431"),
            (format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(1 << 20)), "431"),
            (post("default/bans", &"[".repeat(60_000)), "422"),
            (post("default/bans", &"x".repeat(10 << 20)), "413"),
            (post("default/bans", r#"{"prefix": "::/0"}"#), "400"),
            (post("default/bans", r#"{"prefix": "10.0.0.1", "for_seconds": 18446744073709551615}"#), "400"),
            (post("default/bans", r#"{"prefix": 7}"#), "422"),
            (post("default/buckets", r#"{"address": "nobody"}"#), "422"),
            (post("other/detach", "{}"), "404"),
            (post("default/nothing", "{}"), "404"),
        ];
        for (request, status) in cases {
            let answer = raw(request.as_bytes());
            let shown: String = request.chars().take(60).collect();
            // Who is still talking when the daemon has heard enough may not hear the answer.
            let is_cut_off = answer.is_empty() && request.len() > 1 << 20;
            assert!(is_cut_off || answer.starts_with(&format!("HTTP/1.1 {status}")), "{shown}: {answer}");
        }
        assert_eq!(in_kernel(), kernel);
        send(&link.sender(CLIENT), 20);
        assert_eq!(rule(&judged(20), "every"), (10, 10));
    });
}

#[test]
fn ten_thousand_requests_at_once_are_answered_or_refused() {
    isolated(|| {
        let link = Link::new(&[CLIENT]);
        let _daemon = Daemon::start(&config(&[], &[EVERY]));
        let asked = json!({"address": CLIENT});
        let (answered, refused) =
            (std::sync::atomic::AtomicU32::new(0), std::sync::atomic::AtomicU32::new(0));
        thread::scope(|scope| {
            for _ in 0..100 {
                scope.spawn(|| {
                    for turn in 0..100 {
                        let (path, instance) = (Path::new(SOCKET), InstanceName::default());
                        // One in twenty waits for the daemon's loop, which looks at all bans for it.
                        let done = if turn % 20 == 0 {
                            control::ask(path, &instance, "buckets", &asked, PATIENCE).map(drop)
                        } else {
                            control::requests(path, &instance, 1).map(drop)
                        };
                        let counter = if done.is_ok() { &answered } else { &refused };
                        counter.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    }
                });
            }
        });
        println!("{answered:?} answered, {refused:?} refused");
        assert!(answered.into_inner() > 5_000);
        send(&link.sender(CLIENT), 20);
        assert_eq!(rule(&judged(20), "every"), (10, 10));
        run(&["reload"]);
    });
}

#[test]
fn a_read_only_bpf_file_system_refuses_changes_and_leaves_limits() {
    isolated(|| {
        let link = Link::new(&[CLIENT]);
        let _daemon = Daemon::start(&config(&[], &[EVERY]));
        let kernel = in_kernel();
        freeze("/sys/fs/bpf");
        for refused in ["reload", "detach", "status"] {
            let refused = output(&mut command(&[refused]));
            let (_, said) = text(&refused);
            assert_eq!(refused.status.code(), Some(1), "{said}");
            assert!(said.contains("Read-only") && said.contains("remount,rw"), "{said}");
        }
        thaw("/sys/fs/bpf");
        assert_eq!(in_kernel(), kernel);
        send(&link.sender(CLIENT), 20);
        assert_eq!(rule(&judged(20), "every"), (10, 10));
    });
}

#[test]
fn a_limit_on_memory_refuses_a_table_and_leaves_nothing() {
    isolated(|| {
        let _link = Link::new(&[CLIENT]);
        let config = config(&["table_size: 128M"], &[EVERY]);
        // What the table's mapping alone would take.
        let mut limited = std::process::Command::new("prlimit");
        limited.args(["--as=500000000", env!("CARGO_BIN_EXE_ratelimit"), "run", "--config"]).arg(&config);
        let refused = output(&mut limited);
        let (_, said) = text(&refused);
        assert_eq!(refused.status.code(), Some(1), "{said}");
        assert!(said.contains("mapping a table") || said.contains("memory"), "{said}");
        crate::leftovers::assert_no_files();
    });
}

#[test]
fn a_full_disk_under_the_configuration_leaves_limits() {
    isolated(|| {
        let link = Link::new(&[CLIENT]);
        let path = config(&[], &[EVERY]);
        let _daemon = Daemon::start(&path);
        let kernel = in_kernel();
        // A file that was cut short when it was written.
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, &text[..text.len() / 2]).unwrap();
        assert_eq!(output(&mut command(&["reload"])).status.code(), Some(1));
        fs::write(&path, "").unwrap();
        assert_eq!(output(&mut command(&["reload"])).status.code(), Some(1));
        assert_eq!(in_kernel(), kernel);
        send(&link.sender(CLIENT), 20);
        assert_eq!(rule(&judged(20), "every"), (10, 10));
    });
}
