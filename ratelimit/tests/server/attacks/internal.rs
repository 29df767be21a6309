//! Listeners that are not for the world: the metrics, which anybody may reach all the same, and the control socket,
//! which is its owner's.

use std::{iter, thread};

use super::target::{Attacker, DATA, End, PRIORITY, Target, frame};
use crate::{
    http2::{HEALTHCHECK, PING},
    support::request,
};

/// More than are answered at once.
const MANY: usize = 300;
/// What it may take more than before, in MiB, whatever comes: parts of requests of all connections, and what is around
/// them.
const MOST_MORE: u64 = 40;

/// It goes on sending, so that the connection does not end because nothing is heard on it.
#[test]
fn who_speaks_http2_where_it_is_not_spoken_is_cut_off() {
    let target = Target::new();
    let pings = frame(PING, 0, 0, b"12345678").repeat(1_000);
    let unknown = frame(0x55, 0, 0, &[0; 100]).repeat(1_000);
    for more in [pings, unknown, frame(PRIORITY, 0, 1, &[0, 0, 0, 3, 16]), frame(DATA, 0, 1, b"")] {
        for attacker in [Attacker::new(target.metrics), target.deaf_at_control().taking()] {
            assert_eq!(attacker.http2(&[]).flood(HEALTHCHECK.to_vec(), &more), End::Ended);
        }
    }
    assert_eq!(target.says_whose_it_is().status, 200);
    target.serves_others();
}

#[test]
fn who_begins_requests_at_the_control_socket_and_ends_none_keeps_nobody_out() {
    let target = Target::new();
    let before = target.memory();
    let head = [&b"POST /v1/instances/default/bans HTTP/1.1\r\na: "[..], &[b'b'; 15_000]].concat();
    let json = [("content-type", "application/json")];
    let body = request("POST", "/v1/instances/default/bans", &json, &[b' '; 64 << 10]);
    let heads: [&[u8]; 3] = [b"G", b"GET /v1/instance HTTP/1.1\r\n", &head];
    // Requests without the end of their bodies take all places.
    let bodies = iter::repeat_n(&body[..body.len() - 1], MANY);
    let begun: Vec<_> = bodies
        .chain(heads.into_iter().cycle().take(60))
        .map(|begun| {
            let attacker = target.deaf_at_control();
            attacker.send([begun.to_vec()]);
            attacker
        })
        .collect();
    // It waits until the first of them are ended.
    assert_eq!(target.says_whose_it_is().status, 200);
    drop(begun);
    let more = target.memory() - before;
    assert!(more < MOST_MORE, "{more} MiB");
    target.serves_others();
}

#[test]
fn what_has_no_end_at_the_control_socket_is_not_kept() {
    let target = Target::new();
    let before = target.memory();
    let chunked =
        b"POST /v1/instances/default/bans HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n\
        transfer-encoding: chunked\r\n\r\n";
    let long = b"POST /v1/instances/default/reload HTTP/1.1\r\nhost: a\r\ncontent-length: 1000000000\r\n\r\n";
    let chunk = [&b"10000\r\n"[..], &[b' '; 65_536], b"\r\n"].concat();
    for (name, begin, more) in [
        ("headers", &b"GET / HTTP/1.1\r\n"[..], &b"a: b\r\n".repeat(10_000)[..]),
        ("a header", b"GET / HTTP/1.1\r\na: ", &[b'b'; 65_536]),
        ("chunks", chunked, &chunk),
        ("a body", long, &[b' '; 65_536]),
    ] {
        let end = target.deaf_at_control().taking().flood(begin.to_vec(), more);
        assert_eq!(end, End::Ended, "{name}");
    }
    // Nobody takes the answers to requests in a row: no more of them are read.
    let pipelined = b"GET /v1/instances/default/requests/10000 HTTP/1.1\r\nhost: a\r\n\r\n".repeat(1_000);
    let ask = || {
        let attacker = target.deaf_at_control();
        assert_ne!(attacker.send([pipelined.repeat(100)]), End::Taken);
        attacker
    };
    let deaf: Vec<_> = thread::scope(|scope| {
        let all: Vec<_> = (0..20).map(|_| scope.spawn(ask)).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert_eq!(target.says_whose_it_is().status, 200);
    let more = target.memory() - before;
    assert!(more < MOST_MORE, "{more} MiB");
    target.serves_others();
    drop(deaf);
}
