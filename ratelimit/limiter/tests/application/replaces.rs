//! Limits that replace each other, or nothing: what is said of their files.

use ratelimit_config::{self as config, CheckedFile, ConfigError};

use crate::{files, lab, request};

/// Warnings as `FILE:LINE FIELD: MESSAGE`, where the file is its number.
fn warnings(contents: &[&str]) -> Vec<String> {
    let files = files(contents);
    let checked = config::check_rules(&files.paths, true).unwrap();
    let shown = |warning: &ConfigError| {
        let file = files.paths.iter().position(|path| *path.to_string_lossy() == *warning.file).unwrap();
        format!("{file}:{} {}: {}", warning.line, warning.field, warning.message)
    };
    let found: Vec<String> = checked.warnings.iter().map(shown).collect();
    let one_by_one = config::check_files(&files.paths, true, &|_| Ok(())).into_iter().flat_map(|file| {
        match file.unwrap() {
            CheckedFile::Rules { warnings, .. } => warnings,
            CheckedFile::Configuration(checked) => checked.warnings,
        }
    });
    assert_eq!(one_by_one.collect::<Vec<_>>(), checked.warnings, "`validate` says what a configuration does");
    found
}

/// A file with a limit in each line: its name, if it has one, and those that it replaces.
fn replacing(domain: &str, limits: &[(&str, &[&str])]) -> String {
    let mut text = format!("domain: {domain}\ndescriptors:\n");
    for (index, (name, others)) in limits.iter().enumerate() {
        let name = if name.is_empty() { String::new() } else { format!("name: {name}, ") };
        let others: Vec<String> = others.iter().map(|other| format!("{{name: {other}}}")).collect();
        let limit = format!("{name}replaces: [{}], unit: day, requests_per_unit: 1", others.join(", "));
        text += &format!("- {{key: {domain}{index}{}, rate_limit: {{{limit}}}}}\n", others.len());
    }
    text
}

#[test]
fn limits_that_replace_each_other_are_a_warning() {
    let found = warnings(&[&replacing("d", &[("a", &["b"]), ("b", &["a"]), ("", &["a", "b"])])]);
    let expected = "0:4 descriptors[1].rate_limit.replaces[0].name: `a` and `b` replace each other, so \
        neither limit applies to a request with both; let only one replace the other";
    assert_eq!(found, [expected]);
}

#[test]
fn circles_are_a_warning_where_they_close() {
    let circle = replacing("d", &[("x", &["a"]), ("c", &["a"]), ("b", &["c"]), ("a", &["b"])]);
    let found = warnings(&[&circle]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].starts_with(
            "0:4 descriptors[1].rate_limit.replaces[0].name: `a`, `b`, `c` replace each other in a circle"
        ),
        "{found:?}"
    );
    let chain = replacing("d", &[("a", &["b", "c", "d"]), ("b", &["c", "d"]), ("c", &["d"]), ("d", &[])]);
    assert_eq!(warnings(&[&chain]), [""; 0]);
}

#[test]
fn names_count_over_all_files_of_a_domain_and_no_further() {
    let [one, two] = [&[("a", &["b"][..])][..], &[("b", &["a"])]].map(|limits| replacing("d", limits));
    let two = two.replace("key: d0", "key: other");
    let found = warnings(&[&one, &two]);
    assert_eq!(found.len(), 1);
    assert!(found[0].starts_with("1:3 ") && found[0].contains("`a` and `b` replace each other"), "{found:?}");
    let found = warnings(&[&one, &replacing("e", &[("b", &["a"])])]);
    let nobody = |name| format!("no limit of the domain has the name `{name}`, so this replaces nothing");
    let place = "3 descriptors[0].rate_limit.replaces[0].name";
    assert_eq!(found, [format!("0:{place}: {}", nobody("b")), format!("1:{place}: {}", nobody("a"))]);
}

#[test]
fn a_chain_through_a_whole_file_is_followed_and_circles_are_bounded() {
    let names: Vec<String> = (0..3_000).map(|number| format!("n{number}")).collect();
    let next = |index: usize| [&*names[(index + 1) % names.len()], &*names[0]];
    let others: Vec<[&str; 2]> = (0..names.len()).map(next).collect();
    let limits: Vec<(&str, &[&str])> =
        names.iter().zip(&others).skip(1).map(|(name, others)| (&**name, &others[..])).collect();
    let start = [("n0", &["n1"][..])];
    let found = warnings(&[&replacing("d", &[&start[..], &limits[..]].concat())]);
    assert_eq!(found.len(), 100);
}

#[test]
fn of_a_request_with_both_neither_applies_indeed() {
    let lab = lab(&replacing("d", &[("a", &["b"]), ("b", &["a"])]));
    assert!((0..3).all(|_| lab.ask(&request(&["d01", "d11"])).allowed()));
    assert_eq!(lab.passes("d01", 3), 1);
}
