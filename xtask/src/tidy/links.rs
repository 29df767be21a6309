//! Links between documents: each relative link of a Markdown file leads to a file or directory that git knows, and its
//! anchor to a heading there. Any file that names a document of `docs` names one that exists.
//!
//! Links to other sites are not followed, and links in code are none.

use std::collections::BTreeMap;

use super::Finding;
use crate::markdown::{is_elsewhere, links, prose, resolve};

/// Checks all texts, by their paths, against all paths.
pub fn check(paths: &[String], texts: &BTreeMap<&str, String>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in texts {
        let mut report =
            |line: usize, rule: String| findings.push(Finding { path: (*path).to_owned(), line, rule });
        for (index, line) in text.lines().enumerate() {
            for name in named_documents(line).filter(|name| !paths.iter().any(|path| path == name)) {
                report(index + 1, format!("`{name}` is not a document"));
            }
        }
        if !path.ends_with(".md") {
            continue;
        }
        for link in links(text) {
            if let Err(rule) = follow(path, &text[link.target], paths, texts) {
                report(link.line, rule);
            }
        }
    }
    findings
}

/// Whether the link of a document leads somewhere.
fn follow(from: &str, target: &str, paths: &[String], texts: &BTreeMap<&str, String>) -> Result<(), String> {
    if is_elsewhere(target) {
        return Ok(());
    }
    let (file, anchor) = target.split_once('#').map_or((target, None), |(file, anchor)| (file, Some(anchor)));
    let to = if file.is_empty() { from.to_owned() } else { resolve(from, file) };
    let directory = format!("{to}/");
    if !paths.iter().any(|path| *path == to || path.starts_with(&directory)) {
        return Err(format!("the link to `{target}` leads nowhere: there is no `{to}`"));
    }
    let Some(anchor) = anchor else { return Ok(()) };
    let has_anchor =
        texts.get(to.as_str()).is_some_and(|text| anchors(text).iter().any(|name| name == anchor));
    if has_anchor { Ok(()) } else { Err(format!("`{to}` has no heading for `#{anchor}`")) }
}

/// The anchors of a document's headings, as GitHub makes them: in lower case, blanks as hyphens, other characters left
/// out, and a number behind those that were there before.
fn anchors(text: &str) -> Vec<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let headings = prose(text).filter_map(|(_, _, line)| {
        let heading = line.trim_start_matches('#');
        (heading.len() < line.len()).then(|| heading.strip_prefix(' ')).flatten()
    });
    let anchor = |heading: &str| -> String {
        let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    let numbered = headings.map(anchor).map(|name| {
        let count = seen.entry(name.clone()).and_modify(|count| *count += 1).or_insert(0);
        if *count == 0 { name } else { format!("{name}-{count}") }
    });
    numbered.collect()
}

/// What a line names below `docs`.
fn named_documents(line: &str) -> impl Iterator<Item = String> {
    let ends = line.match_indices("docs/").map(|(start, found)| start + found.len());
    ends.filter_map(|end| {
        let rest = line.get(end..)?;
        let length = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '-')?;
        rest.get(length..)?.starts_with(".md").then(|| format!("docs/{}.md", &rest[..length]))
    })
}

#[cfg(test)]
mod tests {
    //! Links that lead somewhere, and links that do not.

    use super::*;

    const GUIDE: &str = "# A guide\n\n## What `it` does, in short\n\n## Twice\n\n## Twice\n";

    /// The lines and rules that a document breaks beside others.
    fn findings(path: &str, text: &str) -> Vec<(usize, String)> {
        let paths = ["README.md", "guides/one.md", "guides/two.md", "config/envoy/envoy.yaml"];
        let paths: Vec<String> = paths.iter().chain([&path]).map(|path| (*path).to_owned()).collect();
        let mut texts = BTreeMap::from([("guides/two.md", GUIDE.to_owned())]);
        texts.insert(path, text.to_owned());
        check(&paths, &texts).into_iter().map(|finding| (finding.line, finding.rule)).collect()
    }

    #[test]
    fn good_links_are_followed() {
        let text = "[a](two.md), [b](../README.md) and [c](../config/envoy)\n[d](../config/envoy/envoy.yaml)\n\
                    [e](two.md#what-it-does-in-short) [f](two.md#twice-1) [g](#here)\n# Here\n\
                    [h](https://example.org/x#y) `[i](nowhere.md)`\n```\n[j](nowhere.md)\n```\n    [k](nowhere.md)\n";
        assert_eq!(findings("guides/one.md", text), []);
    }

    #[test]
    fn broken_links_are_found() {
        let cases = [
            ("[a](three.md)", "no `guides/three.md`"),
            ("[a](README.md)", "no `guides/README.md`"),
            ("![a](two.svg)", "no `guides/two.svg`"),
            ("`code` and [a](../config/nginx)", "no `config/nginx`"),
            ("`[a](b.md)` and [c](three.md)", "no `guides/three.md`"),
            ("[a](two.md#twice-2)", "no heading for `#twice-2`"),
            ("[a](#nowhere)", "no heading for `#nowhere`"),
            ("[a](../config/envoy/envoy.yaml#routes)", "no heading for `#routes`"),
        ];
        for (text, expected) in cases {
            let found = findings("guides/one.md", &format!("# One\n\n{text}\n"));
            assert!(
                found.len() == 1 && found[0].0 == 3 && found[0].1.contains(expected),
                "{text}: {found:?}"
            );
        }
    }

    #[test]
    fn a_document_that_is_named_exists() {
        let named = |name: &str| findings("src/lib.rs", &format!("//! See {}/{name}.\n", "docs"));
        assert_eq!(named("budgets.md"), [(1, format!("`{}/budgets.md` is not a document", "docs"))]);
        assert_eq!(named("*.md"), []);
        assert_eq!(named("budgets"), []);
    }
}
