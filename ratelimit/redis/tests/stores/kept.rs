//! What is kept in the store: what is no state, for how long, and how much memory it takes.

use std::{num::NonZeroU64, time::Duration};

use futures_util::future::join_all;
use ratelimit_common::{
    limit::{Algorithm, LimitSpec, Rate, StateKind, StateStorage},
    time::Nanos,
};
use ratelimit_limiter::store::remote::{Act, RemoteError};
use ratelimit_redis_testing::{Engine, Server};

use crate::{
    probe::guide,
    support::{
        asking::{Ask, LONG, admits, decide, each_kind, limit, one, outcomes, store},
        direct::Direct,
    },
};

const WEEK: Duration = Duration::from_secs(7 * 86_400);

/// What may lie under a bucket's key that is not its state.
const FOREIGN: [&[&str]; 8] = [
    &["SET", "KEY", ""],
    &["SET", "KEY", "x"],
    &["SET", "KEY", "a text that is longer than a state"],
    &["SET", "KEY", "\u{1}\u{7f}\u{7f}\u{7f}\u{7f}\u{7f}\u{7f}\u{7f}\u{7f}\u{7f}\u{7f}"],
    &["RPUSH", "KEY", "one", "two"],
    &["RPUSH", "KEY", "\u{5}\0\0\0\0\0\0\0\0\0\0\0\0\0\0", "garbage"],
    &["SADD", "KEY", "x"],
    &["HSET", "KEY", "x", "y"],
];

#[tokio::test(flavor = "multi_thread")]
async fn a_window_that_the_script_can_not_tell_is_refused_with_the_next_one_that_it_can() {
    let server = Server::start(Engine::Redis);
    let store = store(Direct::to(&server).await, LONG);
    for (name, limit) in each_kind(3, Duration::from_nanos(60_000_000_500)) {
        let answer = decide(&store, &[one(name, "key", &limit)]).await;
        if limit.kind() == StateKind::ArrivalTime {
            assert!(answer.unwrap(), "{name}");
        } else {
            let Err(RemoteError::Unavailable(why)) = answer else { panic!("{name}: {answer:?}") };
            assert!(why.contains("60000000500 ns") && why.ends_with("make it 60000001000 ns"), "{why}");
        }
    }
    for (name, limit) in each_kind(3, Duration::from_nanos(60_000_001_000)) {
        assert!(decide(&store, &[one(name, "key", &limit)]).await.unwrap(), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_state_spoils_only_its_own_request() {
    let server = Server::start(Engine::Redis);
    let store = store(Direct::to(&server).await, LONG);
    for (name, limit) in each_kind(100, WEEK) {
        for (number, command) in FOREIGN.iter().enumerate() {
            let keys: Vec<String> = (0..64).map(|key| format!("{name} {number} {key}")).collect();
            let poisoned = number * 7 % 64;
            decide(&store, &[one(name, &keys[poisoned], &limit)]).await.unwrap();
            let key = server.ask::<Vec<String>>(&["KEYS", &format!("*:{}", keys[poisoned])]).remove(0);
            server.command(&["DEL", &key]);
            let poison: Vec<&str> =
                command.iter().map(|word| if *word == "KEY" { &*key } else { *word }).collect();
            server.command(&poison);
            let before: Vec<u8> = server.ask(&["DUMP", &key]);
            let asks: Vec<_> = keys.iter().map(|key| [one(name, key, &limit)]).collect();
            let answers = join_all(asks.iter().map(|asks| decide(&store, asks))).await;
            for (index, answer) in answers.into_iter().enumerate() {
                match answer {
                    Err(RemoteError::Foreign(_)) => assert_eq!(index, poisoned, "{poison:?}"),
                    answer => {
                        assert!(answer.unwrap() && index != poisoned, "{name}: {poison:?} passes at {index}")
                    }
                }
            }
            assert_eq!(server.ask::<Vec<u8>>(&["DUMP", &key]), before, "{poison:?}");
            // It is nobody's charge that others see.
            let (after, _) =
                outcomes(&store, &[one(name, &keys[(poisoned + 1) % 64], &limit)]).await.unwrap();
            assert!(after.said()[0].contains("[98, 2, 0, 0]"), "{:?}", after.said());
            server.command(&["FLUSHALL"]);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_with_a_foreign_key_charges_none_of_its_others() {
    let server = Server::start(Engine::Redis);
    let store = store(Direct::to(&server).await, LONG);
    let limits = each_kind(100, WEEK);
    let asks: Vec<_> = limits.iter().map(|(name, limit)| one(name, "key", limit)).collect();
    assert!(decide(&store, &asks).await.unwrap());
    for (name, _) in &limits {
        let key = server.ask::<Vec<String>>(&["KEYS", &format!("*{name}*")]).remove(0);
        server.command(&["RENAME", &key, "kept"]);
        server.command(&["SET", &key, "foreign"]);
        assert!(matches!(decide(&store, &asks).await, Err(RemoteError::Foreign(_))));
        server.command(&["DEL", &key]);
        server.command(&["RENAME", "kept", &key]);
    }
    let (after, _) = outcomes(&store, &asks).await.unwrap();
    for said in after.said() {
        assert!(said.contains("[98, 2, 0, 0]"), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_owes_more_than_can_be_spoils_no_other_request() {
    let server = Server::start(Engine::Redis);
    let store = store(Direct::to(&server).await, LONG);
    let rate = Rate { amount: NonZeroU64::MIN, per: Nanos::from(WEEK) };
    let spec = LimitSpec { overrun: true, ..LimitSpec::new(Algorithm::SlidingWindowLog, rate) };
    let (log, (_, window)) = (spec.build(StateStorage::UserSpace).unwrap(), each_kind(100, WEEK)[2]);
    let take = Ask { act: Act::Charge, ..one("log", "key", &log) };
    assert!(decide(&store, &[take]).await.unwrap());
    let key = server.ask::<Vec<String>>(&["KEYS", "*log*"]).remove(0);
    // Tag, the most units that fit, and no time above a soft limit.
    let header = [&[5_u8, 0x1f][..], &[0xff; 6], &[0; 7]].concat();
    redis::cmd("LSET").arg(key).arg(0).arg(header).exec(&mut server.connection()).unwrap();
    let mut asks = vec![vec![one("window", "key", &window)]; 63];
    asks.push(vec![Ask { act: Act::Refund, ..take }]);
    let answers = join_all(asks.iter().map(|asks| decide(&store, asks))).await;
    let answers: Vec<bool> = answers.into_iter().map(Result::unwrap).collect();
    assert!(answers[..63].iter().all(|admitted| *admitted), "{answers:?}");
    let (after, _) = outcomes(&store, &asks[0]).await.unwrap();
    assert!(after.said()[0].contains("[36, 64, 0, 0]"), "{:?}", after.said());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_is_kept_until_it_is_full_again() {
    for engine in [Engine::Redis, Engine::Valkey] {
        let server = Server::start(engine);
        let store = store(Direct::to(&server).await, LONG);
        for (name, limit) in each_kind(10, Duration::from_secs(100)) {
            let (after, _) = outcomes(&store, &[one(name, "key", &limit)]).await.unwrap();
            assert!(after.admitted);
            let keys = server.ask::<Vec<String>>(&["KEYS", &format!("*{name}*")]);
            let lifetime: i64 = server.ask(&["PTTL", &keys[0]]);
            let least: i64 = match limit.kind() {
                StateKind::ArrivalTime => 10_000,
                StateKind::Log => 100_000,
                // A window may end just then; a sliding counter's counts in the next one.
                StateKind::SlidingCounter => 100_000,
                _ => 0,
            };
            let most = if limit.kind() == StateKind::SlidingCounter { 200_000 } else { least.max(100_000) };
            assert!((least..=most + 1_001).contains(&lifetime), "{name}: {lifetime} ms");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn buckets_fill_in_real_time_also_when_they_are_forgotten() {
    let server = Server::start(Engine::Valkey);
    let store = store(Direct::to(&server).await, LONG);
    for (name, limit) in each_kind(1, Duration::from_millis(500)) {
        for _ in 0..4 {
            let (after, _) = outcomes(&store, &[one(name, "key", &limit)]).await.unwrap();
            let wait = match after.admitted {
                true => None,
                false => wait_of(&after.said()[0]),
            };
            // Exactly then the next one passes, whether the key has just been forgotten or not.
            if let Some(wait) = wait {
                tokio::time::sleep(wait).await; // tidy: sleep, the server's own clock has to go on
                assert!(decide(&store, &[one(name, "key", &limit)]).await.unwrap(), "{name} after {wait:?}");
            }
        }
    }
    let long_ago = |key: &String| server.ask::<i64>(&["PTTL", key]) != -1;
    let keys = server.ask::<Vec<String>>(&["KEYS", "rl:1[^:]*"]);
    assert!(keys.iter().all(long_ago), "{keys:?} lack a time to live");
}

/// How long a denied request waits, from what is said of it.
fn wait_of(said: &str) -> Option<Duration> {
    let after = said.split("Some(Nanos(").nth(1)?;
    Some(Duration::from_nanos(after.split(')').next()?.parse().ok()?))
}

/// What the guide says of a key's memory: the algorithm, the bytes of a key, and those of each request beside.
fn stated() -> Vec<(String, u64, u64)> {
    let mut rows = Vec::new();
    let guide = guide();
    let table = guide.split("| Memory of a key in bytes |").nth(1).unwrap();
    for line in table.lines().skip(2).take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let (key, request) = cells[2].split_once(" and ").unwrap_or((cells[2], "0"));
        let request = request.split(' ').next().unwrap();
        rows.push((cells[1].replace('`', ""), key.parse().unwrap(), request.parse().unwrap()));
    }
    rows
}

/// The server counts the name, the value, and all that it keeps beside them for a key that ends.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_takes_as_much_memory_as_the_guide_says() {
    let stated = stated();
    assert_eq!(stated.len(), Algorithm::ALL.len());
    let mut wrong = Vec::new();
    for engine in Engine::ALL {
        let server = Server::start(engine);
        let store = store(Direct::to(&server).await, LONG);
        for (name, key, request) in &stated {
            let algorithm = Algorithm::ALL.into_iter().find(|algorithm| algorithm.name() == name).unwrap();
            let limit = limit(algorithm, 1_000, WEEK);
            let client = "198.51.100.7";
            decide(&store, &[one("edge_client", client, &limit)]).await.unwrap();
            let keys = server.ask::<Vec<String>>(&["KEYS", &format!("*{client}")]);
            let used = || server.ask::<u64>(&["MEMORY", "USAGE", &keys[0], "SAMPLES", "0"]);
            let first = used();
            let ask = Ask { cost: 999, ..one("edge_client", client, &limit) };
            decide(&store, &[ask]).await.unwrap();
            let thousand = used();
            let (length, least) = (keys[0].len(), key / 2);
            if !(least..=*key).contains(&first) || thousand > key + request * 999 {
                wrong.push(format!("{engine}, {name}: {first}, and {thousand} of 1,000; a name of {length}"));
            }
            server.command(&["DEL", &keys[0]]);
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_may_have_more_keys_than_lua_unpacks() {
    let server = Server::start(Engine::Redis);
    let store = store(Direct::to(&server).await, LONG);
    let (hour, log) = (Duration::from_secs(3_600), limit(Algorithm::SlidingWindowLog, 9_500, WEEK));
    let window = limit(Algorithm::FixedWindow, 2, hour * 24 * 365);
    // Lua's stack has room for 8,000.
    let keys: Vec<String> = (0..9_000).map(|key| key.to_string()).collect();
    let mut asks: Vec<_> = keys.iter().map(|key| one("window", key, &window)).collect();
    asks.push(Ask { cost: 9_400, ..one("log", "key", &log) });
    assert!(admits(&store, &asks).await.unwrap());
    assert!(!admits(&store, &asks).await.unwrap(), "the log has no room");
    asks.pop();
    assert!(admits(&store, &asks).await.unwrap(), "and what it denied has charged none");
    assert!(!admits(&store, &asks).await.unwrap());
}
