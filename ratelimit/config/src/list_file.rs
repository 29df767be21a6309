//! Files of prefixes: an address, a prefix or a range of addresses a line; `#` and `;` begin comments. One grammar for
//! all lists, those of commands included.

use std::{net::IpAddr, path::Path};

use super::{
    error::quoted,
    source::{self, MOST_LIST_BYTES},
};
use crate::{
    policy::{Prefix, PrefixError, RangeError},
    text::Thousands,
};

/// Mistakes shown of one file.
const MOST_MISTAKES: usize = 20;

/// Lines shown of those that count as something else than they say.
const MOST_SHOWN: usize = 3;

/// Prefixes of one file at most: a line that is a range may be many.
const MOST_PREFIXES: usize = 4 << 20;

/// What begins a comment.
const COMMENTS: [char; 2] = ['#', ';'];

/// Some editors begin a file with it.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// A file of prefixes, read.
#[derive(Debug, Default)]
pub struct ListFile {
    /// The prefixes, each with its line.
    pub prefixes: Vec<(usize, Prefix)>,
    /// What may not be meant in it.
    pub warnings: Vec<String>,
    /// Whether it says nothing at all: no prefix and no comment.
    pub is_blank: bool,
}

/// What a line has.
#[derive(Debug, PartialEq, Eq)]
enum ListLine {
    Nothing,
    Prefix(Prefix),
    /// A prefix that was written with bits beyond its length.
    Masked(Prefix),
    Range(Vec<Prefix>),
}

/// Why a line has no prefix.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum ListLineError {
    #[error(transparent)]
    Prefix(#[from] PrefixError),
    #[error(transparent)]
    Range(#[from] RangeError),
    /// It has one, and something else behind it.
    #[error("{0} is followed by something else; only a comment may follow, which begins with `#` or `;`")]
    Behind(String),
}

/// Reads a file of prefixes.
///
/// # Errors
/// All mistakes of the file, each with its place.
pub fn read(file: &Path) -> Result<ListFile, Vec<String>> {
    let text = source::read_text(file, MOST_LIST_BYTES);
    let text = text.map_err(|refused| vec![format!("{}: {refused}", file.display())])?;
    parse_all(&text, file, MOST_PREFIXES)
}

/// What is said of a file without anything in it: whoever writes one may have failed. `kept` is how many prefixes it
/// had before that stay in force.
pub fn blank(path: &Path, kept: Option<usize>) -> String {
    let meant = "a comment in it says that an empty list is meant";
    let path = path.display();
    match kept {
        Some(kept) => {
            let count = Thousands(kept as u64);
            format!("{path} is empty now: what it had before stays in force, prefixes: {count}; {meant}")
        }
        None => format!("{path} is empty; {meant}"),
    }
}

fn parse_all(text: &str, file: &Path, most: usize) -> Result<ListFile, Vec<String>> {
    let at = file.display();
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    let mut list = ListFile { is_blank: text.trim().is_empty(), ..ListFile::default() };
    let (mut mistakes, mut more) = (Vec::new(), 0_usize);
    let mut masked = Masked::default();
    for (line, text) in (1..).zip(text.lines()) {
        match parse(text) {
            Ok(ListLine::Nothing) => {}
            Ok(ListLine::Prefix(prefix)) => list.prefixes.push((line, prefix)),
            Ok(ListLine::Masked(prefix)) => {
                masked.note(line, text, &prefix);
                list.prefixes.push((line, prefix));
            }
            Ok(ListLine::Range(prefixes)) => {
                list.prefixes.extend(prefixes.into_iter().map(|one| (line, one)))
            }
            Err(_) if mistakes.len() == MOST_MISTAKES => more += 1,
            Err(error) => {
                mistakes.push(format!("{at}:{line}: {}: {error}", quoted(without_comment(text))));
            }
        }
        if list.prefixes.len() > most {
            let most = Thousands(most as u64);
            return Err(vec![format!("{at}:{line}: more than {most} prefixes, those of ranges included")]);
        }
    }
    if more > 0 {
        mistakes.push(format!("{at}: {more} more such lines"));
    }
    list.warnings.extend(masked.warning(file));
    if mistakes.is_empty() { Ok(list) } else { Err(mistakes) }
}

fn without_comment(line: &str) -> &str {
    line.split(COMMENTS).next().unwrap_or_default().trim()
}

fn parse(line: &str) -> Result<ListLine, ListLineError> {
    let text = without_comment(line);
    if text.is_empty() {
        return Ok(ListLine::Nothing);
    }
    if let Some((first, last)) = text.split_once('-') {
        return parse_range(first.trim(), last.trim());
    }
    match text.parse() {
        Ok(prefix) => Ok(ListLine::Prefix(prefix)),
        Err(PrefixError::HostBits { network, .. }) => {
            // Without these bits it may still be no network of packets.
            Ok(ListLine::Masked(Prefix::new(network.address(), network.len())?))
        }
        Err(error) => Err(behind(text).unwrap_or(ListLineError::Prefix(error))),
    }
}

fn parse_range(first: &str, last: &str) -> Result<ListLine, ListLineError> {
    let address = |text: &str| text.parse::<IpAddr>();
    match (address(first), address(last)) {
        (Ok(first), Ok(last)) => Ok(ListLine::Range(Prefix::range(first, last)?)),
        _ => Err(RangeError::Address.into()),
    }
}

/// Whether a prefix is all right but for what comes behind it.
fn behind(text: &str) -> Option<ListLineError> {
    let (first, _) = text.split_once(|character: char| character.is_whitespace() || character == ',')?;
    first.parse::<Prefix>().ok().map(|_| ListLineError::Behind(quoted(first)))
}

/// Prefixes that were written with bits beyond their length.
#[derive(Debug, Default)]
struct Masked {
    count: usize,
    shown: Vec<String>,
}

impl Masked {
    fn note(&mut self, line: usize, text: &str, prefix: &Prefix) {
        self.count += 1;
        if self.shown.len() < MOST_SHOWN {
            self.shown.push(format!("line {line}, {} as {prefix}", quoted(without_comment(text))));
        }
    }

    /// One for all of them.
    fn warning(&self, file: &Path) -> Option<String> {
        let more = match self.count - self.shown.len() {
            0 => String::new(),
            more => format!("; and {} more", Thousands(more as u64)),
        };
        let shown = self.shown.join("; ");
        let what = "bits set beyond the prefix length, which are ignored";
        (self.count > 0).then(|| format!("{}: {what}: {shown}{more}", file.display()))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;

    use super::*;

    fn read_text(text: &[u8]) -> Result<ListFile, Vec<String>> {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("list");
        fs::write(&file, text).unwrap();
        read(&file)
    }

    fn prefixes(text: &[u8]) -> String {
        let list = read_text(text).unwrap();
        list.prefixes.iter().map(|(line, prefix)| format!("{line}:{prefix}")).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn lists_are_read_as_they_are_published() {
        let cases: [(&[u8], &str); 9] = [
            (b"\xef\xbb\xbf10.0.0.0/8\n", "1:10.0.0.0/8"),
            (
                b"; Spamhaus DROP List\n1.10.16.0/20 ; SBL256894\r\n1.19.0.0/16;SBL434604\r\n",
                "2:1.10.16.0/20 3:1.19.0.0/16",
            ),
            (
                b"# all\r\n\r\n192.0.2.1#one\r\n\t2001:db8::/32 \t# other ; still",
                "3:192.0.2.1/32 4:2001:db8::/32",
            ),
            (b"192.0.2.0-192.0.2.127", "1:192.0.2.0/25"),
            (b"192.0.2.1 - 192.0.2.2 ; two", "1:192.0.2.1/32 1:192.0.2.2/32"),
            (b"2001:db8::-2001:db8::1\n10.0.0.0/8", "1:2001:db8::/127 2:10.0.0.0/8"),
            (b"10.0.0.1/8\nfe80::1/10\n", "1:10.0.0.0/8 2:fe80::/10"),
            (b"", ""),
            (b"#", ""),
        ];
        for (text, expected) in cases {
            assert_eq!(prefixes(text), expected, "{}", String::from_utf8_lossy(text));
        }
    }

    #[test]
    fn a_file_is_blank_if_it_does_not_even_have_a_comment() {
        for (text, is_blank) in
            [("", true), ("\n \r\n", true), ("\u{feff}", true), ("#", false), (";\n", false), ("::1", false)]
        {
            assert_eq!(read_text(text.as_bytes()).unwrap().is_blank, is_blank, "{text:?}");
        }
    }

    #[test]
    fn anything_else_is_a_mistake() {
        let cases = [
            ("10.0.0.0 /8", "`10.0.0.0 /8`: `10.0.0.0` is followed by something else"),
            ("10.0.0.0/8 example", "`10.0.0.0/8` is followed by something else; only a comment may follow"),
            ("10.0.0.0/8, 11.0.0.0/8", "`10.0.0.0/8` is followed by something else"),
            ("10.0.0.0/8 // x", "is followed by something else"),
            ("example.org", "`example.org`: not an IP address or prefix"),
            ("10.0.0.0/33", "prefix length 33 is too long"),
            ("::ffff:10.0.0.1/104", "did you mean 10.0.0.0/8?"),
            ("192.0.2.1-9", "a range has an IP address at each end"),
            ("10.0.0.0/8-11.0.0.0/8", "a range has an IP address at each end"),
            ("192.0.2.1-", "a range has an IP address at each end"),
            ("192.0.2.1-192.0.2.2-192.0.2.3", "a range has an IP address at each end"),
            ("192.0.2.9-192.0.2.1", "`192.0.2.9-192.0.2.1`: ends before it begins"),
            ("192.0.2.1-::1", "one end is an IPv4 address"),
            ("\u{feff}\u{feff}10.0.0.0/8", "not an IP address"),
        ];
        for (text, expected) in cases {
            let mistakes = read_text(text.as_bytes()).unwrap_err();
            assert!(mistakes.len() == 1 && mistakes[0].contains(expected), "{text}: {mistakes:?}");
            assert!(mistakes[0].contains("list:1: "), "{mistakes:?}");
        }
    }

    #[test]
    fn bits_beyond_the_length_are_one_warning() {
        let list = read_text(b"10.0.0.1/8\n11.0.0.0/8\nfe80::1/10\n").unwrap();
        let [warning] = &list.warnings[..] else { panic!("{:?}", list.warnings) };
        let expected = "list: bits set beyond the prefix length, which are ignored: line 1, `10.0.0.1/8` as 10.0.0.0/8; \
                        line 3, `fe80::1/10` as fe80::/10";
        assert!(warning.ends_with(expected), "{warning}");
        let many = read_text("10.0.0.1/8\n".repeat(100_000).as_bytes()).unwrap().warnings;
        assert!(many.len() == 1 && many[0].ends_with("; and 99,997 more"), "{many:?}");
        assert!(read_text(b"10.0.0.0/8").unwrap().warnings.is_empty());
    }

    #[test]
    fn ranges_do_not_fill_the_memory() {
        let all_but_two = "::1-ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe\n";
        let parse = |lines| parse_all(&all_but_two.repeat(lines), Path::new("list"), 1_016);
        assert_eq!(parse(4).unwrap().prefixes.len(), 1_016);
        let expected = "list:5: more than 1,016 prefixes, those of ranges included";
        assert_eq!(parse(1_000).unwrap_err(), [expected]);
    }

    proptest! {
        #[test]
        fn any_text_is_a_list_or_mistakes(text in "\\PC*|([0-9a-f:./;# \r\n-]|::|1\\.2\\.3\\.){0,80}") {
            match parse_all(&text, Path::new("list"), 1_000) {
                Ok(list) => prop_assert!(list.prefixes.len() <= 1_000),
                Err(mistakes) => prop_assert!((1..=MOST_MISTAKES + 1).contains(&mistakes.len())),
            }
        }
    }
}
