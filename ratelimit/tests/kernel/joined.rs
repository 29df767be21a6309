//! Frames that stand for several packets: what the kernel joins before the program sees it, in generic mode.

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream, UdpSocket},
    os::fd::AsRawFd as _,
    thread,
};

use crate::{
    daemon::{Daemon, config, judged, reason, rule, run, status},
    net::{Link, SERVER, SERVER_V4, ip, isolated, receiver, set_mtu},
    wait,
};

const CLIENT: &str = "10.1.0.2";

/// A configuration that attaches in generic mode.
fn generic(rules: &[&str]) -> std::path::PathBuf {
    let path = config(&[], rules);
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace(&format!("[{SERVER}]"), "[{name: server0, mode: generic}]")).unwrap();
    path
}

/// A client's socket that sends many datagrams at once, of which the kernel makes one frame: see UDP_SEGMENT in udp(7).
fn joining(link: &Link) -> UdpSocket {
    let socket = link.sender(CLIENT);
    let length: libc::c_int = 1_000;
    // SAFETY: pointer and length are the number's.
    let done = unsafe {
        let size = size_of::<libc::c_int>() as u32;
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_UDP,
            libc::UDP_SEGMENT,
            (&raw const length).cast(),
            size,
        )
    };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    socket
}

/// Forty datagrams of 1,000 bytes; with the headers of the first one 40,042 bytes.
static MANY: [u8; 40_000] = [1; 40_000];
/// As many packets of up to 1,500 bytes are that.
const AT_1500: u64 = 27;

#[test]
fn a_frame_longer_than_the_mtu_counts_as_many_packets_as_its_bytes_make() {
    isolated(|| {
        let link = Link::new(&[CLIENT]);
        let _server = receiver(SERVER_V4);
        let _daemon = Daemon::start(&generic(&["{name: every, rate: 1/h, burst: 60}"]));
        let socket = joining(&link);
        socket.send(&MANY).unwrap();
        assert_eq!(rule(&judged(AT_1500), "every"), (AT_1500, 0));
        socket.send(&MANY).unwrap();
        assert_eq!(rule(&judged(2 * AT_1500), "every"), (2 * AT_1500, 0));
        // Six are left.
        socket.send(&MANY).unwrap();
        assert_eq!(rule(&judged(3 * AT_1500), "every"), (2 * AT_1500, AT_1500));
        let six = link.sender(CLIENT);
        (0..10).for_each(|_| assert_eq!(six.send(&[1; 100]).unwrap(), 100));
        assert_eq!(rule(&judged(3 * AT_1500 + 10), "every"), (2 * AT_1500 + 6, AT_1500 + 4));
        // By the MTU that the interface has by then.
        set_mtu(&link, 9_000);
        socket.send(&MANY).unwrap();
        assert_eq!(rule(&judged(3 * AT_1500 + 15), "every"), (2 * AT_1500 + 6, AT_1500 + 9));
    });
}

#[test]
fn a_frame_takes_no_more_than_the_capacity() {
    isolated(|| {
        let link = Link::new(&[CLIENT]);
        let _server = receiver(SERVER_V4);
        let rules = [
            "{name: bucket, rate: 1/h, burst: 20}",
            "{name: window, algorithm: fixed_window, rate: 20/h}",
            "{name: bytes, rate: 100kB/h}",
        ];
        for (count, rule_text) in rules.iter().enumerate() {
            let daemon = Daemon::start(&generic(&[rule_text]));
            let name = rule_text.split([' ', ',']).nth(1).unwrap();
            let socket = joining(&link);
            for _ in 0..3 {
                socket.send(&MANY).unwrap();
            }
            let passed = if count == 2 { 2 * AT_1500 } else { AT_1500 };
            assert_eq!(rule(&judged(3 * AT_1500), name), (passed, 3 * AT_1500 - passed), "{name}");
            drop(daemon);
            run(&["detach"]);
        }
    });
}

#[test]
fn new_sources_are_counted_and_not_their_packets() {
    isolated(|| {
        let link = Link::new(&[CLIENT, "10.1.0.3"]);
        let _server = receiver(SERVER_V4);
        let _daemon = Daemon::start(&generic(&["{name: every, rate: 1/h, burst: 100, new_sources: 2/h}"]));
        joining(&link).send(&MANY).unwrap();
        let other = link.sender("10.1.0.3");
        other.send(&[1; 100]).unwrap();
        assert_eq!(rule(&judged(AT_1500 + 1), "every"), (AT_1500 + 1, 0));
    });
}

#[test]
fn native_mode_sees_each_packet() {
    isolated(|| {
        let link = Link::new(&[CLIENT]);
        let _server = receiver(SERVER_V4);
        let _daemon = Daemon::start(&config(&[], &["{name: every, rate: 1/h, burst: 60}"]));
        joining(&link).send(&MANY).unwrap();
        assert_eq!(rule(&judged(40), "every"), (40, 0));
    });
}

/// Bytes of a download that is long enough to be joined.
const BULK: usize = 3_000_000;

#[test]
fn bulk_traffic_is_counted_by_packets_in_generic_mode() {
    isolated(|| {
        let link = Link::new(&[CLIENT]);
        let _daemon = Daemon::start(&generic(&["{name: every, rate: 1M/s}"]));
        ip(&format!("neigh replace {CLIENT} lladdr 02:00:00:00:00:02 dev {SERVER} nud permanent"));
        let listener = TcpListener::bind((SERVER_V4, 9_001)).unwrap();
        let reader = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut all = Vec::new();
            stream.read_to_end(&mut all).unwrap();
            all.len()
        });
        link.client.enter(|| {
            let mut stream = TcpStream::connect((SERVER_V4, 9_001)).unwrap();
            stream.write_all(&vec![1; BULK]).unwrap();
        });
        assert_eq!(reader.join().unwrap(), BULK);
        // No fewer than these bytes make at 1,500 bytes each; no more than packets with 1,400 bytes each, and a few
        // that only acknowledge.
        let counted = wait::until("all is counted", || {
            let counted = reason(&status(), "passed");
            (counted.bytes > BULK as u64).then_some(counted.packets)
        });
        assert!((2_000..2_500).contains(&counted), "{counted} packets");
    });
}
