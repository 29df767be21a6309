//! Networks that a descriptor is about.

use std::{fmt, sync::Arc};

use crate::prefix::Prefix;

/// Networks, from one list or several. Networks inside others count too: the longest one that contains an address says
/// which descriptor the address belongs to.
///
/// ```
/// use std::sync::Arc;
///
/// use ratelimit_limiter::application::{DescriptorRule, Networks};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let office = Arc::new(["192.0.2.0/24".parse()?, "2001:db8:7::/48".parse()?]);
/// let networks = Networks::new("office", vec![office]);
/// // Descriptors whose entry `client` is an address of the office's.
/// let rule = DescriptorRule { networks: Some(networks), ..DescriptorRule::new("client", None) };
/// assert_eq!(rule.label(), "client_office");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Networks {
    name: String,
    parts: Vec<Arc<[Prefix]>>,
}

impl Networks {
    /// Networks that are called by how they were written, such as `10.0.0.0/8,office.txt`. No two at one place of the
    /// rules have one name.
    #[must_use]
    pub fn new(name: impl Into<String>, parts: Vec<Arc<[Prefix]>>) -> Self {
        Self { name: name.into(), parts }
    }

    /// What they are called.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// All of them.
    pub fn prefixes(&self) -> impl Iterator<Item = Prefix> {
        self.parts.iter().flat_map(|part| part.iter().copied())
    }
}

/// Lists are long.
impl fmt::Debug for Networks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Networks").field(&self.name).finish()
    }
}
