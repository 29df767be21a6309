//! Words from a fixed list, and what was probably meant by one that is not on it.

use super::error::quoted;

/// Longer texts are not compared with the known words.
const LONGEST_WORD: usize = 64;

/// A word that is not one of those accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} is not known{}", quoted(.word), hint(.word, .accepted))]
pub struct WordError {
    /// What was written.
    pub word: String,
    /// What may be written.
    pub accepted: Vec<&'static str>,
}

/// Finds what a word stands for.
///
/// # Errors
/// The word is none of `words`.
pub fn parse_word<T: Clone>(text: &str, words: &[(&'static str, T)]) -> Result<T, WordError> {
    let found = words.iter().find(|(word, _)| *word == text).map(|(_, meaning)| meaning.clone());
    found.ok_or_else(|| WordError {
        word: text.to_owned(),
        accepted: words.iter().map(|(word, _)| *word).collect(),
    })
}

/// `, did you mean ...?` if a known word is near, else the list of them.
#[must_use]
pub fn hint(word: &str, known: &[&str]) -> String {
    match nearest(word, known) {
        Some(near) => format!(", did you mean `{near}`?"),
        None => format!("; accepted: {}", known.join(", ")),
    }
}

/// The known word that was probably meant.
#[must_use]
pub fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    if word.len() > LONGEST_WORD {
        return None;
    }
    let word = word.to_lowercase().replace('-', "_");
    let near = known.iter().map(|candidate| (strsim::osa_distance(&word, candidate), *candidate));
    // One slip in three characters; in a word of two every other word would be near.
    let (distance, candidate) = near.min_by_key(|(distance, _)| *distance)?;
    (distance <= candidate.chars().count() / 3).then_some(candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_are_suggested_and_far_ones_are_not() {
        let known = ["rate", "burst", "count_denied", "name"];
        let cases = [
            ("ratee", Some("rate")),
            ("Rate", Some("rate")),
            ("busrt", Some("burst")),
            ("count-denied", Some("count_denied")),
            ("countdenied", Some("count_denied")),
            ("nmae", Some("name")),
            ("colour", None),
            ("", None),
        ];
        for (word, expected) in cases {
            assert_eq!(nearest(word, &known), expected, "{word}");
        }
        assert_eq!(nearest(&"rate".repeat(1_000_000), &known), None);
    }
}
