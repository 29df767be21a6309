//! Limits in bytes: what TCP makes of one, and which bytes of a frame count.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use crate::{
    daemon::{Daemon, config, judged, reason, rule, status},
    limits::all_arrivals,
    net::{Link, SERVER, SERVER_V4, ip, isolated, receiver, set_mtu},
    stops::StopsAtEnd,
    wait,
};

const CLIENT: &str = "10.1.0.2";
/// What lies before the data of a UDP datagram in an IPv4 frame.
const HEADERS: usize = 14 + 20 + 8;

const RATE: f64 = 50e6 / 8.0;
const BURST: f64 = 1.25e6;

/// TCP is measured for so long, after the burst has gone.
const MEASURED: Duration = Duration::from_secs(3);

#[test]
fn tcp_uses_most_of_a_limit_in_bytes() {
    // The kernel lets a veth whose peer has an XDP program put no segments together: frames are as on a wire.
    isolated(|| tcp("native", 1500, false));
}

#[test]
fn tcp_uses_most_of_a_limit_in_bytes_in_jumbo_frames() {
    isolated(|| tcp("native", 9000, true));
}

#[test]
fn tcp_uses_most_of_a_limit_in_bytes_in_frames_of_64_kilobytes() {
    // In generic mode segments that were put together come as one, and count with their whole length.
    isolated(|| tcp("generic", 1500, true));
}

/// `is_long`: whether there are frames of more than 1,514 bytes.
fn tcp(mode: &str, mtu: u32, is_long: bool) {
    let link = Link::new(&[CLIENT]);
    ip(&format!("neigh replace {CLIENT} lladdr 02:00:00:00:00:02 dev {SERVER} nud permanent"));
    set_mtu(&link, mtu);
    let config = config(
        &[],
        &[
            "{name: every, rate: 50Mbit/s, burst: 1250kB}",
            "{name: long, rate: 1M/s, action: observe, match: {length: 1515-65535}}",
        ],
    );
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, text.replace(SERVER, &format!("{{name: {SERVER}, mode: {mode}}}"))).unwrap();
    let _daemon = Daemon::start(&config);
    let listener = TcpListener::bind((SERVER_V4, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let stop = &AtomicBool::new(false);
    thread::scope(|scope| {
        let mut client = link.client.enter(|| TcpStream::connect_timeout(&address, wait::LONGEST)).unwrap();
        scope.spawn(move || {
            let data = vec![0; 1 << 16];
            while !stop.load(Ordering::Relaxed) && client.write_all(&data).is_ok() {}
        });
        let _at_end = StopsAtEnd(stop);
        let stream = listener.accept().unwrap().0;
        stream.set_read_timeout(Some(wait::LONGEST)).unwrap();
        measure(stream);
        assert_eq!(rule(&status(), "long").0 > 0, is_long);
    });
}

fn measure(mut stream: TcpStream) {
    let mut buffer = vec![0; 1 << 18];
    let mut read_until = |is_enough: &dyn Fn(u64) -> bool| {
        let mut bytes = 0;
        while !is_enough(bytes) {
            bytes += stream.read(&mut buffer).unwrap() as u64;
        }
        bytes
    };
    read_until(&|bytes| bytes as f64 > 3.0 * BURST);
    let begun = Instant::now();
    let bytes = read_until(&|_| begun.elapsed() > MEASURED) as f64;
    let seconds = begun.elapsed().as_secs_f64();
    let (passed, dropped) = rule(&status(), "every");
    println!(
        "{:.2} Mbit/s of data in {seconds:.2} s; {passed} frames passed, {dropped} not",
        bytes * 8e-6 / seconds
    );
    assert!(dropped > 0);
    assert!(bytes / seconds > 0.8 * RATE);
    // What was saved up before may still come.
    assert!(bytes <= RATE * seconds + BURST);
}

#[test]
fn udp_gets_a_limit_in_bytes_exactly_to_a_packet() {
    isolated(|| {
        let link = Link::new(&[CLIENT]);
        let _daemon = Daemon::start(&config(&[], &["{name: every, rate: 1kB/h, burst: 10500B}"]));
        let (server, client) = (receiver(SERVER_V4), link.sender(CLIENT));
        let mut sent = 0;
        let mut send = |times: u64, length: usize| {
            (0..times).for_each(|_| assert!(client.send(&vec![0; length - HEADERS]).is_ok()));
            sent += times;
            rule(&judged(sent), "every")
        };
        assert_eq!(send(20, 1000), (10, 10));
        // A frame that does not fit takes nothing: shorter ones still fit.
        assert_eq!(send(1, 501), (10, 11));
        assert_eq!(send(1, 400), (11, 11));
        assert_eq!(send(3, 100), (12, 13));
        all_arrivals(&server, 12);
        let status = status();
        assert_eq!((status.rules[0].passed.bytes, reason(&status, "passed").bytes), (10_500, 10_500));
        assert_eq!(reason(&status, "limited").bytes, 10 * 1000 + 501 + 2 * 100);
    });
}

#[test]
fn jumbo_frames_count_with_their_whole_length() {
    isolated(|| {
        let link = Link::new(&[CLIENT]);
        set_mtu(&link, 9000);
        let _daemon = Daemon::start(&config(&[], &["{name: every, rate: 1kB/h, burst: 45100B}"]));
        let (server, client) = (receiver(SERVER_V4), link.sender(CLIENT));
        let length = 14 + 9000;
        (0..20).for_each(|_| assert!(client.send(&vec![0; length - HEADERS]).is_ok()));

        let status = judged(20);
        assert_eq!(rule(&status, "every"), (5, 15));
        assert_eq!(reason(&status, "passed").bytes, 5 * length as u64);
        assert_eq!(reason(&status, "limited").bytes, 15 * length as u64);
        all_arrivals(&server, 5);
    });
}
