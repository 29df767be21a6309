//! Configuration files from the outside: what is accepted, and for each mistake its line, column and field.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

mod application;
mod bans;
mod except;
mod hostile;
mod keys;
mod lists;
mod matches;
mod mistakes;
mod named;
mod proxy;
mod reference;
mod request_bans;
mod rule_files;
mod schema;
mod sizes;
mod stores;

use std::{
    fs,
    path::{Path, PathBuf},
};

use ratelimit_config::{self as config, Checked, ConfigError, ConfigErrors};
use ratelimit_policy::{Action, AttachMode, OnExit, PacketKey, Policy};
use tempfile::TempDir;

/// What `domains/edge.yaml` beside each file says.
const RULES: &str =
    "domain: edge\ndescriptors: [{key: client, rate_limit: {unit: minute, requests_per_unit: 5}}]\n";

/// A file in a directory of its own.
struct File {
    path: PathBuf,
    _directory: TempDir,
}

/// The YAML in README.md, CONFIGURATION.md and `docs` that has such a key at its top, with the name of its document.
fn blocks_of_documents(key: &str) -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let guides = fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let paths = guides.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    let paths = paths.chain(["README.md", "CONFIGURATION.md"].map(|name| root.join(name)));
    let mut found = Vec::new();
    for path in paths {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let document = fs::read_to_string(&path).unwrap();
        let blocks = document.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
        let blocks = blocks.filter(|block| block.lines().any(|line| line.starts_with(key)));
        found.extend(blocks.map(|block| (name.clone(), block.to_owned())));
    }
    found
}

fn file(content: impl AsRef<[u8]>) -> File {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("c.yaml");
    fs::write(&path, content).unwrap();
    let domains = directory.path().join("domains");
    fs::create_dir(&domains).unwrap();
    fs::write(domains.join("edge.yaml"), RULES).unwrap();
    // As an example in docs/lists-and-bans.md names them.
    for list in ["partners.txt", "blocked.txt"] {
        fs::write(directory.path().join(list), "198.51.100.0/24\n").unwrap();
    }
    fs::write(directory.path().join("busy.html"), "<p>Busy</p>").unwrap();
    fs::write(directory.path().join("networks.txt"), "# two\n192.0.2.0/24 # one\n\n 2001:db8::1\r\n")
        .unwrap();
    File { path, _directory: directory }
}

fn check(content: impl AsRef<[u8]>) -> Result<Checked, ConfigErrors> {
    config::check(&file(content).path)
}

fn policy(content: &str) -> Policy {
    check(content).unwrap_or_else(|errors| panic!("{content}\n{errors}")).policy
}

fn errors(content: impl AsRef<[u8]>) -> Vec<ConfigError> {
    check(content).unwrap_err().into_iter().collect()
}

/// `LINE:COLUMN FIELD: MESSAGE`
fn shown(error: &ConfigError) -> String {
    format!("{}:{} {}: {}", error.line, error.column, error.field, error.message)
}

/// The errors are exactly these; each is given by how it begins.
fn assert_errors(content: impl AsRef<[u8]>, expected: &[&str]) {
    let found: Vec<String> = errors(content).iter().map(shown).collect();
    let all_begin = found.iter().zip(expected).all(|(found, expected)| found.starts_with(expected));
    assert!(found.len() == expected.len() && all_begin, "expected {expected:#?}\nfound {found:#?}");
}

/// The error of a file with one mistake: `LINE:COLUMN FIELD: MESSAGE`, its field below `parent`, as far as given.
fn assert_error(content: String, parent: &str, expected: &str) {
    let (position, rest) = expected.split_once(' ').unwrap();
    assert_errors(content, &[&format!("{position} {parent}{rest}")]);
}

/// A file with one rule that has `lines` beside its name and rate; they begin on line 5.
fn rule(lines: &[&str]) -> String {
    let lines: String = lines.iter().map(|line| format!("      {line}\n")).collect();
    format!("network:\n  rules:\n    - name: a\n      rate: 100/s\n{lines}")
}

/// A file with one rule and with `lines` under `network`; they begin on line 4.
fn network(lines: &[&str]) -> String {
    let lines: String = lines.iter().map(|line| format!("  {line}\n")).collect();
    format!("network:\n  rules:\n    - {{name: a, rate: 100/s}}\n{lines}")
}

const EVERY_KEY: &str = r#"
instance: edge-1
control: run/edge.sock
network:
  interfaces: [eth0, {name: eth1, mode: native}, {name: eth2}]
  allow: [10.0.0.0/8, fe80::/10, 10.1.0.0/16, "::1"]
  table_size: 100000
  on_exit: keep
  rules:
    - {name: one, rate: 10k/s, burst: 20k}
    - {name: "two", key: source, algorithm: leaky_bucket, rate: 1/s, action: observe}
    - {name: 3, key: {source: {ipv4: 24}}, algorithm: fixed_window, rate: 256/15m, count_denied: true}
    - {name: four, key: {source: {ipv6: 56}}, algorithm: sliding_window_counter, rate: 200/s, action: drop}
    - {name: five, key: {source: {}}, algorithm: token_bucket, rate: 4/m, burst: 4, refill: interval}
"#;

#[test]
fn every_supported_key() {
    let policy = policy(EVERY_KEY);
    assert_eq!(policy.instance.as_str(), "edge-1");
    let network = policy.network.unwrap();
    let interfaces: Vec<_> = network.interfaces.iter().map(|i| (i.name.as_str(), i.mode)).collect();
    assert_eq!(
        interfaces,
        [("eth0", AttachMode::Auto), ("eth1", AttachMode::Native), ("eth2", AttachMode::Auto)]
    );
    let allow: Vec<String> = network.allow.iter().map(ToString::to_string).collect();
    assert_eq!(allow, ["10.0.0.0/8", "::1/128", "fe80::/10"]);
    assert_eq!((network.table.slots(), network.on_exit), (131_072, OnExit::Keep));
}

#[test]
fn every_supported_key_of_a_rule() {
    let rules: Vec<String> = policy(EVERY_KEY)
        .network
        .unwrap()
        .rules
        .iter()
        .map(|rule| {
            let limit = config::limit::format_packet_limit(&rule.limit);
            let observe = if rule.action == Action::Observe { " observe" } else { "" };
            format!("{} {} {limit}{observe}", rule.name, rule.key)
        })
        .collect();
    assert_eq!(
        rules,
        [
            "one source v4/32 v6/64 token_bucket,rate=10000/s,burst=20000",
            "two source v4/32 v6/64 leaky_bucket,rate=1/s observe",
            "3 source v4/24 v6/64 fixed_window,rate=256/15m,count_denied=true",
            "four source v4/32 v6/56 sliding_window_counter,rate=200/s",
            "five source v4/32 v6/64 token_bucket,rate=4/m,burst=4,refill=interval",
        ]
    );
}

#[test]
fn what_is_left_out_has_its_default() {
    let policy = policy("network: {rules: [{name: a, rate: 1/s}]}");
    assert_eq!((policy.instance.as_str(), policy.control), ("default", None));
    let network = policy.network.unwrap();
    assert!(network.interfaces.is_empty() && network.allow.is_empty());
    assert_eq!((network.table.slots(), network.on_exit), (1 << 20, OnExit::Detach));
    let rule = network.rules.first().unwrap();
    assert_eq!((&rule.key, rule.action), (&PacketKey::default(), Action::Drop));
}

#[test]
fn metrics_listen_at_an_address() {
    for address in ["127.0.0.1:9102", "[::1]:9102", "0.0.0.0:65535"] {
        let policy = policy(&format!("metrics: {{listen: \"{address}\"}}\nnetwork: {{}}\n"));
        assert_eq!(policy.metrics.map(|metrics| metrics.to_string()).as_deref(), Some(address));
    }
    assert_eq!(policy("network: {}\n").metrics, None);
}

#[test]
fn paths_are_relative_to_the_file() {
    let file = file("control: run/a.sock\nnetwork: {}\n");
    let expected = file.path.parent().unwrap().join("run/a.sock");
    assert_eq!(config::load(&file.path).unwrap().control, Some(expected));
    assert_eq!(policy("control: /run/a.sock\nnetwork: {}\n").control, Some(PathBuf::from("/run/a.sock")));
}

#[test]
fn the_examples_are_good() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config");
    let mut count = 0;
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            let checked = config::check(&path).unwrap_or_else(|errors| panic!("{errors}"));
            assert_eq!(checked.warnings, [], "{}", path.display());
            count += 1;
        }
    }
    assert!(count > 0);
}

#[test]
fn anchors_and_merge_keys_share_settings() {
    let rules = "- &base {name: a, rate: 1/s, burst: 5}\n    - {<<: *base, name: b}";
    let network = policy(&format!("network:\n  rules:\n    {rules}\n")).network.unwrap();
    let bursts: Vec<_> = network.rules.iter().map(|rule| rule.limit.spec().burst.map(u64::from)).collect();
    assert_eq!(bursts, [Some(5), Some(5)]);
}

#[test]
fn a_byte_order_mark_and_windows_line_ends_do_no_harm() {
    policy("\u{feff}network:\r\n  rules:\r\n    - name: a\r\n      rate: 1/s\r\n");
    let content = "network:\r\n  rules:\r\n    - name: a\r\n      rate: 0/s\r\n";
    assert_errors(content, &["4:13 network.rules[0].rate: a rate of 0"]);
}

#[test]
fn what_may_not_be_meant_is_a_warning() {
    let week = "network:\n  rules:\n    - {name: a, algorithm: fixed_window, rate: 5/w}";
    let cases = [
        ("network: {}\n", "1:10 network: no rules"),
        (
            "network: {allow: [0.0.0.0/0], rules: [{name: a, rate: 1/s}]}",
            "1:19 network.allow[0]: allows every source",
        ),
        (week, "3:7 network.rules[0]: one packet keeps a bucket for so long"),
    ];
    let one_bucket = week.replace("rate", "key: global, rate");
    assert_eq!(check(one_bucket).unwrap().warnings, []);
    for (content, expected) in cases {
        let warnings: Vec<String> = check(content).unwrap().warnings.iter().map(shown).collect();
        assert!(
            warnings.len() == 1 && warnings.iter().all(|w| w.starts_with(expected)),
            "{content}: {warnings:?}"
        );
    }
}

#[test]
fn the_remedy_for_a_slow_rule_is_one_that_it_has_not_taken() {
    let cases = [
        (&[][..], "or a higher rate"),
        (&["algorithm: leaky_bucket"], "or a higher rate"),
        (&["refill: interval"], "or a shorter time or `refill: continuous`"),
        (&["algorithm: fixed_window"], "or a shorter time or token_bucket"),
    ];
    for (lines, expected) in cases {
        let warnings = check(rule(lines).replace("100/s", "1/w")).unwrap().warnings;
        assert!(warnings.iter().any(|warning| warning.message.ends_with(expected)), "{warnings:?}");
    }
}
