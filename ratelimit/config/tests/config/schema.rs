//! The schemas that editors take: as committed, they are what the table of keys says; a validator accepts with them
//! what the reader accepts, and refuses what can be told from shapes and words.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use jsonschema::Validator;
use ratelimit_config::{
    keys::{self, ConfigKey, LeftOut, ValueKind},
    schema,
};
use serde_json::Value;

use super::{check, reference, rule_files};

/// How the files are renewed after a change of the keys.
const RENEW: &str = "RENEW=1 cargo test -p ratelimit-config --test config schema";

fn examples() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../config")
}

fn value(yaml: &str) -> Value {
    serde_yaml::from_str(yaml).unwrap_or_else(|error| panic!("{error}\n{yaml}"))
}

fn validator(schema: &Value) -> Validator {
    jsonschema::draft7::new(schema).unwrap()
}

/// What a validator says of a file in YAML.
fn mistakes(validator: &Validator, yaml: &str) -> Vec<String> {
    let value = value(yaml);
    let errors = validator.iter_errors(&value);
    errors.map(|error| format!("{}: {error}", error.instance_path)).collect()
}

fn assert_good(validator: &Validator, yaml: &str, what: &str) {
    assert_eq!(mistakes(validator, yaml), [] as [&str; 0], "{what}:\n{yaml}");
}

#[test]
fn committed_schemas_are_what_the_table_of_keys_says() {
    for (name, schema) in
        [("ratelimit.schema.json", schema::configuration()), ("rules.schema.json", schema::rule_file())]
    {
        let path = examples().join(name);
        if env::var_os("RENEW").is_some() {
            fs::write(&path, format!("{schema:#}\n")).unwrap();
            continue;
        }
        let committed: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        assert!(committed == schema, "{name} is not what the keys say; renew it with `{RENEW}`");
    }
}

/// The files below a directory.
fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn all_example_files_are_valid() {
    let (configuration, rule_file) = (validator(&schema::configuration()), validator(&schema::rule_file()));
    let mut count = (0, 0);
    for path in files(&examples()) {
        let text = fs::read_to_string(&path).unwrap();
        // Those of other programs have other keys at the top.
        let has = |key: &str| text.lines().any(|line| line.starts_with(&format!("{key}:")));
        if path.extension().is_none_or(|extension| extension != "yaml") {
        } else if has("domain") && has("descriptors") {
            assert_good(&rule_file, &text, &path.display().to_string());
            count.1 += 1;
        } else if has("network") || has("application") {
            assert_good(&configuration, &text, &path.display().to_string());
            count.0 += 1;
        }
    }
    assert!(count.0 >= 4 && count.1 >= 2, "{count:?}");
}

#[test]
fn every_example_of_a_key_is_valid() {
    let configuration = validator(&schema::configuration());
    keys::all().for_each(|key| assert_good(&configuration, &reference::file(key, key.example), key.path));
    let rule_file = validator(&schema::rule_file());
    keys::of_rule_files()
        .for_each(|key| assert_good(&rule_file, &rule_files::with(key, key.example), key.path));
}

#[test]
fn defaults_words_and_the_ends_of_ranges_are_valid() {
    let configuration = validator(&schema::configuration());
    let accept = |key: &ConfigKey, text: &str| {
        let yaml = reference::with(key.path, Some(text));
        // The reader has to accept what a schema is to accept.
        assert!(check(&yaml).is_ok(), "{yaml}");
        assert_good(&configuration, &yaml, key.path);
    };
    for key in keys::all() {
        match key.default {
            LeftOut::Is(text) => ["", "\"", "'"].iter().for_each(|q| accept(key, &format!("{q}{text}{q}"))),
            LeftOut::IsNumber(number) => accept(key, &number.to_string()),
            LeftOut::Required | LeftOut::Said(_) => {}
        }
        if let ValueKind::Number(range) = key.kind {
            [range.least, range.most].iter().for_each(|number| {
                accept(key, &number.to_string());
                accept(key, &format!("'{number}'"));
            });
        }
    }
}

#[test]
fn what_the_words_of_a_key_rule_out_is_refused() {
    let configuration = validator(&schema::configuration());
    let refuse = |key: &ConfigKey, text: &str| {
        let yaml = reference::with(key.path, Some(text));
        assert!(check(&yaml).is_err(), "{yaml}");
        assert!(!mistakes(&configuration, &yaml).is_empty(), "{yaml}");
    };
    let mut count = 0;
    for key in keys::all() {
        if let ValueKind::Number(range) = key.kind {
            refuse(key, &(range.most + 1).to_string());
            refuse(key, "many");
            count += 1;
        }
        let kind = key.kind.to_string();
        if kind == "`true` or `false`" {
            refuse(key, "maybe");
            refuse(key, "[true]");
            count += 1;
        }
        if kind == "mapping" {
            refuse(key, "word");
            refuse(key, "{xyzzy: 1}");
            count += 1;
        }
        if key.default == LeftOut::Required {
            let yaml = reference::with(key.path, None);
            assert!(!mistakes(&configuration, &yaml).is_empty(), "{yaml}");
            count += 1;
        }
    }
    assert!(count > 20, "{count}");
}

#[test]
fn wrong_configurations_are_refused() {
    let configuration = validator(&schema::configuration());
    for (wrong, at) in [
        ("xyzzy: 1", ""),
        ("network: {ruls: []}", "/network"),
        ("network: {rules: {name: a, rate: 1/s}}", "/network/rules"),
        ("network: {rules: [{name: a}]}", "/network/rules/0"),
        ("network: {rules: [{name: a, rate: 10k}]}", "/network/rules/0/rate"),
        ("network: {rules: [{name: a, rate: 10/month}]}", "/network/rules/0/rate"),
        ("network: {rules: [{name: a, rate: 10MB/s, burst: large}]}", "/network/rules/0/burst"),
        ("network: {rules: [{name: a, rate: 1/s, action: reject}]}", "/network/rules/0/action"),
        ("network: {rules: [{name: a, rate: 1/s, key: {source: {ipv5: 1}}}]}", "/network/rules/0/key"),
        ("network: {rules: [{name: a, rate: 1/s, key: {destination: {ipv5: 1}}}]}", "/network/rules/0/key"),
        ("network: {rules: [{name: a, rate: 1/s, match: {port: 80}}]}", "/network/rules/0/match"),
        (
            "network: {rules: [{name: a, rate: 1/s, match: {tcp_flags: [sin]}}]}",
            "/network/rules/0/match/tcp_flags",
        ),
        ("network: {deny: [{path: a.txt}]}", "/network/deny"),
        ("network: {on_exit: stop}", "/network/on_exit"),
        ("metrics: {}", "/metrics"),
        ("application: {listen: {http: {address: 'a:1', tls: {cert: c}}}}", "/application/listen/http"),
    ] {
        assert!(check(wrong).is_err(), "{wrong}");
        let found = mistakes(&configuration, wrong);
        assert!(found.iter().any(|mistake| mistake.starts_with(&format!("{at}: "))), "{wrong}: {found:#?}");
    }
}

#[test]
fn wrong_files_of_rules_are_refused() {
    let rule_file = validator(&schema::rule_file());
    let below = "/descriptors/0/descriptors/0";
    for (wrong, at) in [
        ("descriptors: []".to_owned(), String::new()),
        (
            "{domain: d, descriptors: [{rate_limit: {unit: day, requests_per_unit: 5}}]}".to_owned(),
            "/descriptors/0".to_owned(),
        ),
        (
            "{domain: d, descriptors: [{key: a, descriptors: [{key: b, rate_limit: {unit: decade}}]}]}"
                .to_owned(),
            format!("{below}/rate_limit/unit"),
        ),
        (
            "{domain: d, descriptors: [{key: a, descriptors: [{key: b, limit: {}}]}]}".to_owned(),
            below.to_owned(),
        ),
        (
            "{domain: d, descriptors: [{key: a, descriptors: [{key: b, rate_limit: {per: soon}}]}]}"
                .to_owned(),
            format!("{below}/rate_limit/per"),
        ),
    ] {
        let found = mistakes(&rule_file, &wrong);
        assert!(found.iter().any(|mistake| mistake.starts_with(&format!("{at}: "))), "{wrong}: {found:#?}");
    }
}
