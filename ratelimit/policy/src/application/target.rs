//! What of a request's target and host counts in descriptors. Gateways and applications take many ways of writing a
//! path for one, so here they are one, too: otherwise each would have a limit of its own.
//!
//! [`path`] and [`host`] take anything: gateways show what they were asked for, whatever it is. [`RequestTarget`] and
//! [`Authority`] are for a proxy, which refuses what servers would understand in several ways, and forwards the form
//! that was judged.

mod authority;
mod path;
mod query;
mod templates;
#[cfg(test)]
mod tests;

pub use authority::{Authority, AuthorityError, host};
pub(super) use path::unescaped;
pub use path::{EscapedSlashes, PathForm, RequestTarget, TargetError, path};
pub use query::parameter;
pub use templates::{PathTemplates, TemplateMatch, TemplatesError};

use super::FactValue;

/// A target without scheme and host. One that begins with a slash has none, whatever comes later in it.
fn relative(target: &[u8]) -> &[u8] {
    if target.starts_with(b"/") {
        return target;
    }
    let Some(scheme) = target.windows(3).position(|three| three == b"://") else { return target };
    let authority = target.get(scheme + 3..).unwrap_or_default();
    let end = authority.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#'));
    end.and_then(|end| authority.get(end..)).unwrap_or_default()
}

/// A path, and the query behind it with its question mark. A fragment is of no concern to servers.
fn split(target: &[u8]) -> (&[u8], &[u8]) {
    let target = target.split(|byte| *byte == b'#').next().unwrap_or_default();
    let end = target.iter().position(|byte| *byte == b'?').unwrap_or(target.len());
    target.split_at_checked(end).unwrap_or_default()
}
