//! What descriptors have left, as lines.

use std::fmt;

use super::super::table::TextTable;
use crate::{
    control::{AnsweredRequestBuckets, RequestBucket},
    text,
};

/// What is shown.
pub struct RequestBucketText<'b>(pub &'b AnsweredRequestBuckets);

impl fmt::Display for RequestBucketText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table =
            TextTable::new(["DESCRIPTOR", "RULE", "REMAINING", "LIMIT", "RETRY_AFTER", "RESET_AFTER"]);
        for bucket in &self.0.buckets {
            let RequestBucket { descriptor, rule, limit, remaining, retry_after, reset_after } = bucket;
            let none = || "-".to_owned();
            let shown = text::Shown(descriptor).to_string();
            let Some(limit) = limit else {
                table.row([shown, "no limit applies".to_owned(), none(), none(), none(), none()]);
                continue;
            };
            table.row([
                shown,
                text::Shown(rule.as_deref().unwrap_or("-")).to_string(),
                remaining.to_string(),
                limit.to_string(),
                retry_after.map_or_else(none, |wait| format!("{wait:.3}s")),
                format!("{reset_after:.3}s"),
            ]);
        }
        write!(f, "{table}")?;
        if self.0.reset { writeln!(f, "\nthese were, and are as good as new now") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_descriptor_has_a_line() {
        let bucket = |descriptor: &str, limit: Option<u64>, retry_after: Option<f64>| RequestBucket {
            descriptor: descriptor.to_owned(),
            rule: limit.map(|_| "per-user".to_owned()),
            limit,
            remaining: limit.map_or(0, |limit| limit - 1),
            retry_after,
            reset_after: 1.5,
        };
        let buckets = vec![bucket("user=x", Some(5), Some(0.25)), bucket("user=\u{1b}", None, None)];
        let answered = AnsweredRequestBuckets { domain: "edge".to_owned(), reset: true, buckets };
        assert_eq!(
            RequestBucketText(&answered).to_string(),
            "DESCRIPTOR   RULE              REMAINING  LIMIT  RETRY_AFTER  RESET_AFTER\n\
             user=x       per-user          4          5      0.250s       1.500s\n\
             user=\\u{1b}  no limit applies  -          -      -            -\n\n\
             these were, and are as good as new now\n"
        );
    }
}
