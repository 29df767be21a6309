//! Every block of README.md and `docs` is run by a test as it stands there, or says below itself why it is not.

use std::fs;

use crate::blocks::{self, root};

/// How a block that no test runs says so.
const MARK: &str = "*The tests do not run this: ";

/// The blocks that a test looks up: the document, the language ("" without backticks), a part of the block, and the
/// test's file. The file names the document, and has the part too; without a part the test takes all blocks of that
/// language.
const RUN: &[(&str, &str, &str, &str)] = &[
    ("README.md", "", "ratelimit validate", "ratelimit/tests/kernel/documents.rs"),
    ("docs/algorithms.md", "sh", "", "ratelimit/tests/commands/documents.rs"),
    ("docs/budgets.md", "yaml", "of a virtual host, for budgets", "ratelimit/tests/clients/envoy/budget.rs"),
    ("docs/budgets.md", "sh", "Before the work:", "ratelimit/tests/clients/curl.rs"),
    ("docs/budgets.md", "yaml", "- key: running", "ratelimit/tests/clients/curl.rs"),
    ("docs/budgets.md", "sh", "It begins:", "ratelimit/tests/clients/curl.rs"),
    ("docs/coming-from.md", "nginx", "limit_req_zone", "ratelimit/tests/clients/nginx.rs"),
    ("docs/coming-from.md", "sh", "iptables -A INPUT", "ratelimit/tests/kernel/documents.rs"),
    ("docs/coming-from.md", "nft", "table inet filter", "ratelimit/tests/kernel/documents.rs"),
    ("docs/coming-from.md", "ini", "[sshd]", "ratelimit/tests/kernel/operations/fail2ban.rs"),
    ("docs/envoy.md", "", "for i in", "ratelimit/tests/clients/envoy.rs"),
    ("docs/envoy.md", "", "$ ratelimit check", "ratelimit/tests/clients/envoy.rs"),
    (
        "docs/envoy.md",
        "yaml",
        "routes:                           # of a virtual host\n",
        "ratelimit/tests/clients/envoy.rs",
    ),
    ("docs/envoy.md", "yaml", "authority: ratelimit", "ratelimit/tests/clients/envoy.rs"),
    ("docs/flood.md", "", "", "ratelimit/tests/kernel/operations/flood.rs"),
    ("docs/http-api.md", "", "$ curl -i", "ratelimit/tests/clients/curl.rs"),
    ("docs/interfaces.md", "", "nsenter", "ratelimit/tests/kernel/documents.rs"),
    ("docs/interfaces.md", "", "gro off lro off", "ratelimit/tests/kernel/documents.rs"),
    ("docs/interfaces.md", "", "rxvlan off", "ratelimit/tests/kernel/documents.rs"),
    ("docs/lists-and-bans.md", "", "sudo ratelimit ban", "ratelimit/tests/kernel/documents.rs"),
    ("docs/lists-and-bans.md", "", "seconds_left", "ratelimit/tests/kernel/documents.rs"),
    ("docs/lists-and-bans.md", "ini", "banaction", "ratelimit/tests/kernel/operations/fail2ban.rs"),
    ("docs/network-rules.md", "", "ratelimit validate", "ratelimit/tests/commands/documents.rs"),
    ("docs/nginx.md", "", "nginx -t", "ratelimit/tests/clients/nginx.rs"),
    ("docs/nginx.md", "nginx", "location = /_ratelimit", "ratelimit/tests/clients/nginx.rs"),
    ("docs/operations.md", "", "sudo install target/release", "ratelimit/tests/kernel/documents.rs"),
    ("docs/operations.md", "", "sudo install -m 644", "ratelimit/tests/kernel/documents.rs"),
    (
        "docs/operations.md",
        "",
        "sudo ratelimit run --config /etc/ratelimit.yaml --revert-after",
        "ratelimit/tests/kernel/documents.rs",
    ),
    ("docs/operations.md", "", "$ sudo ratelimit status", "ratelimit/tests/kernel/documents.rs"),
    ("docs/operations.md", "", "listening   gRPC", "ratelimit/tests/kernel/documents.rs"),
    ("docs/operations.md", "", "$ sudo ratelimit top", "ratelimit/tests/kernel/documents.rs"),
    ("docs/operations.md", "", "$ sudo ratelimit events", "ratelimit/tests/kernel/documents.rs"),
    ("docs/proxy.md", "sh", "-m http.server", "ratelimit/tests/clients/proxy.rs"),
    ("docs/proxy.md", "sh", "ratelimit validate", "ratelimit/tests/clients/proxy.rs"),
    ("docs/proxy.md", "sh", "for i in", "ratelimit/tests/clients/proxy.rs"),
    ("docs/request-rules.md", "yaml", "value_in:", "ratelimit/config/tests/config/rule_files.rs"),
    ("docs/request-rules.md", "yaml", "auth: {domain: web", "ratelimit/config/tests/config/rule_files.rs"),
    ("docs/several-daemons.md", "sh", "", "ratelimit/tests/stores/guide.rs"),
    ("docs/simulate.md", "", "printf", "ratelimit/tests/commands/documents.rs"),
    ("docs/simulate.md", "", "traffic.pcap", "ratelimit/tests/commands/documents.rs"),
    ("docs/simulate.md", "", "access.log", "ratelimit/tests/commands/documents.rs"),
    ("docs/troubleshooting.md", "", "", "ratelimit/tests/kernel/documents.rs"),
];

/// Blocks that lie as files in `config`, too: the document, a part of the block, and the file.
const FILES: &[(&str, &str, &str)] = &[
    ("docs/nginx.md", "trusted_hops: 1", "nginx/ratelimit.yaml"),
    ("docs/nginx.md", "domain: web\n", "nginx/web.yaml"),
    ("docs/nginx.md", "location = /_ratelimit", "nginx/ratelimit.conf"),
    ("docs/caddy.md", "forward_auth", "caddy/Caddyfile"),
    ("docs/traefik.md", "forwardAuth", "traefik/ratelimit.yaml"),
];

/// Keys at the top of YAML that `ratelimit/config/tests/config` checks, wherever it stands.
const CHECKED: [&str; 3] = ["network:", "application:", "domain:"];

/// What runs the programs in Rust: they are its documentation.
const DOCTESTS: &str = "ratelimit/src/lib.rs";

fn documents() -> Vec<String> {
    let guides = fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().file_name());
    let guides =
        guides.filter_map(|name| Some(name.into_string().unwrap()).filter(|name| name.ends_with(".md")));
    guides.map(|name| format!("docs/{name}")).chain(["README.md".to_owned()]).collect()
}

fn source(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Whether all of it are tasks of xtask that there are: who runs the tests has run such tasks.
fn is_of_tasks(text: &str) -> bool {
    let tasks = source("xtask/src/main.rs");
    text.lines().all(|line| {
        let Some(words) = line.strip_prefix("cargo xtask ") else { return false };
        let (first, rest) = words.split(' ').next().unwrap().split_at(1);
        tasks.contains(&format!("Task::{}{rest}", first.to_uppercase()))
    })
}

/// Whether the document says below a block that nothing runs it.
fn is_marked(document: &str, language: &str, text: &str) -> bool {
    let written = if language.is_empty() {
        let lines =
            text.lines().map(|line| if line.is_empty() { "\n".to_owned() } else { format!("    {line}\n") });
        lines.collect()
    } else {
        format!("```{language}\n{text}```\n")
    };
    source(document).contains(&format!("{written}\n{MARK}"))
}

/// What runs a block, or why nothing has to.
fn run_by(document: &str, language: &str, text: &str) -> Option<&'static str> {
    // Pictures, and what programs print.
    if ["mermaid", "text"].contains(&language) || is_marked(document, language, text) {
        return Some("nothing");
    }
    if language == "yaml" && text.lines().any(|line| CHECKED.iter().any(|key| line.starts_with(key))) {
        return Some("ratelimit/config/tests/config");
    }
    if language.starts_with("rust") && source(DOCTESTS).contains(&format!("../../{document}")) {
        return Some(DOCTESTS);
    }
    if language.is_empty() && is_of_tasks(text) {
        return Some("xtask");
    }
    let row = RUN.iter().find(|row| row.0 == document && row.1 == language && text.contains(row.2));
    row.map(|row| row.3)
}

#[test]
fn files_beside_a_guide_are_its_blocks() {
    for (document, part, file) in FILES {
        let block = blocks::of(document).into_iter().find(|(_, text)| text.contains(part));
        let (_, text) = block.unwrap_or_else(|| panic!("{document} has no block with {part:?}"));
        assert_eq!(source(&format!("config/{file}")), text, "{file}, and {document}");
    }
}

#[test]
fn each_block_of_a_document_is_run_by_a_test_or_says_that_it_is_not() {
    let mut neither = String::new();
    for document in documents() {
        for (language, text) in blocks::of(&document) {
            if run_by(&document, &language, &text).is_none() {
                neither += &format!("{document}, {language:?}:\n{text}\n");
            }
        }
    }
    let file = file!();
    assert!(
        neither.is_empty(),
        "a test and a row in {file}, or `{MARK}...*` below it, is missing for\n{neither}"
    );
}

#[test]
fn what_the_table_of_blocks_says_is_so() {
    for (document, language, part, file) in RUN {
        let blocks = blocks::of(document);
        let is_there = blocks.iter().any(|(name, text)| name == language && text.contains(part));
        assert!(is_there, "{document} has no block {language:?} with {part:?}");
        let source = source(file).replace("\\\"", "\"");
        let name = document.rsplit('/').next().unwrap();
        let looks_for_it = source.contains(name) && source.contains(part.trim_end());
        assert!(looks_for_it, "{file} does not look for {part:?} in {document}");
    }
}

#[test]
fn blocks_are_told_apart() {
    let printed = blocks::find("docs/simulate.md", "printf");
    assert!(printed.starts_with("$ printf") && printed.ends_with("bob allow remaining=2\n"), "{printed}");
    assert!(run_by("docs/simulate.md", "", &printed).is_some());
    assert_eq!(run_by("docs/simulate.md", "sh", "rm x\n"), None);
    assert_eq!(run_by("README.md", "", "cargo xtask nonsense\n"), None);
    let caddyfile = blocks::find("docs/caddy.md", "forward_auth");
    assert!(is_marked("docs/caddy.md", "caddyfile", &caddyfile));
}
