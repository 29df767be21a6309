//! The glossary of ARCHITECTURE.md: each type that it names is defined once in the workspace, in the crate that it
//! says. So a word that it explains has one meaning, and a type that is renamed or moved is renamed there, too.
//!
//! Tests, benchmarks and generated code may use a name again.

use std::collections::BTreeMap;

use super::Finding;
use super::source;

const DOCUMENT: &str = "ARCHITECTURE.md";

const HEADING: &str = "## Glossary";

/// Cells of a row: the word, what it means, its type, the crate.
const CELLS: usize = 4;

/// What defines a type.
const KEYWORDS: [&str; 5] = ["struct", "enum", "trait", "union", "type"];

/// Checks all texts, by their paths.
pub fn check(texts: &BTreeMap<&str, String>) -> Vec<Finding> {
    let Some(glossary) = texts.get(DOCUMENT) else { return Vec::new() };
    let rows = rows(glossary);
    if rows.is_empty() {
        return vec![finding(1, format!("there is no table under `{HEADING}`"))];
    }
    let definitions = definitions(texts);
    let check =
        |(line, row): (usize, Vec<&str>)| judge(&row, &definitions).err().map(|rule| finding(line, rule));
    rows.into_iter().filter_map(check).collect()
}

fn finding(line: usize, rule: String) -> Finding {
    Finding { path: DOCUMENT.to_owned(), line, rule }
}

/// The rows of the table under the heading, with their lines; without its head.
fn rows(text: &str) -> Vec<(usize, Vec<&str>)> {
    let section = text.lines().enumerate().skip_while(|(_, line)| *line != HEADING).skip(1);
    let section = section.take_while(|(_, line)| !line.starts_with("## "));
    let table =
        section.filter_map(|(index, line)| Some((index + 1, line.strip_prefix('|')?.strip_suffix('|')?)));
    table.skip(2).map(|(line, row)| (line, row.split('|').map(str::trim).collect())).collect()
}

/// Whether a row's type, if it has one, is defined once, and where the row says.
fn judge(row: &[&str], definitions: &BTreeMap<String, Vec<&str>>) -> Result<(), String> {
    let &[_, _, name, package] = row else {
        return Err(format!("a row of the glossary has {CELLS} cells: word, meaning, type, crate"));
    };
    if name.is_empty() {
        return Ok(());
    }
    let name = name.strip_prefix('`').and_then(|name| name.strip_suffix('`')).unwrap_or_default();
    match definitions.get(name).map_or(&[][..], Vec::as_slice) {
        [] => Err(format!("no type is called `{name}`")),
        [path] if is_in(path, package) => Ok(()),
        [path] => Err(format!("`{name}` is not in {package} but in {path}")),
        paths => Err(format!("`{name}` has more than one meaning: {}", paths.join(", "))),
    }
}

/// Whether a file belongs to a crate.
fn is_in(path: &str, package: &str) -> bool {
    let below = package.replacen("ratelimit-", "ratelimit/", 1);
    [package, &below].iter().any(|folder| path.starts_with(&format!("{folder}/src/")))
}

/// The types of the workspace, each with the files that define it.
fn definitions<'t>(texts: &'t BTreeMap<&str, String>) -> BTreeMap<String, Vec<&'t str>> {
    let mut definitions: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    let files = texts.iter().filter(|(path, _)| path.ends_with(".rs") && !path.contains("/generated/"));
    for (path, text) in files {
        for line in source::lines(path, text).iter().filter(|line| !line.is_test) {
            if let Some(name) = defined(&line.code) {
                definitions.entry(name.to_owned()).or_default().push(path);
            }
        }
    }
    definitions
}

/// The type that a line of code defines. An indented `type` is a trait's, of which each implementation has one.
fn defined(code: &str) -> Option<&str> {
    let mut words = code.split(|character: char| !character.is_alphanumeric() && character != '_');
    let keyword = words.find(|word| KEYWORDS.contains(word))?;
    let is_associated = keyword == "type" && code.starts_with(' ');
    words.next().filter(|name| !is_associated && name.starts_with(char::is_uppercase))
}

#[cfg(test)]
mod tests {
    //! What the glossary may say of types, and what not.

    use super::*;

    const SOURCES: [(&str, &str); 6] = [
        (
            "ratelimit-common/src/wire.rs",
            "pub struct Rule {\n}\nimpl Host for Rule {\n    type Set = Rule;\n}\n",
        ),
        ("ratelimit/policy/src/lib.rs", "pub enum Mode {}\npub(crate) type Key<T> = Vec<T>;\n"),
        ("ratelimit/src/cli.rs", "struct Mode;\n// struct Rule\nconst A: &str = \"struct Rule\";\n"),
        (
            "ratelimit/src/top.rs",
            "unsafe trait Set: Copy {}\n#[cfg(test)]\nmod tests {\n    struct Rule;\n}\n",
        ),
        ("ratelimit/tests/support/rule.rs", "pub struct Rule;\n"),
        ("ratelimit/servers/src/proto/generated/a.rs", "pub struct Rule {}\n"),
    ];

    fn findings(row: &str) -> Vec<(usize, String)> {
        let text = format!(
            "# A\n\n{HEADING}\n\n| word | meaning | type | crate |\n|---|---|---|---|\n{row}\n\n## B\n"
        );
        let document = [(DOCUMENT, format!("{text}| `x` | y |\n"))];
        let sources = SOURCES.map(|(path, source)| (path, source.to_owned()));
        let texts = document.into_iter().chain(sources).collect();
        check(&texts).into_iter().map(|finding| (finding.line, finding.rule)).collect()
    }

    #[test]
    fn types_that_are_defined_once_are_all_right() {
        for row in [
            "| rule | a limit | `Rule` | ratelimit-common |",
            "| key | a source | `Key` | ratelimit-policy |",
            "| set | eight slots | `Set` | ratelimit |",
            "| cost | what a packet takes | | |",
        ] {
            assert_eq!(findings(row), [], "{row}");
        }
    }

    #[test]
    fn other_rows_are_found() {
        let cases = [
            (
                "| mode | how | `Mode` | ratelimit |",
                "more than one meaning: ratelimit/policy/src/lib.rs, ratelimit/src/cli.rs",
            ),
            (
                "| set | eight slots | `Set` | ratelimit-common |",
                "not in ratelimit-common but in ratelimit/src/top.rs",
            ),
            ("| rule | a limit | `Rules` | ratelimit-common |", "no type is called `Rules`"),
            ("| rule | a limit | Rule | ratelimit-common |", "no type is called"),
            ("| rule | a limit | `Rule` |", "4 cells"),
        ];
        for (row, expected) in cases {
            let found = findings(row);
            assert!(found.len() == 1 && found[0].0 == 7 && found[0].1.contains(expected), "{row}: {found:?}");
        }
    }

    #[test]
    fn there_is_a_glossary() {
        assert_eq!(findings("").len(), 1);
        assert_eq!(check(&BTreeMap::from([(DOCUMENT, "# A\n".to_owned())])).len(), 1);
    }
}
