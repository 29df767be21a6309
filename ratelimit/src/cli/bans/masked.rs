//! Prefixes as people type them: an address and a length, where the network around it is meant.

use std::str::FromStr;

use crate::{
    cli::output::{Output, complain},
    policy::{Prefix, PrefixError},
};

/// A prefix that may have been written with bits beyond its length.
#[derive(Clone, Debug)]
pub struct Masked {
    prefix: Prefix,
    /// As it was written, if that is not the prefix itself.
    written: Option<String>,
}

impl FromStr for Masked {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Self, PrefixError> {
        match text.parse() {
            // It may be one that is refused for another reason.
            Err(PrefixError::HostBits { network, .. }) => {
                let prefix = Prefix::new(network.address(), network.len())?;
                Ok(Self { prefix, written: Some(text.to_owned()) })
            }
            parsed => parsed.map(|prefix| Self { prefix, written: None }),
        }
    }
}

impl Masked {
    /// The prefix. That it is not what was written is said.
    pub fn prefix(self, output: Output) -> Prefix {
        let Self { prefix, written } = self;
        if let Some(written) = written.filter(|_| output == Output::Text) {
            complain(&format_args!("ratelimit: {written} has bits beyond its length: taken as {prefix}"));
        }
        prefix
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_network_around_an_address_is_taken() {
        let taken = |text: &str| {
            text.parse::<Masked>().map(|masked| (masked.prefix.to_string(), masked.written.is_some()))
        };
        for (text, expected, is_masked) in [
            ("10.0.0.1/8", "10.0.0.0/8", true),
            ("2001:db8::7/64", "2001:db8::/64", true),
            ("10.0.0.0/8", "10.0.0.0/8", false),
            ("10.0.0.1", "10.0.0.1/32", false),
            ("1.2.3.4/0", "0.0.0.0/0", true),
        ] {
            assert_eq!(taken(text), Ok((expected.to_owned(), is_masked)), "{text}");
        }
        let mapped = taken("::ffff:10.0.0.1/104").unwrap_err().to_string();
        assert!(mapped.contains("did you mean 10.0.0.0/8"), "{mapped}");
        assert!(taken("10.0.0.1/33").is_err() && taken("nobody/8").is_err());
    }
}
