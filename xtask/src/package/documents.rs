//! The documents of a package. Their links lead to what is installed with them; where that lacks what they name, they
//! say that the sources have it.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};

use super::files::{files_in, read};
use super::tree::Tree;
use crate::command;
use crate::markdown::{is_elsewhere, links, resolve};

/// Where documents are.
pub const DOCUMENTS: &str = "usr/share/doc/ratelimit";

/// Where the licence is.
pub const COPYRIGHT: &str = "usr/share/doc/ratelimit/copyright";

/// Adds all of them; `places` says where other files of the sources are in the package.
pub fn add(tree: &Tree, places: &BTreeMap<String, String>) -> Result<()> {
    let mut places = places.clone();
    let documents = documents()?;
    places.extend(documents.clone());
    for (from, to) in &documents {
        let text = String::from_utf8(read(&command::workspace().join(from))?)
            .with_context(|| format!("reading {from}"))?;
        tree.write_gz(to, installed(from, &text, &places)?.as_bytes())?;
    }
    Ok(())
}

/// Their paths in the sources, and in the package.
fn documents() -> Result<Vec<(String, String)>> {
    let mut documents = vec![("CHANGELOG.md".to_owned(), format!("{DOCUMENTS}/changelog.gz"))];
    let mut add = |name: String| documents.push((name.clone(), format!("{DOCUMENTS}/{name}.gz")));
    add("README.md".to_owned());
    add("CONFIGURATION.md".to_owned());
    for path in files_in(&command::workspace().join("docs"))? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.ends_with(".md") {
            add(format!("docs/{name}"));
        }
    }
    Ok(documents)
}

/// A document as it is installed.
fn installed(document: &str, text: &str, places: &BTreeMap<String, String>) -> Result<String> {
    let from = places.get(document).with_context(|| format!("{document} is not installed"))?;
    let mut text = text.to_owned();
    // From the end, so that those before keep their places.
    for link in links(&text).into_iter().rev() {
        let target = &text[link.target.clone()];
        if is_elsewhere(target) || target.starts_with('#') {
            continue;
        }
        let (file, anchor) = target.split_at(target.find('#').unwrap_or(target.len()));
        match places.get(&resolve(document, file)) {
            Some(place) => {
                let target = format!("{}{anchor}", seen_from(from, place));
                text.replace_range(link.target, &target);
            }
            None => {
                let start = label(&text[..link.target.start])
                    .with_context(|| format!("{document}:{}: a link without a label", link.line))?;
                let is_picture = text[..start].ends_with('!');
                ensure!(!is_picture, "{document}:{}: a picture that is not installed", link.line);
                let label = &text[start + 1..link.target.start - "](".len()];
                let end =
                    text[link.target.end..].find(')').map_or(text.len(), |end| link.target.end + end + 1);
                let label = format!("{label} (in the sources)");
                text.replace_range(start..end, &label);
            }
        }
    }
    Ok(text)
}

/// Where the label starts of a link whose target comes next.
fn label(before: &str) -> Option<usize> {
    let mut depth = 0;
    before.char_indices().rev().find_map(|(index, character)| {
        depth += match character {
            ']' => 1,
            '[' => -1,
            _ => 0,
        };
        (character == '[' && depth == 0).then_some(index)
    })
}

/// A path as a document names it: what lies elsewhere than the documents by its whole path.
fn seen_from(document: &str, place: &str) -> String {
    let below = |path: &str| path.strip_prefix(DOCUMENTS).map(|path| path.trim_start_matches('/').to_owned());
    let (Some(document), Some(place)) = (below(document), below(place)) else { return format!("/{place}") };
    match document.split_once('/') {
        None => place,
        Some((directory, _)) => match place.strip_prefix(&format!("{directory}/")) {
            Some(beside) => beside.to_owned(),
            None => format!("../{place}"),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::files;
    use super::*;

    #[test]
    fn links_lead_to_what_is_installed() {
        let place = |from: &str, to: &str| (from.to_owned(), to.to_owned());
        let places = BTreeMap::from([
            place("README.md", "usr/share/doc/ratelimit/README.md.gz"),
            place("docs/proxy.md", "usr/share/doc/ratelimit/docs/proxy.md.gz"),
            place("docs/nginx.md", "usr/share/doc/ratelimit/docs/nginx.md.gz"),
            place("config/lists", "usr/share/ratelimit/lists"),
        ]);
        let text = "[b](nginx.md#part), [`up`](../README.md), [lists](../config/lists) and [A](../ARCHITECTURE.md#x)\n\
                    ![a\npicture](https://example.org/p.svg) [here](#here) `[c](nginx.md)`\n    [d](nginx.md)\n\
                    [a long\nlabel](../src) ends.\n";
        let expected = "[b](nginx.md.gz#part), [`up`](../README.md.gz), [lists](/usr/share/ratelimit/lists) and \
                        A (in the sources)\n\
                        ![a\npicture](https://example.org/p.svg) [here](#here) `[c](nginx.md)`\n    [d](nginx.md)\n\
                        a long\nlabel (in the sources) ends.\n";
        assert_eq!(installed("docs/proxy.md", text, &places).unwrap(), expected);
        assert_eq!(installed("README.md", "[a](docs/proxy.md)", &places).unwrap(), "[a](docs/proxy.md.gz)");
        assert!(installed("README.md", "![a](a.svg)", &places).is_err());
    }

    #[test]
    fn no_link_of_a_packaged_document_is_dead() {
        let copied = files::places().unwrap();
        let documents = documents().unwrap();
        let all: BTreeMap<String, String> = copied.into_iter().chain(documents.clone()).collect();
        let installed_paths: BTreeSet<&str> = all.values().map(String::as_str).collect();
        let mut followed = 0;
        for (from, to) in &documents {
            let text = String::from_utf8(read(&command::workspace().join(from)).unwrap()).unwrap();
            let text = installed(from, &text, &all).unwrap();
            for link in links(&text) {
                let target = &text[link.target];
                let file = target.split('#').next().unwrap();
                if is_elsewhere(target) || file.is_empty() {
                    continue;
                }
                let path = file.strip_prefix('/').map_or_else(|| resolve(to, file), str::to_owned);
                assert!(installed_paths.contains(path.as_str()), "{to}: {target}");
                followed += 1;
            }
        }
        assert!(followed > 50, "{followed}");
    }
}
