//! Costs in JSON. A client may choose them, as the length of what it sends, so a number that is none of a cost makes no
//! error: it is more than any limit lets through.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{Error, Visitor},
};
use serde_json::Value;

/// Hits, with what is negative or larger than any number as the most. Parts of a hit are whole ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost(pub u64);

impl Cost {
    /// As the hits of a whole request.
    pub fn of_request(self) -> u32 {
        u32::try_from(self.0).unwrap_or(u32::MAX)
    }

    fn of_float(hits: f64) -> Self {
        Self(if hits >= 0.0 { hits.ceil() as u64 } else { u64::MAX })
    }

    /// What stands where protobuf has a number, which may be in quotation marks.
    fn of_value(value: &Value) -> Option<Self> {
        match value {
            Value::Number(number) => {
                Some(number.as_u64().map_or_else(|| Self::of_float(number.as_f64().unwrap_or(-1.0)), Self))
            }
            Value::String(text) => {
                Some(text.parse().map_or_else(|_| Self::of_float(text.parse().unwrap_or(-1.0)), Self))
            }
            _ => None,
        }
    }
}

impl<'de> Deserialize<'de> for Cost {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_u64(OfNumber)
    }
}

struct OfNumber;

impl Visitor<'_> for OfNumber {
    type Value = Cost;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a number of hits")
    }

    fn visit_u64<E: Error>(self, hits: u64) -> Result<Cost, E> {
        Ok(Cost(hits))
    }

    fn visit_i64<E: Error>(self, hits: i64) -> Result<Cost, E> {
        Ok(Cost(u64::try_from(hits).unwrap_or(u64::MAX)))
    }

    fn visit_f64<E: Error>(self, hits: f64) -> Result<Cost, E> {
        Ok(Cost::of_float(hits))
    }
}

/// A request of protobuf's JSON whose costs are in the range of their fields; `None` if it is no such thing.
pub fn bounded(text: &str) -> Option<Value> {
    let mut request: Value = serde_json::from_str(text).ok()?;
    bound(&mut request, u32::MAX.into());
    for descriptor in request.get_mut("descriptors").and_then(Value::as_array_mut).into_iter().flatten() {
        bound(descriptor, u64::MAX);
    }
    Some(request)
}

fn bound(message: &mut Value, most: u64) {
    for name in ["hits_addend", "hitsAddend"] {
        if let Some(value) = message.get_mut(name)
            && let Some(Cost(hits)) = Cost::of_value(value)
        {
            *value = hits.min(most).into();
        }
    }
}

#[cfg(test)]
mod tests {
    //! Numbers that are costs, and those that are none.

    use serde_json::json;

    use super::*;

    #[test]
    fn any_number_is_a_cost() {
        for (text, expected) in [
            ("0", 0),
            ("5", 5),
            ("0.1", 1),
            ("1.5", 2),
            ("-0.0", 0),
            ("18446744073709551615", u64::MAX),
            ("18446744073709551616", u64::MAX),
            ("1e99", u64::MAX),
            ("-1", u64::MAX),
            ("-1e99", u64::MAX),
        ] {
            let Cost(read) = serde_json::from_str(text).unwrap();
            assert_eq!(read, expected, "{text}");
            let quoted = Value::String(text.to_owned());
            assert_eq!(Cost::of_value(&quoted), Some(Cost(expected)), "\"{text}\"");
        }
        assert_eq!(Cost::of_value(&json!("NaN")), Some(Cost(u64::MAX)));
        assert_eq!(Cost::of_value(&json!("much")), Some(Cost(u64::MAX)));
        assert!(serde_json::from_str::<Cost>("\"5\"").is_err());
    }

    #[test]
    fn costs_of_messages_are_in_range() {
        let bounded =
            bounded(r#"{"hitsAddend": -1, "descriptors": [{"hits_addend": "x"}, {}, 1], "domain": 2}"#);
        let expected = json!({
            "hitsAddend": u32::MAX,
            "descriptors": [{"hits_addend": u64::MAX}, {}, 1],
            "domain": 2,
        });
        assert_eq!(bounded, Some(expected));
    }
}
