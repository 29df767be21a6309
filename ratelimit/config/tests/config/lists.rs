//! Lists of prefixes, inline and from files.

use std::fs;

use ratelimit_config::{self as config, LastLists};
use ratelimit_policy::{Network, Prefix};

use super::{File, file, network, policy, rule, shown};

#[test]
fn files_have_one_prefix_a_line() {
    let policy =
        policy(&network(&["allow: [10.0.0.0/8, {file: networks.txt}]", "deny: [{file: networks.txt}]"]));
    let network = policy.network.unwrap();
    let shown = |list: &[Prefix]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(shown(&network.allow), ["10.0.0.0/8", "192.0.2.0/24", "2001:db8::1/128"]);
    assert_eq!(shown(&network.deny), ["192.0.2.0/24", "2001:db8::1/128"]);
    assert!(network.list_files().all(|path| path.ends_with("networks.txt")), "{:?}", network.lists);
}

fn errors_of_list(list: &[u8]) -> Vec<String> {
    let file = file(network(&["deny: [{file: list.txt}]"]));
    fs::write(file.path.with_file_name("list.txt"), list).unwrap();
    let errors = config::check(&file.path).unwrap_err();
    errors.into_iter().map(|error| format!("{}:{} {}", error.line, error.column, error.message)).collect()
}

#[test]
fn mistakes_in_a_file_have_its_lines() {
    let errors = errors_of_list(b"10.0.0.0/8\n\n10.0.0.0 /8\nexample.org # name\n");
    assert_eq!(errors.len(), 2, "{errors:?}");
    assert!(
        errors[0].starts_with("4:17 /")
            && errors[0].contains("list.txt:3: `10.0.0.0 /8`: `10.0.0.0` is followed by"),
        "{errors:?}"
    );
    assert!(errors[1].contains("list.txt:4: `example.org`: not an IP address"), "{errors:?}");
    let many = errors_of_list("x\n".repeat(100_000).as_bytes());
    assert_eq!(many.len(), 21);
    assert!(many[20].ends_with("list.txt: 99980 more such lines"), "{}", many[20]);
    assert!(errors_of_list(b"10.0.0.0/8\n\xff\n")[0].ends_with("not UTF-8 text"));
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let file = file(network(&["deny: [{file: nowhere.txt}]"]));
    let errors = config::check(&file.path).unwrap_err().to_string();
    assert!(
        errors.contains("network.deny[0].file: ") && errors.ends_with("nowhere.txt: no such file"),
        "{errors}"
    );
}

#[test]
fn a_hundred_thousand_prefixes_are_read() {
    let file = file(network(&["allow: [{file: list.txt}]"]));
    let lines =
        (0..100_000_u32).map(|index| format!("{}/32\n", std::net::Ipv4Addr::from(index * 2 + (1 << 24))));
    fs::write(file.path.with_file_name("list.txt"), lines.collect::<String>()).unwrap();
    assert_eq!(config::load(&file.path).unwrap().network.unwrap().allow.len(), 100_000);
}

/// A configuration with these lines beside the file `list.txt`.
fn with_list(content: String, list: &str) -> File {
    let file = file(content);
    fs::write(file.path.with_file_name("list.txt"), list).unwrap();
    file
}

fn warnings(file: &File) -> Vec<String> {
    config::check(&file.path).unwrap().warnings.iter().map(shown).collect()
}

#[test]
fn everything_in_a_file_is_a_warning_as_it_is_inline() {
    for list in
        ["10.0.0.0/8\n0.0.0.0/0\n", "# none\n0.0.0.0-255.255.255.255\n", "1.2.3.4\n0.0.0.0/1\n128.0.0.0/1\n"]
    {
        let found = warnings(&with_list(network(&["deny: [{file: list.txt}]"]), list));
        let is_it = |warning: &String| {
            warning.starts_with("4:17 network.deny[0].file: /")
                && warning.ends_with(
                    "list.txt:2: all of IPv4: drops every packet, except from sources \
                    that `allow` names",
                )
        };
        assert!(found.len() == 1 && is_it(&found[0]), "{list}: {found:?}");
    }
    let found = warnings(&with_list(network(&["allow: [{file: list.txt}]"]), "::/0\n"));
    assert!(
        found[0].ends_with("list.txt:1: all of IPv6: allows every source: no rule will limit them"),
        "{found:?}"
    );
    let almost = "0.0.0.0-255.255.255.254\n8000::/1\n";
    assert!(warnings(&with_list(network(&["deny: [{file: list.txt}]"]), almost)).is_empty());
}

#[test]
fn what_a_list_keeps_from_having_any_effect_is_a_warning() {
    let lists = "allow: [10.0.0.0/8, {file: list.txt}], deny: [192.0.2.0/24, 10.1.0.0/16, 10.0.0.0/7]";
    let rule = |source: &str| {
        let content = format!(
            "network:\n  {}\n  rules:\n    - {{name: a, rate: 9/s, match: {{source: {source}}}}}\n",
            lists.replace(", deny", "\n  deny")
        );
        warnings(&with_list(content, "198.51.100.0/24\n"))
    };
    let denied =
        "3:24 network.deny[1]: is inside 10.0.0.0/8, which `allow` names: its packets are not dropped";
    assert_eq!(rule("[10.1.0.0/16, 203.0.113.1]"), [denied]);
    for source in ["10.1.0.0/16", "[198.51.100.7, 192.0.2.0/25, 10.0.0.0/7]"] {
        let found = rule(source);
        assert_eq!(found[0], denied);
        let expected = "5:44 network.rules[0].match.source: `allow` and `deny` name all of it";
        assert!(found.len() == 2 && found[1].starts_with(expected), "{found:?}");
    }
}

#[test]
fn bits_beyond_the_length_are_a_warning_in_a_file_and_a_mistake_inline() {
    let file = with_list(network(&["deny: [{file: list.txt}]"]), "10.0.0.1/8\n");
    let checked = config::check(&file.path).unwrap();
    assert_eq!(checked.policy.network.unwrap().deny[0].to_string(), "10.0.0.0/8");
    assert!(
        shown(&checked.warnings[0]).ends_with("line 1, `10.0.0.1/8` as 10.0.0.0/8"),
        "{:?}",
        checked.warnings
    );
    let inline = super::errors(network(&["deny: [10.0.0.1/8]"]));
    assert!(inline[0].message.contains("did you mean 10.0.0.0/8 or 10.0.0.1?"), "{inline:?}");
}

/// What is read of a file again after it has been read with `before` in it, and then has `now`.
fn again(content: &str, before: &str, now: &str) -> (Network, Vec<String>, File) {
    let file = with_list(content.to_owned(), before);
    let last = LastLists::of(&config::load(&file.path).unwrap());
    fs::write(file.path.with_file_name("list.txt"), now).unwrap();
    let checked = config::check_again(&file.path, &last).unwrap();
    let warnings = checked.warnings.iter().map(shown).collect();
    (checked.policy.network.unwrap(), warnings, file)
}

#[test]
fn a_file_that_becomes_empty_keeps_what_it_had() {
    let lists = ["allow: [{file: list.txt}]", "deny: [{file: list.txt}, 203.0.113.0/24]"];
    for now in ["", "\n\n", "\u{feff}"] {
        let (found, warnings, file) = again(&network(&lists), "192.0.2.0/24\n198.51.100.7\n", now);
        assert_eq!((found.allow.len(), found.deny.len()), (2, 3));
        // The file is read once; it is named twice.
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(
            warnings[0].contains("list.txt is empty now: what it had before stays in force"),
            "{warnings:?}"
        );
        let kept: Vec<bool> = found.lists.iter().map(|part| part.is_kept).collect();
        assert_eq!(kept, [true, true, false]);
        // And so it does the next time.
        let policy = ratelimit_policy::Policy { network: Some(found), ..config::load(&file.path).unwrap() };
        let next = config::check_again(&file.path, &LastLists::of(&policy)).unwrap();
        assert_eq!(next.policy.network.unwrap().deny.len(), 3);
    }
}

#[test]
fn an_empty_list_can_be_meant() {
    let lists = ["deny: [{file: list.txt}]"];
    for now in ["# nobody\n", ";"] {
        let (found, warnings, _file) = again(&network(&lists), "192.0.2.0/24\n", now);
        assert!(found.deny.is_empty() && warnings.is_empty(), "{warnings:?}");
        assert!(!found.lists[0].is_kept && found.lists[0].prefixes.is_empty());
    }
    // At a start there is nothing to keep.
    let (found, warnings, _file) = again(&network(&lists), "# nobody", "");
    assert!(
        found.deny.is_empty()
            && warnings[0].ends_with("list.txt is empty; a comment in it says that an empty list is meant")
    );
}

fn shown_prefixes(prefixes: Option<&Vec<Prefix>>) -> String {
    prefixes.unwrap().iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

#[test]
fn conditions_take_files_of_prefixes() {
    let content = rule(&["match: {source: [10.0.0.0/8, {file: list.txt}], destination: {file: list.txt}}"]);
    let (found, ..) = again(&content, "#", "192.0.2.0/24 ; one\n::1\n");
    let rule = found.rules.first().unwrap();
    assert_eq!(shown_prefixes(rule.matches.sources.as_ref()), "10.0.0.0/8 192.0.2.0/24 ::1/128");
    assert_eq!(shown_prefixes(rule.matches.destinations.as_ref()), "192.0.2.0/24 ::1/128");
    assert_eq!(found.list_files().count(), 2);
    // Files that others keep may have both versions of IP, or none of one.
    let content = super::rule(&["match: {ip_version: 4, source: {file: list.txt}}"]);
    again(&content, "#", "192.0.2.0/24\n::1\n");
    again(&content, "#", "::1\n");
}

#[test]
fn a_condition_whose_file_is_empty_has_no_source_at_all() {
    let content = rule(&["match: {source: [{file: list.txt}]}"]);
    let (found, ..) = again(&content, "::1", "# nobody\n");
    assert_eq!(found.rules.first().unwrap().matches.sources, Some(Vec::new()));
    let (_, warnings, _file) = again(&content, "::1", "# nobody\n");
    assert!(
        warnings[0].ends_with("has no prefix, because its files are empty: the rule matches no packet"),
        "{warnings:?}"
    );
    let (found, warnings, _file) = again(&content, "::1", "");
    assert_eq!(shown_prefixes(found.rules.first().unwrap().matches.sources.as_ref()), "::1/128");
    assert_eq!(warnings.len(), 1);
}

#[test]
fn conditions_have_a_bounded_number_of_prefixes() {
    let rules =
        (0..3).map(|index| format!("{{name: r{index}, rate: 1/s, match: {{source: {{file: list.txt}}}}}}"));
    let content = format!("network: {{rules: [{}]}}\n", rules.collect::<Vec<_>>().join(", "));
    let lines =
        (0..400_000_u32).map(|index| format!("{}\n", std::net::Ipv4Addr::from(index * 2 + (1 << 24))));
    let file = with_list(content, &lines.collect::<String>());
    let errors: Vec<_> = config::check(&file.path).unwrap_err().into_iter().collect();
    assert!(errors.len() == 1 && errors[0].field == "network.rules[2].match.source.file", "{errors:?}");
    assert!(errors[0].message.contains("more than 1,048,576 prefixes"), "{errors:?}");
}
