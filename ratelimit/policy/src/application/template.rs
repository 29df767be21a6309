//! Templates of values: text with names of facts in braces.

use std::str::FromStr;

use super::{
    asking::ClientBits,
    target::{self, PathForm},
};
use crate::PrefixLengths;

/// Text with names of facts in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    parts: Vec<TemplatePart>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TemplatePart {
    Text(String),
    /// With what stands for it where a request does not have it.
    Fact(Fact, Option<String>),
}

/// Something that a request shows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Fact {
    /// The address of the client, as far as it counts.
    ClientAddress(Option<ClientBits>),
    /// The method.
    Method,
    /// The path, without query.
    Path,
    /// The template that the path is an instance of.
    PathTemplate,
    /// A parameter of that template.
    PathParameter(String),
    /// The host that is asked.
    Host,
    /// A header, its name in lower case.
    Header(String),
    /// A cookie.
    Cookie(String),
    /// A parameter of the query.
    Query(String),
}

/// Why a text is not a template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// A brace that is not closed, or not opened.
    #[error("braces come in pairs, as in {{path}}; write a brace that is meant as text twice")]
    Braces,
    /// Not the name of a fact.
    #[error(
        "no such fact in braces; accepted: client_address, method, path, path_template, path:NAME, host, header:NAME, \
         cookie:NAME, query:NAME"
    )]
    Unknown,
    /// Not the name of a header.
    #[error("no header can have such a name: write one such as {{header:user-agent}}")]
    HeaderName,
    /// Not the name of a cookie.
    #[error("no cookie can have such a name: write one such as {{cookie:session}}")]
    CookieName,
    /// Not two prefix lengths.
    #[error(
        "write the bits of IPv4 and of IPv6 addresses that count, 1 to {} and 1 to {}, such as {{client_address/24/56}}",
        PrefixLengths::MOST_IPV4,
        PrefixLengths::MOST_IPV6
    )]
    ClientBits,
}

impl Template {
    /// Whether it has the client's address in it.
    #[must_use]
    pub fn names_clients(&self) -> bool {
        self.facts().any(|fact| matches!(fact, Fact::ClientAddress(_)))
    }

    /// How much it has of the client's address, if it is that and nothing else.
    #[must_use]
    pub fn client_bits(&self, usual: ClientBits) -> Option<ClientBits> {
        match self.parts.as_slice() {
            [TemplatePart::Fact(Fact::ClientAddress(bits), _)] => Some(bits.unwrap_or(usual)),
            _ => None,
        }
    }

    /// The one form in which a value that it makes would be this one; `None` if it makes others than paths or hosts
    /// alone, which have no such form.
    #[must_use]
    pub fn one_form(&self, value: &str, form: PathForm) -> Option<String> {
        match self.parts.as_slice() {
            // The default is as it is written.
            [TemplatePart::Fact(_, Some(default))] if default == value => None,
            [TemplatePart::Fact(Fact::Path, _)] => Some(target::path(value.as_bytes(), form)),
            [TemplatePart::Fact(Fact::Host, _)] => Some(target::host(value)),
            _ => None,
        }
    }

    /// Whether it names what a client can leave out, and nothing stands for it then.
    #[must_use]
    pub fn is_optional(&self) -> bool {
        self.parts.iter().any(|part| match part {
            TemplatePart::Text(_) | TemplatePart::Fact(_, Some(_)) => false,
            TemplatePart::Fact(fact, None) => fact.is_optional(),
        })
    }

    /// The facts that it names.
    pub fn facts(&self) -> impl Iterator<Item = &Fact> {
        self.parts.iter().filter_map(|part| match part {
            TemplatePart::Fact(fact, _) => Some(fact),
            TemplatePart::Text(_) => None,
        })
    }

    pub(super) fn parts(&self) -> &[TemplatePart] {
        &self.parts
    }
}

impl Fact {
    /// Whether a client can leave it out. It chooses the path, and with that whether a template is for it.
    const fn is_optional(&self) -> bool {
        match self {
            Self::ClientAddress(_) | Self::Method | Self::Path | Self::Host => false,
            Self::PathTemplate | Self::PathParameter(_) => true,
            Self::Header(_) | Self::Cookie(_) | Self::Query(_) => true,
        }
    }
}

impl FromStr for Template {
    type Err = TemplateError;

    fn from_str(text: &str) -> Result<Self, TemplateError> {
        let (mut parts, mut plain) = (Vec::new(), String::new());
        let mut rest = text;
        while let Some(index) = rest.find(['{', '}']) {
            let (before, after) = rest.split_at(index);
            plain += before;
            if let Some((brace, after)) = doubled(after) {
                plain.push(brace);
                rest = after;
                continue;
            }
            let inside = after.strip_prefix('{').ok_or(TemplateError::Braces)?;
            let (name, after) = inside.split_once('}').ok_or(TemplateError::Braces)?;
            if !plain.is_empty() {
                parts.push(TemplatePart::Text(std::mem::take(&mut plain)));
            }
            parts.push(match name.split_once('|') {
                Some((name, default)) => TemplatePart::Fact(name.parse()?, Some(default.to_owned())),
                None => TemplatePart::Fact(name.parse()?, None),
            });
            rest = after;
        }
        plain += rest;
        if !plain.is_empty() {
            parts.push(TemplatePart::Text(plain));
        }
        Ok(Self { parts })
    }
}

/// The brace that the text begins with twice, and what follows.
fn doubled(text: &str) -> Option<(char, &str)> {
    let brace = |brace: char, twice: &str| text.strip_prefix(twice).map(|rest| (brace, rest));
    brace('{', "{{").or_else(|| brace('}', "}}"))
}

impl FromStr for Fact {
    type Err = TemplateError;

    fn from_str(text: &str) -> Result<Self, TemplateError> {
        if let Some(bits) = text.strip_prefix("client_address/") {
            return Ok(Self::ClientAddress(Some(parse_bits(bits)?)));
        }
        Ok(match text.split_once(':') {
            None => match text {
                "client_address" => Self::ClientAddress(None),
                "method" => Self::Method,
                "path" => Self::Path,
                "path_template" => Self::PathTemplate,
                "host" => Self::Host,
                _ => return Err(TemplateError::Unknown),
            },
            Some((_, "")) => return Err(TemplateError::Unknown),
            Some(("path", name)) => Self::PathParameter(name.to_owned()),
            Some(("header", name)) if !name.bytes().all(is_of_token) => {
                return Err(TemplateError::HeaderName);
            }
            Some(("header", name)) => Self::Header(name.to_ascii_lowercase()),
            Some(("cookie", name)) if !name.bytes().all(is_of_token) => {
                return Err(TemplateError::CookieName);
            }
            Some(("cookie", name)) => Self::Cookie(name.to_owned()),
            Some(("query", name)) => Self::Query(name.to_owned()),
            Some(_) => return Err(TemplateError::Unknown),
        })
    }
}

/// `24/56`
fn parse_bits(text: &str) -> Result<ClientBits, TemplateError> {
    let bits = |text: &str, most: u8| {
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|bits| is_number && (1..=most).contains(bits))
    };
    let both = text.split_once('/').and_then(|(ipv4, ipv6)| {
        let ipv4 = bits(ipv4, PrefixLengths::MOST_IPV4)?;
        Some(ClientBits { ipv4, ipv6: bits(ipv6, PrefixLengths::MOST_IPV6)? })
    });
    both.ok_or(TemplateError::ClientBits)
}

/// Whether names of headers and cookies may have it (RFC 9110, section 5.6.2).
const fn is_of_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'!' | b'#'
                | b'$'
                | b'%'
                | b'&'
                | b'\''
                | b'*'
                | b'+'
                | b'-'
                | b'.'
                | b'^'
                | b'_'
                | b'`'
                | b'|'
                | b'~'
        )
}
