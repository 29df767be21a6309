//! Prefixes as people type them: an address and a length, where the network around it is meant.

use std::{net::IpAddr, str::FromStr};

use crate::{
    cli::output::{Output, complain},
    config::parse_ban_length,
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

/// Whom to ban, or what to do instead.
pub fn to_ban(text: &str) -> Result<Masked, String> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    read(text, |text| match text {
        "add" => Some("`ratelimit ban ADDR` bans without that word".to_owned()),
        "list" | "ls" | "show" => Some(LISTS.to_owned()),
        "del" | "delete" | "remove" | "rm" => Some("`ratelimit unban ADDR` ends a ban".to_owned()),
        seconds if is_number => Some(format!("for how long is said by `--for {seconds}s`")),
        time if parse_ban_length(time).is_ok() => Some(format!("for how long is said by `--for {time}`")),
        range if is_range(range) => {
            Some("ranges are for files: `--file LIST`, or `--file -` for the standard input".to_owned())
        }
        several if several.contains(',') => Some(SPACES.to_owned()),
        _ => None,
    })
}

/// Whom to unban, or what to do instead.
pub fn to_unban(text: &str) -> Result<Masked, String> {
    read(text, |text| match text {
        "all" => Some("`ratelimit unban --all` ends all bans".to_owned()),
        "list" | "ls" | "show" => Some(LISTS.to_owned()),
        several if several.contains(',') => Some(SPACES.to_owned()),
        name if name.bytes().any(|byte| byte.is_ascii_alphabetic()) && !name.contains([':', '.', '/']) => {
            Some(format!(
                "no address or prefix; `--by {name}` ends the bans that a rule of this name has made"
            ))
        }
        _ => None,
    })
}

/// Whom to list, or what to do instead.
pub fn to_list(text: &str) -> Result<Masked, String> {
    read(text, |text| matches!(text, "all" | "list" | "ls" | "show").then(|| LISTS.to_owned()))
}

const LISTS: &str = "`ratelimit bans` lists all bans";
const SPACES: &str = "several are given with spaces between them, without commas";

/// Whether it is the first and the last address of a range, as files may have it.
fn is_range(text: &str) -> bool {
    let is_address = |text: &str| text.trim().parse::<IpAddr>().is_ok();
    text.split_once('-').is_some_and(|(first, last)| is_address(first) && is_address(last))
}

fn read(text: &str, advice: impl Fn(&str) -> Option<String>) -> Result<Masked, String> {
    text.parse().map_err(|error: PrefixError| advice(text).unwrap_or_else(|| error.to_string()))
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

    #[test]
    fn what_people_try_is_answered_by_what_they_mean() {
        type Read = fn(&str) -> Result<Masked, String>;
        for (read, text, advice) in [
            (to_ban as Read, "1h", "`--for 1h`"),
            (to_ban, "600", "`--for 600s`"),
            (to_ban, "forever", "`--for forever`"),
            (to_ban, "add", "without that word"),
            (to_ban, "list", "`ratelimit bans`"),
            (to_ban, "remove", "`ratelimit unban ADDR`"),
            (to_ban, "192.0.2.1-192.0.2.9", "`--file LIST`"),
            (to_ban, "192.0.2.1,192.0.2.9", "with spaces"),
            (to_ban, "192.0.2.1-x", "not an IP address"),
            (to_unban, "192.0.2.1,192.0.2.9", "with spaces"),
            (to_ban, "nobody", "not an IP address"),
            (to_ban, "", "not an IP address"),
            (to_unban, "all", "`ratelimit unban --all`"),
            (to_unban, "every-source", "`--by every-source`"),
            (to_unban, "10.0.0", "not an IP address"),
            (to_unban, "2001:db8", "not an IP address"),
            (to_list, "all", "`ratelimit bans`"),
            (to_list, "1h", "not an IP address"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(advice), "{text}: {error}");
            assert!(read("192.0.2.0/24").is_ok() && read("::1").is_ok());
        }
    }
}
