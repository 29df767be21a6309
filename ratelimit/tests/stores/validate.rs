//! `ratelimit validate --connect`: what it says of stores, as text and as JSON, and how it ends.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use ratelimit_redis_testing::{Cluster, Engine, Sentinels, Server, Setup};
use serde_json::Value;
use tempfile::TempDir;

/// A configuration with this store.
fn configuration(directory: &TempDir, store: &str) -> PathBuf {
    let rules = "domain: d\ndescriptors:\n  - key: a\n    rate_limit: {unit: week, requests_per_unit: 1}\n";
    fs::write(directory.path().join("rules.yaml"), rules).unwrap();
    let file = directory.path().join("ratelimit.yaml");
    let text = format!(
        "control: control.sock\napplication:\n  rules: [rules.yaml]\n  store: {store}\n  listen: {{http: '127.0.0.1:0'}}\n"
    );
    fs::write(&file, text).unwrap();
    file
}

/// The exit status, and both outputs.
fn validate(file: &Path, output: &str) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ratelimit"));
    command.args(["validate", "--connect", "--output", output]).arg(file).stdin(Stdio::null());
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// What JSON says of the one store, and how the program ended; text says the same and ends so, too.
fn tried(file: &Path) -> (Option<i32>, Value) {
    let (status, out, err) = validate(file, "json");
    assert_eq!(err, "");
    let mut answer: Value = serde_json::from_str(&out).unwrap();
    let store = answer["stores"][0].take();
    assert_eq!(store["file"], file.to_str().unwrap(), "{out}");
    let (as_text, out, err) = validate(file, "text");
    assert_eq!(as_text, status, "{out}{err}");
    for (key, said) in [("servers", &out), ("warnings", &err), ("errors", &err)] {
        for line in store[key].as_array().unwrap() {
            let line = line.as_str().unwrap();
            // Clocks go on.
            let line = line.split_once("its clock").map_or(line, |(before, _)| before);
            assert!(said.contains(line), "{key}: {line}\n{said}");
        }
    }
    (status, store)
}

fn only<'v>(store: &'v Value, key: &str) -> &'v str {
    let all = store[key].as_array().unwrap();
    assert_eq!(all.len(), 1, "{store}");
    all[0].as_str().unwrap()
}

#[test]
fn a_store_that_can_be_used_is_described_and_warned_of() {
    let directory = tempfile::tempdir().unwrap();
    for engine in Engine::ALL {
        let server = Setup::new(engine).max_memory(64 << 20, "volatile-ttl").start();
        let file = configuration(&directory, &format!("{{redis: {{url: '{}'}}}}", server.url()));
        let (status, store) = tried(&file);
        assert_eq!(
            (status, &store["errors"], &store["warnings"]),
            (Some(0), &Value::from([""; 0]), &Value::from([""; 0]))
        );
        assert_describes(only(&store, "servers"), &server, "alone");
        server.command(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
        let (status, store) = tried(&file);
        assert_eq!(status, Some(0));
        assert!(only(&store, "warnings").contains("refuses requests when its memory is full"), "{store}");
        assert_eq!(server.keys(), 0, "nothing is left in it");
    }
    let (status, store) = tried(&configuration(&directory, "memory"));
    assert_eq!(
        (status, only(&store, "servers")),
        (Some(0), "counts are kept in memory: there is nothing to connect to")
    );
}

/// Whether a line says all of a master with 64 MiB.
fn assert_describes(said: &str, server: &Server, part: &str) {
    let engine = server.engine().to_string().to_lowercase();
    let (url, version) = (server.url(), server.info(&format!("{engine}_version")));
    let expected =
        format!("{url}: {engine} {version}, master, {part}; 64 MiB, `volatile-ttl`; its clock is 0.");
    assert!(said.starts_with(&expected) && said.ends_with(" this machine's"), "{said}\n{expected}");
}

#[test]
fn each_master_of_several_servers_is_described() {
    let directory = tempfile::tempdir().unwrap();
    let limited = |setup: Setup| setup.max_memory(64 << 20, "volatile-ttl");
    let cluster = Cluster::set_up(Engine::Valkey, limited);
    let file =
        configuration(&directory, &format!("{{redis: {{url: '{}', cluster: true}}}}", cluster.urls()[2]));
    let (status, store) = tried(&file);
    let lines: Vec<&str> = store["servers"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!((status, lines.len()), (Some(0), 3), "{store}");
    for node in cluster.nodes() {
        let line = lines.iter().find(|line| line.starts_with(&node.url())).unwrap();
        assert_describes(line, node, "in a cluster");
    }
    let all = Sentinels::set_up(Engine::Redis, 1, limited, |setup| setup);
    let (name, urls) = (all.name(), all.urls());
    let file = configuration(&directory, &format!("{{redis: {{url: '{}', sentinel: {name}}}}}", urls[0]));
    let (status, store) = tried(&file);
    assert_eq!(status, Some(0), "{store}");
    assert_describes(only(&store, "servers"), &all.servers()[0], &format!("`{name}` of the sentinels"));
}

#[test]
fn a_store_that_can_not_be_used_is_a_failure_that_says_why() {
    let directory = tempfile::tempdir().unwrap();
    let fails = |store: String, part: &str| {
        let (status, store) = tried(&configuration(&directory, &store));
        assert_eq!(status, Some(1), "{store}");
        let error = only(&store, "errors");
        assert!(error.contains(part), "{error}");
    };
    let server =
        Setup::new(Engine::Redis).password("right").user("few", "right", "~rl:* +evalsha +eval").start();
    let password = |text: &str| {
        fs::write(directory.path().join("password"), text).unwrap();
        format!("password_file: {}", directory.path().join("password").display())
    };
    let with = |more: &str| format!("{{redis: {{url: '{}', {more}}}}}", server.url());
    fails(with("timeout: 1s"), "the store can't be used: redis://");
    fails(with(&password("wrong")), "WRONGPASS");
    fails(
        with(&format!("username: few, {}", password("right"))),
        "the store's user may not do all that is needed: grant +",
    );
    fs::remove_file(directory.path().join("password")).unwrap();
    fails(with("password_file: password"), "can't be read");

    let mut master = Server::start(Engine::Valkey);
    let replica = Setup::new(Engine::Valkey).replica_of(&master).start();
    replica.wait_for_sync();
    fails(
        format!("{{redis: {{url: '{}'}}}}", replica.url()),
        "is a read-only replica: write its master's address",
    );
    master.kill();
    fails(format!("{{redis: {{url: '{}'}}}}", master.url()), "refused");
    let cluster = Cluster::start(Engine::Valkey);
    fails(
        format!("{{redis: {{url: '{}'}}}}", cluster.urls()[0]),
        "is a node of a cluster: write `cluster: true`",
    );
}

/// Neither fault hides the other.
#[test]
fn a_file_that_is_wrong_is_not_tried() {
    let directory = tempfile::tempdir().unwrap();
    let file = configuration(&directory, "{redis: {url: 'redis://127.0.0.1:1', shards: 0}}");
    let (status, out, _) = validate(&file, "json");
    let answer: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (status, answer["stores"].as_array().map(Vec::len).unwrap_or_default()),
        (Some(2), 0),
        "{out}"
    );
}
