//! `ratelimit check`: asks a running daemon whether a request may go on, and charges it.

mod ask;
mod endpoint;
mod tls;

use std::{
    fmt::{self, Display, Write as _},
    path::PathBuf,
    process::ExitCode,
    str::FromStr,
};

use clap::Args;
use serde_json::{Value, json};

use self::{
    ask::Caller,
    endpoint::{CheckEndpoint, EndpointError},
    tls::ClientIdentity,
};
use super::{answer_with, failure::CommandFailure, output::Output};
use crate::text::Shown;

/// Exit status: the request is denied.
const DENIED: u8 = 3;

/// Asks a daemon for a decision about a request; the exit status is 0 for allowed and 3 for denied.
#[derive(Debug, Args)]
pub struct Check {
    /// The domain whose rules are asked.
    #[arg(long, value_name = "NAME")]
    domain: String,
    /// A descriptor, as its entries in order; may be repeated.
    #[arg(long, required = true, value_name = "KEY=VALUE,...")]
    descriptor: Vec<DescriptorArg>,
    /// How much the request takes; 0 only asks.
    #[arg(long, value_name = "N", default_value_t = 1)]
    hits: u32,
    /// Report what a request that was let through has taken in the end, such as tokens of a model: all limits are
    /// charged, and nothing is denied. Only over HTTP.
    #[arg(long)]
    report: bool,
    /// Where the daemon answers: http://, https://, grpc:// or grpcs:// with host and port, unix:PATH or
    /// grpc+unix:PATH.
    #[arg(long, value_name = "URL", conflicts_with = "config")]
    url: Option<CheckEndpoint>,
    /// The daemon's configuration, which says where it answers; without it and `--url`, http://127.0.0.1:8080.
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The authorities that are trusted to sign the daemon's certificate, in PEM format.
    #[arg(
        long,
        visible_alias = "cacert",
        value_name = "FILE",
        default_value = "/etc/ssl/certs/ca-certificates.crt"
    )]
    ca: PathBuf,
    /// The certificate to show where the daemon asks for one (`client_ca`), in PEM format.
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// The private key of that certificate, in PEM format.
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
}

/// Entries of a descriptor, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescriptorArg(pub(super) Vec<(String, String)>);

impl FromStr for DescriptorArg {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let entry = |entry: &str| {
            let (key, value) =
                entry.split_once('=').ok_or("write KEY=VALUE, and more of them after commas")?;
            if key.is_empty() { Err("a key is empty") } else { Ok((key.to_owned(), value.to_owned())) }
        };
        text.split(',').map(entry).collect::<Result<_, _>>().map(Self)
    }
}

impl Check {
    /// Asks, and answers with the exit status.
    ///
    /// # Errors
    /// Nobody answers, or what was asked makes no sense.
    pub fn run(self, output: Output) -> Result<ExitCode, CommandFailure> {
        let endpoint = self.endpoint()?;
        let own = self.cert.clone().zip(self.key.clone()).map(|(cert, key)| ClientIdentity { cert, key });
        if own.is_some() && endpoint.ca.is_none() {
            let message =
                "`--cert` is shown over TLS alone: ask an https:// or grpcs:// address, or leave it out";
            return Err(CommandFailure::wrong_usage(message));
        }
        if self.report && endpoint.is_grpc {
            let message =
                "`--report` is understood over HTTP alone: ask an http://, https:// or unix: address";
            return Err(CommandFailure::wrong_usage(message));
        }
        let caller = Caller { endpoint: &endpoint, own: own.as_ref() };
        let answer = ask::ask(&caller, &self.question()).map_err(CommandFailure::failed)?;
        answer_with(output, &CheckText { answer: &answer, reports: self.report }, &answer)?;
        let allowed = answer["allowed"].as_bool().unwrap_or_default();
        Ok(if allowed { ExitCode::SUCCESS } else { ExitCode::from(DENIED) })
    }

    fn endpoint(&self) -> Result<CheckEndpoint, CommandFailure> {
        let endpoint = match (&self.url, &self.config) {
            (Some(url), _) => url.clone(),
            (None, None) => CheckEndpoint::default(),
            (None, Some(file)) => {
                let policy = crate::config::check(file)?.policy;
                let listen = policy.application.map(|application| application.listen).unwrap_or_default();
                CheckEndpoint::of(&listen)
                    .ok_or_else(|| CommandFailure::wrong_usage(EndpointError::Nowhere(file.clone())))?
            }
        };
        Ok(endpoint.trusting(self.ca.clone()))
    }

    /// As `/v1/check` takes it. Hits stand in each descriptor, because there 0 is 0.
    fn question(&self) -> Value {
        let entry = |(key, value): &(String, String)| json!({"key": key, "value": value});
        let descriptor = |DescriptorArg(entries): &DescriptorArg| json!({"entries": entries.iter().map(entry).collect::<Vec<_>>(), "hits_addend": self.hits});
        let descriptors: Vec<Value> = self.descriptor.iter().map(descriptor).collect();
        let mut question = json!({"domain": self.domain, "descriptors": descriptors});
        if self.report {
            question["report"] = true.into();
        }
        question
    }
}

/// An answer for people: what was decided, then each descriptor in a line.
struct CheckText<'a> {
    answer: &'a Value,
    reports: bool,
}

impl Display for CheckText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is = |value: &Value, name: &str| value[name].as_bool().unwrap_or_default();
        let decided = |value: &Value| match is(value, "allowed") {
            true if self.reports => "reported",
            true => "allowed",
            false => "denied",
        };
        writeln!(f, "{}{}", decided(self.answer), if is(self.answer, "soft") { "  soft" } else { "" })?;
        for status in self.answer["descriptors"].as_array().into_iter().flatten() {
            write!(f, "  {}", decided(status))?;
            let mut numbers = String::new();
            for name in ["rule", "limit", "remaining", "reset_after", "retry_after"] {
                match &status[name] {
                    Value::Null => {}
                    // A line break in it would make two lines of one.
                    Value::String(text) => write!(numbers, "  {name}={}", Shown(text))?,
                    time if name.ends_with("_after") => write!(numbers, "  {name}={time}s")?,
                    number => write!(numbers, "  {name}={number}")?,
                }
            }
            f.write_str(if numbers.is_empty() { "  no limit" } else { &numbers })?;
            for name in ["never", "soft", "shadow", "quota"].into_iter().filter(|name| is(status, name)) {
                write!(f, "  {name}")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    //! What is typed, and what is shown.

    use super::*;

    #[test]
    fn descriptors_are_read_in_order() {
        let read = |text: &str| text.parse::<DescriptorArg>().map(|DescriptorArg(entries)| entries);
        let entry = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(read("b=1,a=x=y,c="), Ok(vec![entry("b", "1"), entry("a", "x=y"), entry("c", "")]));
        for wrong in ["", "a", "a=1,", "=1"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn answers_are_shown_a_descriptor_a_line() {
        let answer = json!({"allowed": false, "descriptors": [
            {"allowed": true},
            {"allowed": true, "rule": "a\nb\u{1b}", "limit": 5},
            {"allowed": false, "rule": "user", "limit": 5, "remaining": 0, "reset_after": 1.5, "retry_after": 1.5, "never": true},
        ]});
        let expected = "denied\n  allowed  no limit\n  allowed  rule=a\\nb\\u{1b}  limit=5\n  \
                        denied  rule=user  limit=5  remaining=0  reset_after=1.5s  retry_after=1.5s  never\n";
        assert_eq!(CheckText { answer: &answer, reports: false }.to_string(), expected);
    }
}
