//! Just enough Rust for the rules: the code of a file without its comments and strings, and which lines are test code.
//!
//! It is no parser: what it reads compiles, since the other tiers check that.

/// One line of a Rust file.
pub struct Line<'a> {
    /// As it is written.
    pub raw: &'a str,
    /// Comments, and what strings contain, blanked out.
    pub code: String,
    /// Whether it is compiled for tests only.
    pub is_test: bool,
}

/// Splits a file into lines.
pub fn lines<'a>(path: &str, text: &'a str) -> Vec<Line<'a>> {
    let blanked = blank(text);
    let code: Vec<&str> = blanked.lines().collect();
    let is_test = if is_test_path(path) { vec![true; code.len()] } else { test_lines(&code) };
    let line =
        |((raw, code), is_test): ((&'a str, &&str), bool)| Line { raw, code: (*code).to_owned(), is_test };
    text.lines().zip(&code).zip(is_test).map(line).collect()
}

/// Whether a whole file is test code: by convention, modules named `tests` and `loom` are compiled for tests only.
pub fn is_test_path(path: &str) -> bool {
    path.split('/').any(|part| ["tests", "tests.rs", "loom", "loom.rs", "benches"].contains(&part))
}

/// Whether the code has this path (`thread::sleep`) or name, not as a part of a longer name or path
/// (`my::thread::sleep` is another one).
pub fn mentions(code: &str, path: &str) -> bool {
    code.match_indices(path).any(|(start, _)| {
        let before = &code[..start];
        let after = &code[start + path.len()..];
        let in_longer_path =
            before.strip_suffix("::").is_some_and(|outer| outer.ends_with(is_name_character));
        let ends_in_name = path.ends_with(is_name_character) && after.starts_with(is_name_character);
        !before.ends_with(is_name_character) && !in_longer_path && !ends_in_name
    })
}

/// Whether the code takes anything from this crate.
pub fn uses_crate(code: &str, name: &str) -> bool {
    mentions(code, &format!("{name}::"))
        || ["use ", "extern crate "].iter().any(|keyword| mentions(code, &format!("{keyword}{name}")))
}

fn is_name_character(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// Replaces comments and the contents of strings by spaces; the lines stay.
fn blank(text: &str) -> String {
    let mut blanked = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let skipped = skipped_length(&blanked, rest);
        let length = skipped.unwrap_or(character.len_utf8());
        let (piece, next) = rest.split_at(length);
        if skipped.is_some() {
            blanked.extend(piece.chars().map(|character| if character == '\n' { '\n' } else { ' ' }));
        } else {
            blanked.push_str(piece);
        }
        rest = next;
    }
    blanked
}

/// The length of the comment or literal that starts here, if one does.
fn skipped_length(before: &str, rest: &str) -> Option<usize> {
    if rest.starts_with("//") {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return Some(block_comment_length(rest));
    }
    if let Some(contents) = rest.strip_prefix('"') {
        let without_hashes = before.trim_end_matches('#');
        if without_hashes.ends_with('r') {
            let close = format!("\"{}", &before[without_hashes.len()..]);
            return Some(contents.find(&close).map_or(rest.len(), |end| 1 + end + close.len()));
        }
        return Some(quoted_length(rest, '"'));
    }
    // Not a lifetime.
    let mut characters = rest.strip_prefix('\'')?.chars();
    let is_escape = characters.next() == Some('\\');
    (is_escape || characters.next() == Some('\'')).then(|| quoted_length(rest, '\''))
}

fn block_comment_length(rest: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while let Some(pair) = rest.as_bytes().get(at..at + 2) {
        match pair {
            b"/*" => depth += 1,
            b"*/" if depth == 1 => return at + 2,
            b"*/" => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
    }
    rest.len()
}

fn quoted_length(rest: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (index, character) in rest.char_indices().skip(1) {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            _ if character == quote => return index + quote.len_utf8(),
            _ => {}
        }
    }
    rest.len()
}

/// Marks the items behind `#[cfg(test)]`, and those behind `#[cfg(loom)]`, which only model tests compile.
fn test_lines(code: &[&str]) -> Vec<bool> {
    let mut is_test = vec![false; code.len()];
    let mut line = 0;
    while line < code.len() {
        let last = if is_test_attribute(code[line]) { item_end(code, line) } else { line };
        if is_test_attribute(code[line]) {
            is_test[line..=last].fill(true);
        }
        line = last + 1;
    }
    is_test
}

fn is_test_attribute(code: &str) -> bool {
    code.split_once("#[cfg(").is_some_and(|(_, condition)| {
        let names_one = ["test", "loom"].iter().any(|name| mentions(condition, name));
        names_one && !condition.contains("not(")
    })
}

/// The line of the brace that closes the item, or of the semicolon that ends it.
fn item_end(code: &[&str], first: usize) -> usize {
    let mut depth = 0;
    for (line, code) in code.iter().enumerate().skip(first) {
        for character in code.chars() {
            match character {
                '(' | '[' | '{' => depth += 1,
                ')' | ']' => depth -= 1,
                '}' => {
                    depth -= 1;
                    if depth == 0 {
                        return line;
                    }
                }
                ';' if depth == 0 => return line,
                _ => {}
            }
        }
    }
    code.len() - 1
}

#[cfg(test)]
mod tests {
    //! Comments, strings, test code, paths.

    use super::*;

    #[test]
    fn blanks_comments_and_strings_only() {
        let cases = [
            ("a // b \"c\n d", "a d"),
            ("a /* b /* c */ d */ e", "a e"),
            ("a /*/ b */ c", "a c"),
            (r#"f("a\"b", c)"#, "f( , c)"),
            (r##"f(r#"a"b"#, c)"##, "f(r# , c)"),
            (r#"f(r"a\", c)"#, "f(r , c)"),
            ("f('\"', '\\'', '\\\\', b)", "f( , , , b)"),
            ("fn f<'a>(x: &'a str)", "fn f<'a>(x: &'a str)"),
            ("\"two\nlines\" b", "b"),
            ("a // é\nb", "a b"),
        ];
        for (text, expected) in cases {
            let blanked = blank(text);
            assert_eq!(blanked.split_whitespace().collect::<Vec<_>>().join(" "), expected, "{text}");
            assert_eq!(blanked.lines().count(), text.lines().count(), "{text}");
        }
    }

    #[test]
    fn marks_items_for_tests() {
        let marks = |text: &str| lines("src/a.rs", text).iter().map(|line| line.is_test).collect::<Vec<_>>();
        assert_eq!(
            marks("a\n#[cfg(test)]\nmod tests {\n fn a() {}\n}\nb"),
            [false, true, true, true, true, false]
        );
        assert_eq!(marks("#[cfg(test)]\nmod tests;\nb"), [true, true, false]);
        assert_eq!(marks("#[cfg(all(loom, test))] use a::{b, c}; \nb"), [true, false]);
        assert_eq!(marks("#[cfg(test)]\nfn a(b: [u8; 2]) {\n c; }\nd"), [true, true, true, false]);
        assert_eq!(marks("#[cfg(not(test))]\nfn a() {}"), [false, false]);
        assert_eq!(marks("#[cfg(feature = \"test\")]\nfn a() {}"), [false, false]);
        for path in ["a/tests/b.rs", "a/src/b/tests.rs", "a/src/b/loom.rs", "a/src/b/loom/c.rs"] {
            assert!(lines(path, "fn a() {}").iter().all(|line| line.is_test), "{path}");
        }
    }

    #[test]
    fn finds_paths_and_names_whole() {
        let cases = [
            ("std::thread::sleep(d)", "std::", true),
            ("::std::thread", "std::", true),
            ("core::alloc::Layout", "alloc::", false),
            ("my_std::x", "std::", false),
            ("let now = Instant::now();", "Instant", true),
            ("InstantLike", "Instant", false),
            ("an_Instant", "Instant", false),
        ];
        for (code, path, expected) in cases {
            assert_eq!(mentions(code, path), expected, "{code}: {path}");
        }
        assert!(uses_crate("pub use aya as bpf;", "aya"));
        assert!(uses_crate("let e: aya::EbpfError;", "aya"));
        assert!(!uses_crate("use ayamanga;", "aya"));
        assert!(!uses_crate("use aya_log::EbpfLogger;", "aya"));
    }
}
