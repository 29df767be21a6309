//! The rules, as functions from paths and texts to findings.

use super::Finding;
use super::source::{self, Line, mentions, uses_crate};

/// Longer Rust files than this are split, except the listed ones.
const MAX_LINES: usize = 400;

/// Files that may be longer, each with the reason.
const LONG_FILES: &[(&str, &str)] = &[];

/// Lines of documents and comments are no longer than this, so that they can be read beside code.
const MAX_COLUMNS: usize = 120;

/// `main.rs` parses arguments and calls the library.
const MAX_MAIN_LINES: usize = 60;

const GOLDEN_VECTORS: &str = "ratelimit-common/tests/vectors.yaml";

/// Checks that need all paths at once.
pub fn check_paths(paths: &[String]) -> Vec<Finding> {
    let rule = |path: &str| match path {
        GOLDEN_VECTORS => None,
        _ if path.ends_with("vectors.yaml") => {
            Some(format!("the golden vectors are in {GOLDEN_VECTORS} only"))
        }
        // In `tests`, a file beside the folder would be a test of its own.
        _ if path.contains("/src/") && path.ends_with("/mod.rs") => Some(
            "the file of a module is called by its name, and lies beside its folder: no `mod.rs`".to_owned(),
        ),
        _ => None,
    };
    paths.iter().filter_map(|path| Some(finding(path, 1, &rule(path)?))).collect()
}

/// Checks one file.
pub fn check_file(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = check_whitespace(path, text);
    if path.ends_with(".md") {
        findings.extend(check_columns(path, text));
        findings.extend(check_sentences(path, text, |line| Some(line)));
    }
    if path == "Cargo.toml" || path.ends_with("/Cargo.toml") {
        findings.extend(check_manifest(path, text));
    }
    if path.ends_with(".rs") && !is_generated(path) {
        findings.extend(check_shape(path, text));
        findings.extend(check_comments(path, text));
        findings.extend(check_sentences(path, text, comment));
        for (index, line) in source::lines(path, text).iter().enumerate() {
            let rules = [unfinished(line), sleeping_test(line), pure_common(path, line)];
            findings.extend(rules.iter().flatten().map(|rule| finding(path, index + 1, rule)));
        }
    }
    findings
}

/// What a generator writes, and a test compares with what it would write now.
fn is_generated(path: &str) -> bool {
    path.split('/').any(|part| part == "generated")
}

fn finding(path: &str, line: usize, rule: &str) -> Finding {
    Finding { path: path.to_owned(), line, rule: rule.to_owned() }
}

/// Inputs of fuzzers are as they are.
fn check_whitespace(path: &str, text: &str) -> Vec<Finding> {
    if path.split('/').any(|part| part == "corpus") {
        return Vec::new();
    }
    let breaches = text.split('\n').enumerate().filter_map(|(index, line)| {
        let rule = match line.strip_suffix('\r') {
            Some(_) => "lines end with a line feed alone",
            None if line.ends_with([' ', '\t']) => "no white space at the end of a line",
            None => return None,
        };
        Some(finding(path, index + 1, rule))
    });
    breaches.collect()
}

/// Rows of tables can't be broken, nor can text that programs take or print.
fn check_columns(path: &str, text: &str) -> Vec<Finding> {
    let rule = format!("a document's line has at most {MAX_COLUMNS} columns");
    let (mut findings, mut is_text) = (Vec::new(), false);
    for (index, line) in text.lines().enumerate() {
        if let Some(language) = line.strip_prefix("```") {
            is_text = language == "text";
        }
        if line.chars().count() > MAX_COLUMNS && !is_text && !line.starts_with('|') {
            findings.push(finding(path, index + 1, &rule));
        }
    }
    findings
}

/// Comments likewise; here too, rows of tables can't be broken.
fn check_comments(path: &str, text: &str) -> Vec<Finding> {
    let rule = format!("a comment's line has at most {MAX_COLUMNS} columns");
    let is_long = |line: &str| {
        let is_row = |text: &str| text.trim_start().starts_with('|');
        line.chars().count() > MAX_COLUMNS && comment(line).is_some_and(|text| !is_row(text))
    };
    let lines = text.lines().enumerate().filter(|(_, line)| is_long(line));
    lines.map(|(index, _)| finding(path, index + 1, &rule)).collect()
}

/// The text of a line that is a comment.
fn comment(line: &str) -> Option<&str> {
    line.trim_start().strip_prefix("//").map(|text| text.trim_start_matches(['/', '!']))
}

/// A sentence names its subject first: one that begins with "Of" is read twice.
fn check_sentences(path: &str, text: &str, words: impl Fn(&str) -> Option<&str>) -> Vec<Finding> {
    let begins_so = |line: &str| {
        line.match_indices("Of ").any(|(at, _)| {
            let before = line[..at].trim_end_matches([' ', '-', '*', '#', '(', '|']);
            before.is_empty() || before.ends_with(['.', ':', '!', '?', ')'])
        })
    };
    let lines = text.lines().enumerate().filter(|(_, line)| words(line).is_some_and(begins_so));
    lines
        .map(|(index, _)| finding(path, index + 1, "no sentence begins with `Of`: its subject comes first"))
        .collect()
}

/// A package that is a workspace of its own (one for fuzzing, say) can't share lints.
fn check_manifest(path: &str, text: &str) -> Option<Finding> {
    let has_table = |name: &str| text.lines().any(|line| line.trim_end() == name);
    let mut lints = text.lines().skip_while(|line| line.trim_end() != "[lints]").skip(1);
    let shares_lints = lints.next().is_some_and(|line| line.replace(' ', "") == "workspace=true");
    let is_breach = has_table("[package]") && !has_table("[workspace]") && !shares_lints;
    is_breach.then(|| finding(path, 1, "a package has the workspace's lints: `[lints]`, `workspace = true`"))
}

fn check_shape(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !text.starts_with("//!") {
        findings.push(finding(path, 1, "the first line starts with `//!` and says what the file is for"));
    }
    let count = text.lines().count();
    if count > MAX_LINES && !LONG_FILES.iter().any(|(long, _)| *long == path) {
        findings.push(finding(
            path,
            MAX_LINES + 1,
            &format!("at most {MAX_LINES} lines; this file has {count}"),
        ));
    }
    if path == "ratelimit/src/main.rs" && count >= MAX_MAIN_LINES {
        let rule = format!("fewer than {MAX_MAIN_LINES} lines: it parses arguments and calls the library");
        findings.push(finding(path, MAX_MAIN_LINES, &rule));
    }
    findings
}

fn unfinished(line: &Line) -> Option<String> {
    let breach = ["todo!", "unimplemented!", "dbg!", "#[ignore"]
        .into_iter()
        .find(|breach| line.code.contains(breach))?;
    Some(format!("no `{breach}` is committed"))
}

fn sleeping_test(line: &Line) -> Option<String> {
    let sleeps = line.code.contains("thread::sleep") || line.code.contains("time::sleep");
    let reason = line.raw.split_once("// tidy: sleep, ").map_or("", |(_, reason)| reason.trim());
    (line.is_test && sleeps && reason.is_empty()).then(|| {
        "tests wait for events or move a fake clock; if it must sleep: `// tidy: sleep, REASON`".to_owned()
    })
}

fn pure_common(path: &str, line: &Line) -> Option<String> {
    if !path.starts_with("ratelimit-common/src/") || line.is_test {
        return None;
    }
    let uses = ["std", "alloc"].into_iter().find(|name| uses_crate(&line.code, name));
    let clock = ["Instant", "SystemTime"].into_iter().find(|name| mentions(&line.code, name));
    let name = uses.or(clock)?;
    Some(format!("ratelimit-common knows no clock and no allocator: no `{name}` outside tests"))
}

#[cfg(test)]
mod tests {
    //! Each rule: what breaks it, and what does not.

    use super::*;

    /// `None`: no finding; else the line of the only one.
    fn line_of_finding(path: &str, text: &str) -> Option<usize> {
        let findings = check_file(path, text);
        assert!(findings.len() <= 1, "{findings:?}");
        findings.first().map(|finding| finding.line)
    }

    #[test]
    fn rules_for_lines_of_rust() {
        let cases = [
            ("ratelimit-common/src/table.rs", "use std::time::Duration;", true),
            ("ratelimit-common/src/table.rs", "use core::time::Duration;", false),
            ("ratelimit-common/src/table.rs", "extern crate alloc;", true),
            ("ratelimit-common/src/table.rs", "fn now() -> Instant {", true),
            ("ratelimit-common/src/table.rs", "#[cfg(test)] use std::vec::Vec;", false),
            ("ratelimit-common/tests/golden.rs", "use std::fs;", false),
            ("xtask/src/tidy/rules.rs", "let breaches = [\"dbg!\"];", false),
            ("xtask/src/main.rs", "dbg!(1);", true),
            ("xtask/src/main.rs", "fn f() { todo!() }", true),
            ("ratelimit/tests/a.rs", "#[ignore = \"slow\"]", true),
            ("ratelimit/tests/a.rs", "std::thread::sleep(d);", true),
            (
                "ratelimit/tests/a.rs",
                "thread::sleep(d); // tidy: sleep, the kernel's clock can't be moved",
                false,
            ),
            ("ratelimit/tests/a.rs", "thread::sleep(d); // tidy: sleep, ", true),
            ("ratelimit/src/dataplane/attach.rs", "tokio::time::sleep(d).await;", false),
        ];
        for (path, code, is_breach) in cases {
            let text = format!("//! A file.\n\n{code}\n");
            let line = line_of_finding(path, text.trim_end());
            assert_eq!(line, is_breach.then_some(3), "{path}: {code}");
        }
    }

    #[test]
    fn lines_of_documents_are_short() {
        let (most, more) = ("x".repeat(MAX_COLUMNS), "x".repeat(MAX_COLUMNS + 1));
        for (text, expected) in [
            (format!("one\n{most}\n"), None),
            (format!("one\n{more}\n"), Some(2)),
            (format!("```text\n{more}\n```\n| {more} |\n"), None),
            (format!("```text\n```\n\n```sh\n{more}\n```\n"), Some(5)),
        ] {
            assert_eq!(line_of_finding("README.md", &text), expected, "{text}");
        }
        let most = &most[7..];
        for (line, is_breach) in [
            (format!("    // {most}"), false),
            (format!("    // {most}x"), true),
            (format!("//! {most}xxxx"), true),
            (format!("/// | {most}xxx |"), false),
            (format!("let text = \"{most}\";"), false),
        ] {
            let text = format!("//! A file.\n\n{line}\n");
            assert_eq!(line_of_finding("a/src/b.rs", &text), is_breach.then_some(3), "{line}");
        }
    }

    #[test]
    fn sentences_begin_with_their_subjects() {
        let cases = [
            ("README.md", "Of several rules the first counts.", true),
            ("README.md", "Rules count. Of several, the first does.", true),
            ("README.md", "- **Of several** the first counts.", true),
            ("README.md", "The first of several counts. Often it is alone.", false),
            ("README.md", "| Number Of rules |", false),
            ("a/src/b.rs", "/// Of several rules, the first.", true),
            ("a/src/b.rs", "let a = 1; // The first. Of several.", false),
            ("a/src/b.rs", "let text = \"Of several rules the first counts\";", false),
        ];
        for (path, line, is_breach) in cases {
            let text = format!("//! A file.\n\n{line}\n");
            assert_eq!(line_of_finding(path, &text), is_breach.then_some(3), "{path}: {line}");
        }
    }

    #[test]
    fn rules_for_whole_files() {
        let long = format!("//! A file.\n{}", "//\n".repeat(MAX_LINES));
        let main = format!("//! A file.\n{}", "//\n".repeat(MAX_MAIN_LINES - 1));
        let cases = [
            ("a/src/b.rs", "//! A file.\n", None),
            ("a/src/b.rs", "use core::fmt;\n//! A file.\n", Some(1)),
            ("a/src/b.rs", "", Some(1)),
            ("a/src/generated/b.rs", "use core::fmt;\n", None),
            ("a/src/b.rs", &long, Some(MAX_LINES + 1)),
            ("a/src/main.rs", &main, None),
            ("ratelimit/src/main.rs", &main, Some(MAX_MAIN_LINES)),
            ("README.md", "one\ntwo \n", Some(2)),
            ("README.md", "one\r\ntwo\n", Some(1)),
            ("fuzz/corpus/packet/1", "one \r\n", None),
            ("a/Cargo.toml", "[package]\nname = \"a\"\n\n[lints]\nworkspace = true\n", None),
            ("a/Cargo.toml", "[package]\nname = \"a\"\n\n[lints.rust]\nunsafe_code = \"deny\"\n", Some(1)),
            ("fuzz/Cargo.toml", "[package]\nname = \"fuzz\"\n\n[workspace]\n", None),
            ("Cargo.toml", "[workspace]\nmembers = []\n", None),
        ];
        for (path, text, line) in cases {
            assert_eq!(line_of_finding(path, text), line, "{path}: {text}");
        }
    }

    #[test]
    fn one_copy_of_the_golden_vectors() {
        let paths =
            |paths: &[&str]| check_paths(&paths.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>());
        assert_eq!(paths(&[GOLDEN_VECTORS, "README.md"]), []);
        let findings = paths(&[GOLDEN_VECTORS, "ratelimit/tests/vectors.yaml"]);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].path, "ratelimit/tests/vectors.yaml");
    }

    #[test]
    fn modules_are_called_by_their_names() {
        let cases = [("a/src/b.rs", 0), ("a/src/b/mod.rs", 1), ("a/tests/b/mod.rs", 0), ("a/src/mod.rs", 1)];
        for (path, count) in cases {
            assert_eq!(check_paths(&[path.to_owned()]).len(), count, "{path}");
        }
    }
}
