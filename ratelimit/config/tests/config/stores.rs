//! `application.store.redis`, and what is done about it.

use std::num::NonZeroU32;

use ratelimit_limiter::Nanos;
use ratelimit_policy::application::{Login, OnStoreError, RedisAddress, RedisSettings, RedisTls, Topology};

use super::{File, assert_errors, file, policy, shown};

fn section(lines: &[&str]) -> String {
    let lines: String = lines.iter().map(|line| format!("  {line}\n")).collect();
    format!("application:\n{lines}")
}

fn redis(text: &str) -> RedisSettings {
    let store = format!("store: {{redis: {{{text}}}}}");
    policy(&section(&[&store])).application.unwrap().redis.unwrap()
}

fn tcp(host: &str, port: u16, tls: bool, database: u32) -> RedisAddress {
    RedisAddress::Tcp { host: host.to_owned(), port, tls, database }
}

#[test]
fn a_place_is_enough() {
    let settings = redis("url: \"redis://127.0.0.1\"");
    assert_eq!(settings, RedisSettings::new(tcp("127.0.0.1", 6_379, false, 0)));
    assert_eq!((settings.shards, settings.timeout, &*settings.prefix), (64, Nanos(50_000_000), "rl"));
    let settings = redis("url: \"unix:/run/redis.sock\"");
    assert_eq!(settings.addresses, [RedisAddress::Unix("/run/redis.sock".into())]);
}

#[test]
fn every_setting() {
    let file = file(section(&[
        "store:",
        "  redis:",
        "    url: [\"rediss://a:1\", \"rediss://[::1]\"]",
        "    sentinel: mymaster",
        "    username: u",
        "    password_file: p",
        "    sentinel_username: su",
        "    sentinel_password_file: /sp",
        "    tls: {ca: ca.pem, cert: c.pem, key: k.pem}",
        "    prefix: edge",
        "    shards: 8",
        "    timeout: 20ms",
        "    local_share: 3",
        "on_store_error: local",
        "consistency: strict",
    ]));
    let directory = file.path.parent().unwrap();
    let application = ratelimit_config::load(&file.path).unwrap().application.unwrap();
    let login = |name: &str, file: &str| Login {
        username: Some(name.to_owned()),
        password_file: Some(directory.join(file)),
    };
    let expected = RedisSettings {
        addresses: vec![tcp("a", 1, true, 0), tcp("::1", 26_379, true, 0)],
        topology: Topology::Sentinel("mymaster".to_owned()),
        login: login("u", "p"),
        sentinel_login: login("su", "/sp"),
        tls: RedisTls {
            ca: Some(directory.join("ca.pem")),
            identity: Some((directory.join("c.pem"), directory.join("k.pem"))),
        },
        prefix: "edge".to_owned(),
        shards: 8,
        timeout: Nanos(20_000_000),
        local_share: NonZeroU32::new(3).unwrap(),
    };
    assert_eq!(application.redis, Some(expected));
    let service = application.service_policy();
    assert_eq!((service.on_store_error, service.local_share.get()), (OnStoreError::Local, 3));
}

#[test]
fn a_cluster_has_several_places() {
    let settings = redis("url: [\"redis://a:1\", \"redis://b:2\"], cluster: true");
    assert_eq!((settings.topology, settings.addresses.len()), (Topology::Cluster, 2));
}

#[test]
fn mistakes_of_the_store() {
    let cases = [
        ("redis", "2:10 application.store: needs its address; write `store: {redis:"),
        ("{redis: {}}", "2:18 application.store.redis.url: missing; add `url: redis://127.0.0.1:6379`"),
        ("{redis: {ulr: x}}", "2:19 application.store.redis.ulr: unknown key `ulr`, did you mean `url`?"),
        (
            "{redis: {url: \"a:1\"}}",
            "2:24 application.store.redis.url: is not the address of a store; write redis:",
        ),
        (
            "{redis: {url: \"redis://u:secret@a\"}}",
            "2:24 application.store.redis.url: must not have a password or a user: write `username`",
        ),
        (
            "{redis: {url: [\"redis://a\", \"redis://b\"]}}",
            "2:38 application.store.redis.url[1]: several addresses are for `cluster: true` or `sentinel: NAME`",
        ),
        (
            "{redis: {url: [\"redis://a\", \"redis://a:6379\"], cluster: true}}",
            "2:38 application.store.redis.url[1]: `redis://a:6379` is there twice",
        ),
        (
            "{redis: {url: [\"redis://a\", \"rediss://b\"], cluster: true}}",
            "2:38 application.store.redis.url[1]: all addresses have to be `redis://`, or all `rediss://`",
        ),
        (
            "{redis: {url: \"redis://a/1\", cluster: true}}",
            "2:24 application.store.redis.url: a cluster has one database only",
        ),
        (
            "{redis: {url: \"unix:/a\", cluster: true}}",
            "2:24 application.store.redis.url: a cluster or a sentinel is not reached by a Unix socket",
        ),
        (
            "{redis: {url: \"redis://a\", cluster: true, sentinel: m}}",
            "2:62 application.store.redis.sentinel: a cluster has no sentinels",
        ),
        (
            "{redis: {url: \"redis://a\", sentinel_username: u}}",
            "2:56 application.store.redis.sentinel_username: is for sentinels; add `sentinel: NAME`",
        ),
        (
            "{redis: {url: \"redis://a\", tls: {ca: c}}}",
            "2:42 application.store.redis.tls: TLS is only for addresses that begin with `rediss://`",
        ),
        (
            "{redis: {url: \"rediss://a\", tls: {cert: c}}}",
            "2:43 application.store.redis.tls: a certificate goes with its key",
        ),
        (
            "{redis: {url: \"redis://a\", prefix: \"{a}\"}}",
            "2:45 application.store.redis.prefix: must be 1 to 32 letters",
        ),
        (
            "{redis: {url: \"redis://a\", shards: 0}}",
            "2:45 application.store.redis.shards: `0` is not a number from 1 to 1024",
        ),
        (
            "{redis: {url: \"redis://a\", timeout: 11s}}",
            "2:46 application.store.redis.timeout: `11s` is not a time from 1ms to 10s, such as 50ms",
        ),
        (
            "{redis: {url: \"redis://a\", timeout: 0ms}}",
            "2:46 application.store.redis.timeout: `0ms` is not a time from 1ms to 10s",
        ),
        (
            "{redis: {url: \"redis://a\", local_share: 0}}",
            "2:50 application.store.redis.local_share: `0` is not a number from 1 to 10000",
        ),
        (
            "{redis: {url: \"redis://a\", username: \"a b\"}}",
            "2:47 application.store.redis.username: must be the name of a user of the store's ACL",
        ),
    ];
    for (text, expected) in cases {
        assert_errors(section(&[&format!("store: {text}")]), &[expected]);
    }
}

#[test]
fn ways_to_come_are_refused_by_name() {
    for word in ["lease", "eventual"] {
        let expected =
            format!("2:16 application.consistency: `{word}` is to come in a later version; write `strict`");
        assert_errors(section(&[&format!("consistency: {word}")]), &[&expected]);
    }
    let expected = "2:16 application.consistency: `strickt` is not known, did you mean `strict`?";
    assert_errors(section(&["consistency: strickt"]), &[expected]);
}

/// A configuration beside files of rules.
fn with_rules(settings: &str, files: &[&str]) -> File {
    let file = file(format!("application:\n  rules: [rules*.yaml]\n{settings}"));
    for (index, content) in files.iter().enumerate() {
        std::fs::write(file.path.parent().unwrap().join(format!("rules{index}.yaml")), content).unwrap();
    }
    file
}

#[test]
fn a_domain_says_for_itself_what_is_done() {
    let file = with_rules("", &["domain: a\non_store_error: deny\nconsistency: strict\n", "domain: b\n"]);
    let rules = ratelimit_config::load(&file.path).unwrap().application.unwrap().rules;
    let said: Vec<_> = rules.domains().iter().map(|domain| domain.on_store_error).collect();
    assert_eq!(said, [Some(OnStoreError::Deny), None]);

    let file = with_rules("", &["domain: a\non_store_error: maybe\nconsistency: lease\n"]);
    let errors = ratelimit_config::load(&file.path).unwrap_err().to_string();
    assert!(
        errors.contains("on_store_error: `maybe` is not known; accepted: allow, deny, local"),
        "{errors}"
    );
    assert!(errors.contains("consistency: `lease` is to come in a later version"), "{errors}");
}

#[test]
fn files_about_one_domain_must_not_contradict_each_other() {
    let files = ["domain: a\non_store_error: deny\n", "domain: a\non_store_error: local\n"];
    let file = with_rules("  merge_domains: true\n", &files);
    let errors = ratelimit_config::load(&file.path).unwrap_err().to_string();
    assert!(errors.contains("another file about this domain has a different `on_store_error`"), "{errors}");
    let file = with_rules("  merge_domains: true\n", &["domain: a\non_store_error: deny\n", "domain: a\n"]);
    let rules = ratelimit_config::load(&file.path).unwrap().application.unwrap().rules;
    assert_eq!(rules.domains()[0].on_store_error, Some(OnStoreError::Deny));
}

#[test]
fn the_example_of_several_daemons_is_one() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/several-daemons.yaml");
    let checked = ratelimit_config::check(&path).unwrap();
    assert!(checked.warnings.is_empty(), "{:?}", checked.warnings.iter().map(shown).collect::<Vec<_>>());
    assert!(checked.policy.application.unwrap().redis.is_some());
}
