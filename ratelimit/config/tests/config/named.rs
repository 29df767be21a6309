//! Lists with names, which several places use.

use std::{fmt::Write as _, fs};

use ratelimit_config as config;
use ratelimit_policy::{Policy, Prefix};

use super::{File, assert_errors, file};

const USED: &str = "lists:
  office: [192.0.2.0/28, {file: office.txt}]
  all: [{list: office}, {list: office}, 198.51.100.7]
  alone: 203.0.113.0/24
application: {rules: rules.yaml}
network:
  allow: [{list: office}]
  deny: [{list: alone}]
  rules:
    - name: a
      rate: 1/s
      match: {source: [{list: all}], destination: {list: alone}}
      except: {source: {list: office}, destination: [{list: office}]}
";

const RULES: &str = "domain: d
descriptors:
  - {key: ip, value_in: [{list: all}, 10.0.0.1], rate_limit: {unlimited: true}}
  - {key: ip, value_in: [{list: alone}], rate_limit: {unlimited: true}}
";

/// A configuration, a file of rules and a list beside each other.
fn files(configuration: &str, rules: &str, office: &str) -> File {
    let file = file(configuration);
    fs::write(file.path.with_file_name("rules.yaml"), rules).unwrap();
    fs::write(file.path.with_file_name("office.txt"), office).unwrap();
    file
}

fn policy(file: &File) -> Policy {
    config::load(&file.path).unwrap_or_else(|errors| panic!("{errors}"))
}

fn errors(configuration: &str) -> Vec<String> {
    let file = files(configuration, RULES, "");
    let errors = config::check(&file.path).unwrap_err();
    errors
        .into_iter()
        .map(|error| format!("{}:{} {}: {}", error.line, error.column, error.field, error.message))
        .collect()
}

fn shown(prefixes: &[Prefix]) -> String {
    prefixes.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_list_stands_for_what_it_has_wherever_it_is_named() {
    let policy = policy(&files(USED, RULES, "\u{feff}# ours\r\n10.0.0.0-10.0.0.3\r\n"));
    let network = policy.network.unwrap();
    assert_eq!(shown(&network.allow), "10.0.0.0/30 192.0.2.0/28");
    assert_eq!(shown(&network.deny), "203.0.113.0/24");
    let rule = network.rules.first().unwrap();
    assert_eq!(shown(rule.matches.sources.as_ref().unwrap()), "192.0.2.0/28 10.0.0.0/30 198.51.100.7/32");
    assert_eq!(shown(rule.matches.destinations.as_ref().unwrap()), "203.0.113.0/24");
    let except = rule.except.first().unwrap();
    for list in [&except.sources, &except.destinations] {
        assert_eq!(shown(list.as_ref().unwrap()), "192.0.2.0/28 10.0.0.0/30");
    }
    // The file, once for each key that it is under.
    let parts = network.lists.iter().filter(|part| part.file.is_some());
    let parts: Vec<&str> = parts.map(|part| part.list.key()).collect();
    assert_eq!(parts, ["allow", "match.source", "except.source", "except.destination"]);
    let application = policy.application.unwrap();
    let descriptors = application.rules.domains().iter().flat_map(|domain| domain.descriptors.iter());
    let networks: Vec<_> = descriptors.map(|rule| rule.networks.as_ref().unwrap()).collect();
    assert_eq!(networks[0].name(), "list all,10.0.0.1");
    let of = |index: usize| shown(&networks[index].prefixes().collect::<Vec<_>>());
    assert_eq!(of(0), "10.0.0.0/30 192.0.2.0/28 198.51.100.7/32 10.0.0.1/32");
    assert_eq!(of(1), "203.0.113.0/24");
    let watched = &application.sources.networks;
    assert!(watched.len() == 1 && watched[0].file.ends_with("office.txt"), "{watched:?}");
}

#[test]
fn files_of_a_list_are_kept_when_they_become_empty() {
    let file = files(USED, RULES, "10.0.0.0/30\n");
    let last = config::LastLists::of(&policy(&file));
    fs::write(file.path.with_file_name("office.txt"), "").unwrap();
    let again = config::check_again(&file.path, &last).unwrap().policy;
    assert_eq!(shown(&again.network.unwrap().allow), "10.0.0.0/30 192.0.2.0/28");
    assert!(again.application.unwrap().sources.networks[0].is_kept);
}

#[test]
fn mistakes_say_where_a_list_is_defined_or_named() {
    let mut wrong = Vec::new();
    let network = |rest: &str| {
        format!("{rest}\nnetwork: {{rules: [{{name: a, rate: 1/s}}], deny: [{{list: office}}]}}\n")
    };
    for (lists, expected) in [
        (
            "",
            "2:56 network.deny[0].list: there is no list `office` under `lists`; add it at the top of the conf",
        ),
        (
            "lists: {ofice: 192.0.2.1}",
            "2:56 network.deny[0].list: there is no list `office` under `lists`, did you mean `ofice`?",
        ),
        ("lists: {office: {file: no.txt}}", "1:24 lists.office.file: "),
        ("lists: {office: [192.0.2.300]}", "1:18 lists.office[0]: "),
        ("lists: {office: []}", "1:17 lists.office: an empty list"),
        ("lists: [office]", "1:8 lists: must be a mapping of names to lists"),
        (
            "lists: {office: [{list: b}], b: [{list: c}], c: {list: b}}",
            "1:56 lists.c.list: a list can't contain itself: b, which has c, which has b",
        ),
        (
            "lists: {office: {list: office}}",
            "1:24 lists.office.list: a list can't contain itself: office, which has office",
        ),
        (
            "lists: {office: {list: ofice}}",
            "1:24 lists.office.list: there is no list `ofice` under `lists`, did you mean `office`?",
        ),
        ("lists: {office: {list: a, file: b}}", "1:18 lists.office.list: `file` and `list` are both given"),
        (
            "lists: {'my office': 192.0.2.1, office: 192.0.2.1}",
            "1:9 lists.my office: a list's name has 1 to 63 letters",
        ),
        ("lists: {office: {liste: a}}", "1:17 lists.office: must be a single value, not a mapping"),
    ] {
        let errors = errors(&network(lists));
        if !errors.iter().any(|error| error.starts_with(expected)) {
            wrong.push(format!("{lists}: {errors:#?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_errors(
        "lists: {a: 192.0.2.1}\nnetwork: {rules: [{name: a, rate: 1/s, match: {source: {list: b}}}]}\n",
        &["2:63 network.rules[0].match.source.list: there is no list `b` under `lists`"],
    );
    let unknown =
        "domain: d\ndescriptors: [{key: ip, value_in: {list: ofice}, rate_limit: {unlimited: true}}]\n";
    let file = files("lists: {office: 192.0.2.1}\napplication: {rules: rules.yaml}\n", unknown, "");
    let errors = config::check(&file.path).unwrap_err().to_string();
    assert!(
        errors.contains("rules.yaml:2:42: descriptors[0].value_in.list: there is no list `ofice`"),
        "{errors}"
    );
}

#[test]
fn a_list_that_nothing_uses_is_warned_of_and_read() {
    let content = "lists: {a: {list: b}, b: 192.0.2.1, idle: {file: office.txt}}\nnetwork: {allow: [{list: a}], rules: [{name: a, rate: 1/s}]}\n";
    let checked = config::check(&files(content, RULES, "# none\n").path).unwrap();
    let warnings: Vec<String> =
        checked.warnings.iter().map(|warning| format!("{} {}", warning.field, warning.message)).collect();
    assert!(
        warnings.len() == 1 && warnings[0].starts_with("lists.idle nothing uses this list"),
        "{warnings:?}"
    );
    let errors = config::check(&files(content, RULES, "x\n").path).unwrap_err().to_string();
    assert!(errors.contains("lists.idle.file: ") && errors.contains("office.txt:1: `x`"), "{errors}");
}

#[test]
fn rules_on_requests_alone_do_not_know_the_lists() {
    let file = files(USED, RULES, "");
    let checked = config::check_rules(&[file.path.with_file_name("rules.yaml")], false).unwrap();
    let [one, other] = &checked.warnings[..] else { panic!("{:?}", checked.warnings) };
    assert!(one.message.starts_with("lists are defined in the configuration that names this file"), "{one}");
    assert_eq!((one.line, other.line), (3, 4));
}

#[test]
fn lists_in_lists_are_bounded() {
    // Each has the one before it ten times, which would be ten billion.
    let mut lists = "lists:\n  l0: 192.0.2.1\n".to_owned();
    for index in 1..=12 {
        let inner = vec![format!("{{list: l{}}}", index - 1); 10].join(", ");
        writeln!(lists, "  l{index}: [{inner}]").unwrap();
    }
    let network = "network: {allow: [{list: l12}], rules: [{name: a, rate: 1/s}]}\n";
    let file = files(&format!("{lists}{network}"), RULES, "");
    assert_eq!(shown(&policy(&file).network.unwrap().allow), "192.0.2.1/32");
    let deep: String = (1..2_000).map(|index| format!("  l{index}: {{list: l{}}}\n", index - 1)).collect();
    let found = errors(&format!("lists:\n  l0: 192.0.2.1\n{deep}network: {{allow: [{{list: l9}}]}}\n"));
    assert!(found[0].contains("lists are nested more than 16 deep"), "{found:?}");
    // Many uses of a long one.
    let long = vec!["192.0.2.1"; 30_000].join(", ");
    let uses = ["{list: l}"; 4].join(", ");
    let found = errors(&format!("lists: {{l: [{long}]}}\nnetwork: {{allow: [{uses}]}}\n"));
    assert!(found.len() == 1 && found[0].contains("more than 100,000 items in lists"), "{found:?}");
    let others: String = (0..4).map(|index| format!("  l{index}: [{{list: l}}]\n")).collect();
    let found = errors(&format!("lists:\n  l: [{long}]\n{others}network: {{allow: [{{list: l}}]}}\n"));
    assert!(found[0].contains("more than 100,000 items in lists"), "{found:?}");
}
