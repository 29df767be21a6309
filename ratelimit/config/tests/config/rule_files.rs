//! The keys of files of rules on requests: the reference says what the reader does.

use std::{fs, path::Path};

use ratelimit_config::{
    check_rules,
    keys::{self, ConfigKey, LeftOut},
};
use ratelimit_policy::application::RuleSet;

use super::{assert_errors, check, file};

fn read(content: &str) -> Result<RuleSet, String> {
    let file = file(content);
    // Examples name it.
    fs::write(file.path.with_file_name("office.txt"), "192.0.2.0/24\n").unwrap();
    let checked = check_rules(std::slice::from_ref(&file.path), false);
    checked.map(|checked| checked.rules).map_err(|errors| errors.to_string())
}

/// A file in which `content`, as lines, stands where `key` does.
pub(super) fn with(key: &ConfigKey, content: &str) -> String {
    let Some(_) = key.path.strip_prefix("descriptors[].") else {
        return if key.path == "domain" { content.to_owned() } else { format!("domain: d\n{content}\n") };
    };
    let own_key = if content.starts_with("key:") { "" } else { "    key: a\n" };
    let lines: String = content.lines().map(|line| format!("    {line}\n")).collect();
    format!("domain: d\ndescriptors:\n  -\n{own_key}{lines}")
}

#[test]
fn every_example_is_accepted_and_does_something() {
    let nothing = read("domain: d\ndescriptors: [{key: a}]").unwrap();
    for key in keys::of_rule_files() {
        let rules = read(&with(key, key.example)).unwrap_or_else(|errors| panic!("{}: {errors}", key.path));
        assert_ne!(rules, nothing, "{}", key.path);
    }
}

/// The value of a key of a limit, put into one.
fn in_limit(name: &str, value: &str) -> String {
    let unit = if name == "per" || name == "unit" || name == "unlimited" { "" } else { "unit: minute, " };
    let requests = if name == "requests_per_unit" { "" } else { "requests_per_unit: 5, " };
    format!("domain: d\ndescriptors: [{{key: 'a*', rate_limit: {{{unit}{requests}{name}: {value}}}}}]")
}

#[test]
fn every_default_is_what_the_key_is_without_it() {
    let mut count = 0;
    for key in keys::of_rule_files() {
        let LeftOut::Is(value) = key.default else { continue };
        let name = key.path.rsplit('.').next().unwrap();
        let (with, without) = match key.path.contains("rate_limit.") {
            true if name == "unlimited" => {
                let limit = |more: &str| {
                    format!(
                        "domain: d\ndescriptors: [{{key: a, rate_limit: {{unit: day, requests_per_unit: 5{more}}}}}]"
                    )
                };
                (limit(&format!(", unlimited: {value}")), limit(""))
            }
            true => (in_limit(name, value), in_limit("name", "")),
            false => (
                format!("domain: d\ndescriptors: [{{key: 'a*', {name}: {value}}}]"),
                "domain: d\ndescriptors: [{key: 'a*'}]".to_owned(),
            ),
        };
        assert_eq!(read(&with).unwrap(), read(&without).unwrap(), "{}", key.path);
        count += 1;
    }
    assert!(count > 5);
}

#[test]
fn the_words_of_a_key_are_those_that_are_accepted() {
    for (name, more) in [("unit", "decade"), ("algorithm", "queue"), ("on_limit", "wait")] {
        let path = format!("descriptors[].rate_limit.{name}");
        let key = keys::of_rule_files().find(|key| key.path == path).unwrap();
        let kind = key.kind.to_string();
        let words: Vec<&str> = kind.split('`').skip(1).step_by(2).collect();
        assert!(!words.is_empty());
        for word in &words {
            read(&in_limit(name, word)).unwrap();
        }
        let errors = read(&in_limit(name, more)).unwrap_err();
        let (_, accepted) = errors.split_once("accepted: ").unwrap();
        assert_eq!(accepted.trim().split(", ").collect::<Vec<_>>(), words, "{name}");
    }
}

#[test]
fn whole_files_of_rules_in_the_documents_and_examples_are_accepted() {
    let files = crate::blocks_of_documents("domain:");
    assert!(files.len() >= 8, "{}", files.len());
    for (name, file) in files {
        read(&file).unwrap_or_else(|errors| panic!("{name}: {errors}\n{file}"));
    }
}

/// The YAML of a guide that is a part of a file, by something in it.
fn part_of_a_file(guide: &str, part: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(guide);
    let document = fs::read_to_string(path).unwrap();
    let blocks = document.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.into_iter().find(|block| block.contains(part)).unwrap().to_owned()
}

#[test]
fn parts_of_files_that_the_guide_to_requests_shows_are_good() {
    let networks = part_of_a_file("request-rules.md", "value_in:");
    read(&format!("domain: web\n{networks}")).unwrap();
    let auth = part_of_a_file("request-rules.md", "auth: {domain: web");
    let rules = "domain: web\ndescriptors:\n  - {key: user, rate_limit: {unit: minute, requests_per_unit: 5}}\n  \
                 - {key: client, rate_limit: {unit: minute, requests_per_unit: 5}}\n";
    let file = file(format!("application:\n  rules: web.yaml\n  trusted_hops: 1\n  {auth}"));
    fs::write(file.path.with_file_name("web.yaml"), rules).unwrap();
    let checked = ratelimit_config::check(&file.path).unwrap_or_else(|errors| panic!("{errors}"));
    // Every request has the second descriptor, which is what the guide is about.
    assert!(
        checked.warnings.iter().all(|warning| !warning.message.contains("not limited")),
        "{:?}",
        checked.warnings
    );
}

const LIMIT: &str = "domain: d\ndescriptors: [{key: a, rate_limit: {unit: second, requests_per_unit: 5}}]\n";

#[test]
fn a_document_may_be_closed() {
    let plain = read(LIMIT).unwrap();
    for end in ["---", "---\n", "---\n# end\n", "...", "...\n", "...\n---\n", "---\n...\n", "---\n---\n"] {
        assert_eq!(read(&format!("{LIMIT}{end}")), Ok(plain.clone()), "{end:?}");
        assert_eq!(read(&format!("---\n{LIMIT}{end}")), Ok(plain.clone()), "{end:?}");
        check(format!("network: {{rules: [{{name: a, rate: 1/s}}]}}\n{end}")).unwrap();
    }
    for more in
        ["---\ndomain: e", "---\n[]", "---\n~", "---\n''", "---\n---\ndomain: e", "---\n!!str", "---\n&a"]
    {
        let errors = read(&format!("{LIMIT}{more}")).unwrap_err();
        let line = if more.starts_with("---\n---") { 4 } else { 3 };
        let expected = format!(":{line}:1: a second YAML document begins here");
        assert!(errors.contains(&expected), "{more:?}: {errors}");
    }
}

#[test]
fn numbers_may_have_their_digits_in_groups() {
    let limit = |number: &str| read(&LIMIT.replace("unit: 5", &format!("unit: {number}")));
    assert_eq!(limit("5_000").unwrap(), limit("5000").unwrap());
    assert_eq!(limit("4_294_967_295").unwrap(), limit("4294967295").unwrap());
    for wrong in ["_5", "5_", "5__0", "4_294_967_296"] {
        assert!(limit(wrong).unwrap_err().contains("is not a whole number from 0 to 4294967295"), "{wrong}");
    }
    let bucket = |number: &str| {
        read(&LIMIT.replace("unit: 5", &format!("unit: 5, algorithm: token_bucket, burst: {number}")))
    };
    assert_eq!(bucket("20_000").unwrap(), bucket("20k").unwrap());
}

/// Without an algorithm a limit counts what is denied, as Envoy's service does; one that is overrun owes it instead.
#[test]
fn a_limit_that_is_overrun_counts_as_one_with_an_algorithm() {
    let limit = |more: &str| read(&LIMIT.replace("unit: 5", &format!("unit: 5, {more}")));
    assert_eq!(
        limit("overrun: true").unwrap(),
        limit("overrun: true, algorithm: fixed_window, count_denied: false").unwrap()
    );
    assert_eq!(limit("overrun: false").unwrap(), limit("count_denied: true").unwrap());
    assert_ne!(limit("overrun: true").unwrap(), limit("count_denied: false").unwrap());
}

#[test]
fn kubernetes_resources_are_recognised() {
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata:\n  rules.yaml: |\n    domain: d\n";
    let expected = "this is a Kubernetes resource (`ConfigMap`), not the file inside it: take what is under `data`, key \
                    `rules.yaml`, as a file";
    assert_errors(map, &[&format!("4:1 data: {expected}")]);
    assert!(read(map).unwrap_err().ends_with(&format!(":4:1: data: {expected}")), "{:?}", read(map));
    let several = format!("{map}  more.yaml: x\n");
    assert_errors(
        several,
        &[
            "4:1 data: this is a Kubernetes resource (`ConfigMap`), not the file inside it: take what is under `data` as a file",
        ],
    );
    let custom = "apiVersion: example.org/v1\nkind: RateLimit\nspec: {domain: d}\n";
    assert_errors(
        custom,
        &[
            "3:1 spec: this is a Kubernetes resource (`RateLimit`), not the file inside it: take what is under `spec`",
        ],
    );
    assert_errors("apiVersion: v1\nkind: ConfigMap\n", &["1:1 : this is a Kubernetes resource"]);
    // As `validate` has it, which takes files of either kind.
    let file = file(map);
    let found = ratelimit_config::check_files(std::slice::from_ref(&file.path), false, &|_| Ok(()));
    assert!(found[0].as_ref().unwrap_err().to_string().ends_with(expected), "{found:?}");
}
