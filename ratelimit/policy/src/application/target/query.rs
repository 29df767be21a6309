//! Parameters of a query.

use super::{FactValue, split};

/// The value of a parameter of a target's query, decoded.
#[must_use]
pub fn parameter<'t>(target: &'t [u8], name: &str) -> FactValue<'t> {
    let (_, query) = split(target);
    let query = query.strip_prefix(b"?").unwrap_or_default();
    form_urlencoded::parse(query).filter(|(key, _)| key == name).map(|(_, value)| value).collect()
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
            ("/a?Page=1", FactValue::Absent),
            ("/page=1", FactValue::Absent),
        ] {
            assert_eq!(parameter(target.as_bytes(), "page"), expected, "{target}");
        }
    }
}
