//! Text with `*` in it, each of which stands for any text.

/// A pattern, taken apart at its stars.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    /// Without a star.
    Exact(Box<str>),
    /// What comes before the first star, between two, and after the last.
    Stars {
        /// Before the first.
        prefix: Box<str>,
        /// Between two, in order, none empty.
        inner: Vec<Box<str>>,
        /// After the last.
        suffix: Box<str>,
    },
}

impl Pattern {
    pub(super) fn new(text: &str) -> Self {
        let Some((prefix, rest)) = text.split_once('*') else { return Self::Exact(text.into()) };
        let (inner, suffix) = rest.rsplit_once('*').unwrap_or(("", rest));
        let inner = inner.split('*').filter(|part| !part.is_empty()).map(Box::from).collect();
        Self::Stars { prefix: prefix.into(), inner, suffix: suffix.into() }
    }

    /// Whether it is about all of `text`.
    pub(super) fn matches(&self, text: &str) -> bool {
        let (prefix, inner, suffix) = match self {
            Self::Exact(exact) => return **exact == *text,
            Self::Stars { prefix, inner, suffix } => (prefix, inner, suffix),
        };
        let between = text.strip_prefix(&**prefix).and_then(|rest| rest.strip_suffix(&**suffix));
        // The first place where a part fits leaves most for those after it.
        let behind = |rest: &str, part: &str| rest.find(part).map(|at| at + part.len());
        let fits = |mut rest: &'_ str| {
            for part in inner {
                match behind(rest, part) {
                    Some(end) => rest = rest.get(end..).unwrap_or_default(),
                    None => return false,
                }
            }
            true
        };
        between.is_some_and(fits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_any_text_anywhere() {
        let cases = [
            ("foo*", &["foo", "foobar"][..], &["fo", "xfoo", ""][..]),
            ("*foo", &["foo", "xfoo"], &["foox"]),
            ("*", &["", "x"], &[]),
            ("**", &["", "x"], &[]),
            ("bar*b", &["barb", "bar-b", "barbarb"], &["bar", "bab", "barbc"]),
            ("ab*ba", &["abba", "abxba"], &["aba", "ab"]),
            (
                "foo*bar*baz",
                &["foobarbaz", "foo1bar2baz", "foobarbarbaz"],
                &["foobaz", "foobazbar", "foobarbaz2"],
            ),
            ("a*bc*bc", &["abcbc", "abcxbc"], &["abc"]),
            ("/api*v1", &["/api/x/v1"], &["/api/v2"]),
            ("grö*e", &["größe", "gröe"], &["groesse"]),
            ("plain", &["plain"], &["plai", "plain*"]),
        ];
        for (pattern, good, bad) in cases {
            let compiled = Pattern::new(pattern);
            good.iter().for_each(|text| assert!(compiled.matches(text), "{pattern} {text}"));
            bad.iter().for_each(|text| assert!(!compiled.matches(text), "{pattern} {text}"));
        }
    }
}
