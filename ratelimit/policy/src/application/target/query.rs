//! Parameters of a query.

use super::{
    super::facts::{FactValue, is_named},
    split,
};

/// The value of a parameter of a target's query, decoded.
#[must_use]
pub fn parameter<'t>(target: &'t [u8], name: &str) -> FactValue<'t> {
    let (_, query) = split(target);
    let query = query.strip_prefix(b"?").unwrap_or_default();
    // Some servers take semicolons to lie between parameters, too. All of them find what comes before one.
    let pieces = query.split(|byte| *byte == b'&').flat_map(|between| {
        between.split(|byte| *byte == b';').enumerate().map(|(place, piece)| (piece, place == 0))
    });
    FactValue::of_readings(pieces.filter_map(|(piece, is_first)| {
        let (key, value) = form_urlencoded::parse(piece).next()?;
        Some((value, is_named(key.as_bytes(), name)? && is_first))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_those_of_the_query() {
        let one = |text: &'static str| FactValue::One(text.into());
        for (target, expected) in [
            ("/a?page=%73tart", one("start")),
            ("/a?page=%73tart&page=start", one("start")),
            ("/a?page=start&page=2", FactValue::Several),
            ("/a?page=start&p%61ge=2&page=start", FactValue::Several),
            ("/a?x=http://y/?page=1&page=3", one("3")),
            ("/a?page", one("")),
            ("/a#?page=1", FactValue::Absent),
            ("/a?page=1#&page=2", one("1")),
            ("/a?pages=1", FactValue::Absent),
            ("/a?page=%201%20", one("1")),
            ("/a?page=1%00x", one("1")),
            // What only some servers take for its name.
            ("/a?Page=1", FactValue::Several),
            ("/a?Page=1&page=1", one("1")),
            ("/a?page=1&%20page=2", FactValue::Several),
            ("/a?page=1&page%00=2", FactValue::Several),
            ("/a?page=1&page[]=2", FactValue::Several),
            ("/a?page=1&+page=2", FactValue::Several),
            // What only some servers take for a parameter.
            ("/a?x=1;page=2", FactValue::Several),
            ("/a?page=1;page=2", FactValue::Several),
            ("/a?page=1;x=2", one("1")),
            ("/a?page=1%3Bx=2", one("1;x=2")),
            ("/page=1", FactValue::Absent),
        ] {
            assert_eq!(parameter(target.as_bytes(), "page"), expected, "{target}");
        }
    }
}
