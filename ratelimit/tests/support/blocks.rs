//! README.md and the guides in `docs` as tests read them: their blocks of commands, configurations and output.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The directory that the documents are below.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// All blocks of a document, in order: what stands between three backticks, with the language behind the first ones, or
/// further in than the text, without a language.
pub fn of(name: &str) -> Vec<(String, String)> {
    let document = fs::read_to_string(root().join(name)).unwrap();
    let lines: Vec<&str> = document.lines().collect();
    let is_code = |line: &&str| line.starts_with("    ");
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(line) = lines.get(at) {
        let (language, begin, end, after) = if let Some(language) = line.strip_prefix("```") {
            let begin = at + 1;
            let end = begin + lines[begin..].iter().position(|line| line.starts_with("```")).unwrap();
            (language, begin, end, end + 1)
        } else if is_code(line) && lines[at - 1].is_empty() {
            // As in Markdown, an empty line ends it only if what follows is no code.
            let length = lines[at..].iter().take_while(|line| is_code(line) || line.is_empty()).count();
            let end = at + lines[at..at + length].iter().rposition(is_code).unwrap() + 1;
            ("", at, end, end)
        } else {
            at += 1;
            continue;
        };
        let indent = if language.is_empty() { "    " } else { "" };
        let text = lines[begin..end].iter().map(|line| line.strip_prefix(indent).unwrap_or_default());
        found.push((language.to_owned(), text.fold(String::new(), |text, line| text + line + "\n")));
        at = after;
    }
    found
}

/// The first block of a document that has this in it.
pub fn find(name: &str, part: &str) -> String {
    let found = of(name).into_iter().map(|(_, text)| text).find(|text| text.contains(part));
    found.unwrap_or_else(|| panic!("{name} has no block with {part:?}"))
}
