//! The reference: CONFIGURATION.md says what the table of keys says, and both say what the reader does.

use std::{collections::BTreeSet, env, fmt::Write as _, fs, path::PathBuf};

use ratelimit_config::{
    keys::{self, ConfigKey, LeftOut, ValueKind},
    numbers::{ICMP_TYPES, PROTOCOLS},
};

use super::{check, policy};

/// How the document is renewed after a change of the keys.
const RENEW: &str = "RENEW=1 cargo test -p ratelimit-config --test config reference";

/// Columns of the document.
const WIDTH: usize = 120;

/// Sections of the document: the path that their keys begin with, the last that fits, and their headings.
const SECTIONS: [(&str, &str); 8] = [
    ("", "The top of the file"),
    ("network.", "Packets: `network`"),
    ("network.rules[].", "A rule: an item of `network.rules`"),
    ("network.rules[].key.", "Prefix lengths: a rule's `key`"),
    ("network.rules[].match.", "Conditions: a rule's `match`"),
    ("application.", "Requests: `application`"),
    ("application.listen.", "Where questions come in: `application.listen`"),
    ("application.proxy[].", "A reverse proxy: an item of `application.proxy`"),
];

/// The same for files of rules.
const RULE_SECTIONS: [(&str, &str); 3] = [
    ("", "Files of rules"),
    ("descriptors[].", "A descriptor: an item of `descriptors`"),
    ("descriptors[].rate_limit.", "A limit on requests: `rate_limit`"),
];

fn document_path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../CONFIGURATION.md")
}

#[test]
fn the_reference_is_what_the_table_of_keys_says() {
    let path = document_path();
    let committed = fs::read_to_string(&path).unwrap();
    let parts = [
        ("keys", keys_section(keys::all(), &SECTIONS)),
        ("keys of rules", keys_section(keys::of_rule_files(), &RULE_SECTIONS)),
        ("protocols", names(PROTOCOLS.map(|(name, number)| format!("{name} ({number})")))),
        (
            "icmp",
            names(ICMP_TYPES.map(|(name, numbers)| {
                let number = |number: Option<u8>| number.map_or("-".to_owned(), |number| number.to_string());
                format!("{name} ({}, {})", number(numbers.v4), number(numbers.v6))
            })),
        ),
    ];
    let rendered = parts.iter().fold(committed.clone(), |text, (name, part)| put(&text, name, part));
    if env::var_os("RENEW").is_some() {
        fs::write(&path, &rendered).unwrap();
        return;
    }
    assert!(rendered == committed, "CONFIGURATION.md is not what the keys say; renew it with `{RENEW}`");
}

/// Puts a generated part between its marks.
fn put(text: &str, name: &str, part: &str) -> String {
    let (begin, end) = (format!("<!-- begin: {name} -->\n"), format!("<!-- end: {name} -->\n"));
    let (before, rest) = text.split_once(&begin).unwrap_or_else(|| panic!("no {begin}"));
    let (_, after) = rest.split_once(&end).unwrap_or_else(|| panic!("no {end}"));
    format!("{before}{begin}\n{part}\n{end}{after}")
}

fn keys_section(keys: impl Iterator<Item = &'static ConfigKey>, sections: &[(&str, &str)]) -> String {
    let section = |key: &ConfigKey| sections.iter().rfind(|(path, _)| key.path.starts_with(path));
    let mut text = String::new();
    let mut current = None;
    for key in keys {
        if section(key) != current {
            current = section(key);
            let (_, heading) = current.unwrap();
            write!(text, "## {heading}\n\n").unwrap();
        }
        let default = match key.default {
            LeftOut::Required => "none, it must be given".to_owned(),
            LeftOut::Is(value) => format!("`{value}`"),
            LeftOut::IsNumber(value) => format!("`{value}`"),
            LeftOut::Said(text) => text.to_owned(),
        };
        let meaning = wrapped(key.meaning, "");
        let kind = wrapped(&format!("- Value: {}", key.kind), "  ");
        let ConfigKey { path, example, .. } = key;
        write!(text, "### `{path}`\n\n{meaning}\n{kind}- Default: {default}\n\n```yaml\n{example}\n```\n\n")
            .unwrap();
    }
    text.trim_end().to_owned() + "\n"
}

fn names(names: impl IntoIterator<Item = String>) -> String {
    wrapped(&(names.into_iter().collect::<Vec<_>>().join(", ") + "."), "")
}

/// In lines, of which all but the first begin with `indent`.
fn wrapped(text: &str, indent: &str) -> String {
    let (mut lines, mut line) = (String::new(), String::new());
    for word in text.split(' ') {
        if !line.trim().is_empty() && line.chars().count() + 1 + word.chars().count() > WIDTH {
            lines += &format!("{line}\n");
            line = indent.to_owned() + word;
        } else {
            let space = if line.is_empty() { "" } else { " " };
            line += &format!("{space}{word}");
        }
    }
    lines + &line + "\n"
}

/// A file in which `content`, as lines, stands in the mapping that `key` belongs to.
pub(super) fn file(key: &ConfigKey, content: &str) -> String {
    let lists = if key.path.ends_with(".list") { "lists: {office: 192.0.2.1}\n" } else { "" };
    lists.to_owned() + &file_without_lists(key, content)
}

fn file_without_lists(key: &ConfigKey, content: &str) -> String {
    let indented = |indent: &str, content: &str| -> String {
        content.lines().map(|line| format!("{indent}{line}\n")).collect()
    };
    if key.path.starts_with("network.rules[].") {
        let missing = |name: &str| !content.starts_with(&format!("{name}:"));
        let name = if missing("name") { "name: a\n" } else { "" };
        let rate = if missing("rate") { "rate: 1k/s\n" } else { "" };
        let rule = indented("      ", &format!("{name}{rate}{content}"));
        return format!("network:\n  rules:\n    -\n{rule}");
    }
    if key.path.starts_with("application.") {
        return if content.is_empty() {
            "application: {}\n".to_owned()
        } else {
            format!("application:\n{}", indented("  ", content))
        };
    }
    match key.path.strip_prefix("network.") {
        Some(_) if content.is_empty() => "network: {}\n".to_owned(),
        Some(_) => format!("network:\n{}", indented("  ", content)),
        None if content.starts_with("network:") => content.to_owned(),
        None if key.path == "network" => "application: {}\n".to_owned(),
        None => format!("network: {{}}\n{content}\n"),
    }
}

/// A file with this key, and with what it can't be without; without the key if there is no value.
pub(super) fn with(path: &str, value: Option<&str>) -> String {
    let segments: Vec<&str> = path.split('.').collect();
    let other = if segments[0] == "network" { "application: {}" } else { "network: {}" };
    format!("{{{}}}\n", joined(&[other.to_owned(), mapping(&segments, value)]))
}

/// The inside of a mapping with the key at the end of this path.
fn mapping(path: &[&str], value: Option<&str>) -> String {
    let [first, rest @ ..] = path else { return String::new() };
    let Some(next) = rest.first() else {
        return value.map(|value| format!("{first}: {value}")).unwrap_or_default();
    };
    let required: &[(&str, &str)] = match *first {
        "rules[]" => &[("name", "a"), ("rate", "1k/s")],
        "interfaces[]" => &[("name", "eth0")],
        "auth" => &[("domain", "edge"), ("descriptors", "[{a: b}]")],
        "grpc[]" => &[("address", "127.0.0.1:1")],
        "redis" => &[("url", "rediss://a")],
        // What is asked about requests goes together.
        "proxy[]" if *next == "client" => &[
            ("listen", "127.0.0.1:1"),
            ("domain", "d"),
            ("descriptors", "[{a: b}]"),
            ("routes", "[{upstreams: \"http://x:1\"}]"),
        ],
        "proxy[]" => &[("listen", "127.0.0.1:1"), ("routes", "[{upstreams: \"http://x:1\"}]")],
        "routes[]" => &[("upstreams", "\"http://x:1\"")],
        "tls" if ["ca", "server_name"].contains(next) => &[],
        "tls" => &[("cert", "c"), ("key", "k")],
        "ban" => &[("after", "1"), ("within", "1s"), ("for", "1m")],
        "memory" if *next == "save_interval" => &[("state_file", "/s")],
        _ => &[],
    };
    let required = required.iter().filter(|(name, _)| *name != next.trim_end_matches("[]"));
    let mut inside: Vec<String> = required.map(|(name, value)| format!("{name}: {value}")).collect();
    inside.push(mapping(rest, value));
    let inside = joined(&inside);
    match first.strip_suffix("[]") {
        Some(name) => format!("{name}: [{{{inside}}}]"),
        None => format!("{first}: {{{inside}}}"),
    }
}

fn joined(parts: &[String]) -> String {
    parts.iter().filter(|part| !part.is_empty()).cloned().collect::<Vec<_>>().join(", ")
}

#[test]
fn every_example_is_accepted_and_does_something() {
    for key in keys::all() {
        let example = policy(&file(key, key.example));
        let without = policy(&file(key, ""));
        // There is nothing else yet that it could say.
        let is_only = matches!((key.kind, key.default), (ValueKind::Said(kind), LeftOut::Is(word)) if kind == format!("`{word}`"));
        assert!(
            is_only || example != without,
            "{}: the reader takes no notice of\n{}",
            key.path,
            key.example
        );
    }
}

#[test]
fn every_default_is_what_the_key_is_without_it() {
    for key in keys::all() {
        let without = check(with(key.path, None));
        match key.default {
            LeftOut::Required => assert!(without.is_err(), "{} is not required", key.path),
            LeftOut::Is(value) => {
                assert_eq!(policy(&with(key.path, Some(value))), without.unwrap().policy, "{}", key.path);
            }
            LeftOut::IsNumber(value) => {
                let with = policy(&with(key.path, Some(&value.to_string())));
                assert_eq!(with, without.unwrap().policy, "{}", key.path);
            }
            // A key has one of these, and flags one of those.
            LeftOut::Said(_) if key.path.contains(".key.") || key.path.contains(".tcp_flags.") => {}
            LeftOut::Said(_) if key.path.ends_with("[].file") || key.path.ends_with("[].list") => {}
            // A certificate goes with its key.
            LeftOut::Said(_) if key.path.starts_with("application.store.redis.tls.") => {}
            LeftOut::Said(_) => assert!(without.is_ok(), "{}: {without:?}", key.path),
        }
    }
}

#[test]
fn the_words_of_a_key_are_those_that_are_accepted() {
    let is_word =
        |text: &&str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    for key in keys::all() {
        let kind = key.kind.to_string();
        let words: BTreeSet<&str> = quoted(&kind).filter(is_word).collect();
        if words.is_empty() {
            continue;
        }
        for word in &words {
            policy(&with(key.path, Some(word)));
        }
        let errors = check(with(key.path, Some("xyzzy"))).unwrap_err().to_string();
        let (_, accepted) = errors.split_once("accepted: ").unwrap_or_else(|| panic!("{errors}"));
        // A log is an algorithm, but not for packets.
        let accepted = accepted.split(", ").filter(|word| check(with(key.path, Some(word))).is_ok());
        assert_eq!(accepted.collect::<BTreeSet<_>>(), words, "{}", key.path);
    }
}

#[test]
fn the_range_of_a_number_is_what_the_reader_accepts() {
    let mut count = 0;
    for key in keys::all() {
        let ValueKind::Number(range) = key.kind else { continue };
        let is_accepted = |number: u64| check(with(key.path, Some(&number.to_string()))).is_ok();
        assert!(is_accepted(range.least) && is_accepted(range.most), "{}", key.path);
        assert!(!is_accepted(range.most + 1), "{}", key.path);
        assert!(range.least == 0 || !is_accepted(range.least - 1), "{}", key.path);
        count += 1;
    }
    assert!(count >= 6, "{count}");
}

#[test]
fn whole_files_in_the_documents_are_accepted() {
    let files = crate::blocks_of_documents("network:");
    for name in ["README.md", "CONFIGURATION.md", "network-rules.md", "lists-and-bans.md"] {
        assert!(files.iter().any(|(document, _)| document == name), "{name}");
    }
    for (_, file) in files {
        policy(&file);
    }
    // Those of requests name files of rules, or what only the machine has that they are for.
    let files = crate::blocks_of_documents("application:");
    let files: Vec<_> = files.iter().filter(|(_, text)| !text.contains(": /etc/")).collect();
    assert!(files.len() > 5, "{}", files.len());
    for (name, text) in files {
        let file = super::file(text);
        for rules in ["api.yaml", "rules.yaml", "web.yaml"] {
            fs::write(file.path.with_file_name(rules), super::RULES).unwrap();
        }
        ratelimit_config::check(&file.path).unwrap_or_else(|errors| panic!("{name}: {errors}\n{text}"));
    }
}

/// What stands in backquotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn values_are_written_as_the_reference_says() {
    let document = fs::read_to_string(document_path()).unwrap();
    let row = |name: &str| {
        let line = document.lines().find(|line| line.starts_with(&format!("| {name} | "))).unwrap();
        let cells: Vec<&str> = line.split('|').collect();
        (cells[2], cells[3])
    };
    let accept = |path: &str, value: String| policy(&with(path, Some(&value)));
    let (rate, ports) = ("network.rules[].rate", "network.rules[].match.destination_port");
    let (_, numbers) = row("number");
    let (units, sizes) = row("size");
    let (times, more_times) = row("time");
    let (_, rates) = row("rate");
    let (_, ranges) = row("range");
    let (_, lists) = row("list");
    quoted(numbers).chain(quoted(sizes)).for_each(|amount| drop(accept(rate, format!("{amount}/s"))));
    quoted(units).for_each(|unit| drop(accept(rate, format!("16{unit}/s"))));
    quoted(times).chain(quoted(more_times)).for_each(|time| drop(accept(rate, format!("100/{time}"))));
    let several =
        document.lines().find(|line| line.starts_with("A time that is not part of a rate")).unwrap();
    quoted(several).for_each(|time| {
        drop(accept("network.rules[].ban", format!("{{after: 100, within: {time}, for: {time}}}")));
    });
    quoted(rates).for_each(|text| drop(accept(rate, text.to_owned())));
    quoted(ranges).for_each(|text| drop(accept(ports, text.to_owned())));
    quoted(lists).for_each(|text| drop(accept("network.rules[].match.protocol", text.to_owned())));
}

/// The paths of all keys in a file, as the table of keys has them.
fn paths(value: &serde_json::Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        serde_json::Value::Object(entries) => {
            for (key, value) in entries {
                let dot = if path.is_empty() { "" } else { "." };
                let path = format!("{path}{dot}{key}");
                paths(value, &path, found);
                found.insert(path);
            }
        }
        serde_json::Value::Array(items) => {
            items.iter().for_each(|item| paths(item, &format!("{path}[]"), found))
        }
        _ => {}
    }
}

#[test]
fn one_example_has_every_key() {
    let text = fs::read_to_string(document_path().with_file_name("config/every-key.yaml")).unwrap();
    let mut found = BTreeSet::new();
    paths(&serde_yaml::from_str(&text).unwrap(), "", &mut found);
    let missing: Vec<&str> = keys::all().map(|key| key.path).filter(|path| !found.contains(*path)).collect();
    assert_eq!(missing, [] as [&str; 0]);
}

/// What is commented out in the example to start from is right too.
#[test]
fn what_is_commented_out_in_the_first_example_is_accepted() {
    let text = fs::read_to_string(document_path().with_file_name("config/ratelimit.yaml")).unwrap();
    let is_comment = |line: &&str| {
        let rest =
            line.trim_start().strip_prefix("# ").unwrap_or_default().trim_start_matches("- ").trim_start();
        rest.split_once(": ").is_some_and(|(key, _)| keys::all().any(|known| known.path.ends_with(key)))
    };
    let commented: Vec<&str> = text.lines().filter(is_comment).collect();
    assert!(commented.len() > 10, "{commented:?}");
    let uncommented =
        text.lines().map(|line| if is_comment(&line) { line.replacen("# ", "", 1) } else { line.into() });
    let uncommented: Vec<String> = uncommented.collect();
    let network = policy(&uncommented.join("\n")).network.unwrap();
    assert_eq!(network.rules.len(), 4);
}
