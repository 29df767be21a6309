//! What is answered about buckets of rules on requests.

use std::time::Duration;

use super::{AnsweredRequestBuckets, AskedRequestBuckets, RequestBucket};
use crate::application::{Descriptor, InspectError, Service, Status};

/// How they are, or were before they were made new.
///
/// # Errors
/// There is no such domain, or the store does not answer.
pub async fn of_requests(
    service: &Service,
    asked: AskedRequestBuckets,
) -> Result<AnsweredRequestBuckets, InspectError> {
    let AskedRequestBuckets { domain, descriptors, reset } = asked;
    let descriptors: Vec<Descriptor> = descriptors.into_iter().map(Descriptor::of).collect();
    let statuses = match reset {
        true => service.reset(&domain, &descriptors).await?,
        false => service.inspect(&domain, &descriptors).await?,
    };
    let buckets = descriptors.iter().zip(&statuses).map(|(descriptor, status)| of(descriptor, status));
    Ok(AnsweredRequestBuckets { domain, reset, buckets: buckets.collect() })
}

fn of(descriptor: &Descriptor, status: &Status) -> RequestBucket {
    let seconds = |nanos: u64| Duration::from_nanos(nanos).as_secs_f64();
    let entries = descriptor.entries.iter().map(|(key, value)| format!("{key}={value}"));
    RequestBucket {
        descriptor: entries.collect::<Vec<_>>().join(","),
        rule: status.rule.as_ref().map(|rule| rule.label().to_owned()),
        limit: status.limit.map(|limit| limit.capacity),
        remaining: status.remaining,
        retry_after: status.retry_after.map(|wait| seconds(wait.0)),
        reset_after: seconds(status.reset_after.0),
    }
}
