//! What the servers count about themselves.

use std::net::TcpStream;

use crate::support::Fixture;

#[test]
fn answers_and_connections_are_counted() {
    let fixture = Fixture::new("");
    let stats = fixture.servers.stats();
    for _ in 0..3 {
        fixture.check("user", "a");
    }
    let [(_, grpc), (_, http)] = stats.answer_times();
    assert_eq!((grpc.counts.iter().sum::<u64>(), http.counts.iter().sum::<u64>()), (0, 3));
    assert!(http.nanos > 0);
    let idle: Vec<TcpStream> = (0..5).map(|_| TcpStream::connect(fixture.http()).unwrap()).collect();
    // They are taken in order, so this one comes after them.
    fixture.check("user", "b");
    assert!(stats.open() >= 5, "{}", stats.open());
    drop(idle);
    while stats.open() > 0 {
        std::thread::yield_now();
    }
    assert_eq!(stats.refused(), 0);
}
