//! Files that are no configuration, by mistake or on purpose: none takes long, much memory or the process down.

use std::{os::unix::net::UnixListener, path::Path};

use proptest::prelude::*;
use ratelimit_config as config;

use super::{assert_errors, errors, file, network, rule};

#[test]
fn files_that_are_no_configuration() {
    let cases: &[(&[u8], &str)] = &[
        (b"", "1:1 : the file is empty; a configuration has `network` or `application`"),
        (b"# nothing\n\n", "1:1 : the file is empty"),
        (b"---\n", "1:1 : the file is empty"),
        (b"~\n", "1:1 : the file is empty; a configuration has `network` or `application`"),
        (b"network:\n\trules: []\n", "2:2 network: YAML allows no tab as indentation; use spaces"),
        (
            b"network:\n  rules:\n  \t- a\n",
            "3:4 network.rules: YAML allows no tab as indentation; use spaces",
        ),
        (b"network: {rules: [\n", "1:18 network.rules[0]: not YAML: "),
        (b"a: b: c\n", "1:5 : not YAML: "),
        (
            b"network:\n  rules:\n    - name: a\n     rate: 1/s\n",
            "4:6 network.rules[1]: not YAML: while parsing a block collection, did not find expected '-' indicator; check that \
             this line is indented like its neighbours",
        ),
        (b"a: 'b\n", "1:4 a: not YAML: "),
        (b"'''\n", "1:1 : not YAML: "),
        (b"a: \0\n", "1:4 a: not YAML: "),
        (b"a: *b\n", "1:4 a: not YAML: "),
        (b"a: &a [*a]\n", "1:8 a[0]: an alias can't stand inside what it names"),
        (b"network:\n  x\xff\xfe\n", "2:4 : not UTF-8 text"),
        (b"\xff\xfea\0:\0", "1:1 : not UTF-8 text"),
        (b"network: {}\n---\nnetwork: {}\n", "2:1 : a second YAML document begins here"),
        (b"<<: {}\n<<: {}\nnetwork: {}\n", "2:1 <<: `<<` is given twice, first on line 1"),
        (b"? [a, b]\n: 1\n", "1:3 : a key must be a single value"),
        (b"network: !evil {}\n", "1:16 network: the tag `!evil` has no meaning here"),
    ];
    for (content, expected) in cases {
        assert_errors(content, &[expected]);
    }
}

#[test]
fn large_and_deep_files() {
    let deep_block: String = (0..300).map(|level| format!("{}a:\n", " ".repeat(level))).collect();
    let cases = [
        ("a".repeat(10_000_000), "1:1 : larger than 8 MiB"),
        ("a".repeat(7_000_000), "1:1 : must be a mapping"),
        ("[".repeat(100_000), "1:65 : more than 64 levels"),
        (deep_block, "65:65 a.a"),
    ];
    for (content, expected) in cases {
        assert_errors(content, &[expected]);
    }
}

#[test]
fn rules_that_are_too_many_are_not_looked_at() {
    let errors = errors("network: {rules: [".to_owned() + &"{},".repeat(100_000) + "]}");
    assert_eq!(errors.len(), 64 * 2 + 1);
    assert!(errors.iter().any(|error| error.message.starts_with("100000 rules; at most 64")));
}

#[test]
fn files_that_cannot_be_read() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"));
    let missing = directory.join("missing.yaml");
    let own = tempfile::tempdir().unwrap();
    let (pipe, socket) = (own.path().join("pipe"), own.path().join("socket"));
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let _listener = UnixListener::bind(&socket).unwrap();
    let cases = [
        (directory, "a directory, not a regular file"),
        (&missing, "no such file"),
        (&pipe, "a named pipe, not a regular file"),
        (&socket, "a socket, not a regular file"),
        (Path::new("/dev/zero"), "a device, not a regular file"),
    ];
    for (path, expected) in cases {
        let shown = config::load(path).map_err(|errors| errors.to_string());
        assert_eq!(shown, Err(format!("{}:1:1: {expected}", path.display())));
    }
}

/// Ten levels, of which each names the one before nine times.
fn laughs(first: &str) -> String {
    let level = |i: usize| format!("a{}: &a{} [{}]\n", i + 1, i + 1, vec![format!("*a{i}"); 9].join(", "));
    format!("a0: &a0 {first}\n") + &(0..9).map(level).collect::<String>()
}

#[test]
fn aliases_cannot_make_a_small_file_large() {
    let flat = format!("a: &a [{}]\nb: [{}]\n", vec!["x"; 10_000].join(","), vec!["*a"; 10_000].join(","));
    let merge = |i: usize| format!("m{}: &m{} {{<<: [*m{i}, *m{i}], k{i}: 1}}\n", i + 1, i + 1);
    let merges = "m0: &m0 {a: 1}\n".to_owned() + &(0..40).map(merge).collect::<String>();
    for bomb in [laughs("ha"), laughs(&"ha".repeat(1_000_000)), flat, merges] {
        let errors = errors(&bomb);
        assert!(errors.iter().any(|error| error.message.contains("with its aliases expanded is too large")));
        assert!(errors.iter().all(|error| error.line > 1 && !error.field.is_empty()));
    }
}

#[test]
fn aliases_cannot_make_a_tree_too_deep() {
    let levels: String = (0..200).map(|i| format!("a{}: &a{} [*a{i}]\n", i + 1, i + 1)).collect();
    let errors = errors(format!("a0: &a0 x\n{levels}"));
    assert!(errors.iter().any(|error| error.message.contains("levels of lists and mappings")));
}

/// There is an error, and each names the file and a place in it.
fn assert_refused(content: &[u8]) {
    assert!(
        assert_located(content) > 0,
        "{:?} is taken for a configuration",
        String::from_utf8_lossy(content)
    );
}

/// Each error names the file and a place in it. The number of errors.
fn assert_located(content: &[u8]) -> usize {
    let lines = content.split(|byte| *byte == b'\n' || *byte == b'\r').count();
    let file = file(content);
    let errors: Vec<_> = config::check(&file.path).err().into_iter().flatten().collect();
    for error in &errors {
        assert_eq!(error.file, file.path.display().to_string());
        assert!(error.line >= 1 && error.column >= 1 && error.line <= lines + 1, "{error:?}");
        assert!(!error.message.is_empty() && !error.message.contains(char::is_control), "{error:?}");
    }
    errors.len()
}

/// Places of values in a rule, each `@`.
const PLACES: &[&str] = &[
    "match: @",
    "match: {protocol: @}",
    "match: {protocol: [@, @]}",
    "match: {source: @}",
    "match: {source: [10.0.0.0/8, @], ip_version: 4}",
    "match: {destination: @, source: \"fe80::/10\"}",
    "match: {source_port: @}",
    "match: {destination_port: [@], protocol: @}",
    "match: {tcp_flags: @}",
    "match: {tcp_flags: {set: @, unset: [@]}}",
    "match: {icmp_type: @}",
    "match: {icmp_type: @, protocol: @}",
    "match: {fragment: @, icmp_type: @}",
    "match: {vlan: @}",
    "match: {length: [@, 64-128]}",
    "match: {ip_version: @, protocol: @}",
    "key: @",
    "key: {@: {}}",
    "key: {source: {ipv4: @}}",
    "key: {destination: {ipv6: {@: 1}}}",
    "key: {source_destination: {ipv4: {32: @, 24: @}}}",
    "key: {source: {ipv4: {@: @, 8: 5}}}",
    "burst: @",
    "new_sources: @",
];

/// Values that are good in some of them.
const WORDS: &[&str] = &[
    "tcp",
    "udp",
    "icmp",
    "icmpv6",
    "ah",
    "syn",
    "ack",
    "echo-request",
    "packet-too-big",
    "no",
    "later",
    "4",
    "6",
    "8",
    "source",
    "flow",
    "global",
    "10.0.0.0/8",
    "fe80::/10",
    "5/s",
    "1MB",
];

proptest! {
    #[test]
    fn random_bytes(content in prop::collection::vec(any::<u8>(), 0..300)) {
        assert_refused(&content);
    }

    #[test]
    fn random_text_that_looks_like_yaml(content in "[a&*<:{}\\[\\],\\-?!|>'\"%#~ \t\n\r0/s.]{0,200}") {
        assert_refused(content.as_bytes());
    }

    #[test]
    fn a_configuration_with_damage(
        position in 0_usize..150,
        bytes in prop::collection::vec(any::<u8>(), 0..6),
    ) {
        let mut content = network(&["interfaces: [eth0]", "allow: [10.0.0.0/8]", "table_size: 1"]).into_bytes();
        let begin = position.min(content.len());
        let end = (begin + bytes.len()).min(content.len());
        content.splice(begin..end, bytes);
        assert_located(&content);
    }

    #[test]
    fn any_value_in_any_place(value in "\\PC{0,20}", key in prop::sample::select(vec![
        "name", "rate", "burst", "algorithm", "refill", "count_denied", "action", "key",
    ])) {
        let value = value.replace('\'', "''");
        // The second rule lacks its name or its rate.
        assert_refused(format!("{}    - {{{key}: '{value}'}}\n", rule(&[])).as_bytes());
    }

    #[test]
    fn any_value_in_a_place_with_an_inner_shape(
        value in prop_oneof![
            "\\PC{0,20}|[a-z6-]{1,12}|[0-9]{1,6}(-[0-9]{1,6})?|[0-9.]{1,8}[kMG]?(i?B|bit)?(/[0-9]{0,3}[smhdw])?",
            prop::sample::select(WORDS).prop_map(str::to_owned),
        ],
        place in prop::sample::select(PLACES),
    ) {
        let value = format!("'{}'", value.replace('\'', "''"));
        // Accepted or not: if not, with a place; and it comes back.
        assert_located(rule(&[&place.replace('@', &value)]).as_bytes());
    }
}
