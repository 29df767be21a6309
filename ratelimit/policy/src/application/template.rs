//! Descriptors made from what a request shows: templates with names in braces.

use std::{borrow::Cow, net::IpAddr, str::FromStr};

use super::target;
use crate::{Prefix, Range};

/// The address of all clients together that can't be told apart.
pub const UNKNOWN_CLIENT: &str = "unknown";

/// What `/v1/auth` asks about a request that a proxy shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Auth {
    /// The domain of the rules.
    pub domain: String,
    /// The descriptors to make; one that names what a request does not have is left out.
    pub descriptors: Vec<DescriptorTemplate>,
    /// The HTTP status of a denied request.
    pub deny_status: u16,
    /// How many bits of a client's IPv4 address count.
    pub ipv4: u8,
    /// How many bits of a client's IPv6 address count.
    pub ipv6: u8,
}

impl Auth {
    /// What the status of a denied request may be.
    pub const DENY_STATUSES: Range = Range::new(400, 599);
    /// What it is unless somebody says otherwise.
    pub const DEFAULT_DENY_STATUS: u16 = 403;
}

/// A descriptor to make, entry by entry: at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescriptorTemplate {
    /// Keys with the templates of their values.
    pub entries: Vec<(String, Template)>,
}

/// Text with names of facts in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Fact(Fact),
}

/// Something that a request shows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Fact {
    /// The address of the client, as far as [`Auth::ipv4`] and [`Auth::ipv6`] say.
    ClientAddress,
    /// The method.
    Method,
    /// The path, without query.
    Path,
    /// The host that is asked.
    Host,
    /// A header, its name in lower case.
    Header(String),
    /// A parameter of the query.
    Query(String),
}

/// Why a text is not a template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// A brace that is not closed, or not opened.
    #[error("braces go in pairs: write {{path}}, and two of a kind for one that is meant")]
    Braces,
    /// Not the name of a fact.
    #[error("no such fact in braces; accepted: client_address, method, path, host, header:NAME, query:NAME")]
    Unknown,
    /// Not the name of a header.
    #[error("no header can have such a name: write one such as {{header:user-agent}}")]
    HeaderName,
}

/// What is known about one request.
pub trait Facts {
    /// The client's address, if it can be told.
    fn client_address(&self) -> Option<IpAddr>;
    /// What stands for an address that can't be told; `None` if descriptors of it are left out.
    fn unknown_client(&self) -> Option<&'static str> {
        Some(UNKNOWN_CLIENT)
    }
    /// The method.
    fn method(&self) -> Option<Cow<'_, str>>;
    /// The path in its one form, without query.
    fn path(&self) -> Option<String>;
    /// The host that is asked, in its one form.
    fn host(&self) -> Option<String>;
    /// The value of a header whose name is in lower case.
    fn header(&self, name: &str) -> Option<Cow<'_, str>>;
    /// The value of a parameter of the query, decoded.
    fn query(&self, name: &str) -> Option<Cow<'_, str>>;
}

impl Auth {
    /// Makes the descriptors of a request: for each, keys and values in order.
    #[must_use]
    pub fn descriptors(&self, request: &dyn Facts) -> Vec<Vec<(String, String)>> {
        let entry =
            |(key, template): &(String, Template)| Some((key.clone(), self.value(template, request)?));
        self.descriptors.iter().filter_map(|template| template.entries.iter().map(entry).collect()).collect()
    }

    /// Whether a descriptor is about the client's address.
    #[must_use]
    pub fn names_clients(&self) -> bool {
        let mut entries = self.descriptors.iter().flat_map(|descriptor| &descriptor.entries);
        entries.any(|(_, template)| template.names(&Fact::ClientAddress))
    }

    fn value(&self, template: &Template, request: &dyn Facts) -> Option<String> {
        let mut value = String::new();
        for part in &template.parts {
            match part {
                Part::Text(text) => value += text,
                Part::Fact(fact) => value += &self.fact(fact, request)?,
            }
        }
        Some(value)
    }

    fn fact<'r>(&self, fact: &Fact, request: &'r dyn Facts) -> Option<Cow<'r, str>> {
        match fact {
            Fact::ClientAddress => {
                let network = request.client_address().map(|address| self.network(address).into());
                network.or_else(|| request.unknown_client().map(Cow::Borrowed))
            }
            Fact::Method => request.method(),
            Fact::Path => request.path().map(Cow::Owned),
            Fact::Host => request.host().map(Cow::Owned),
            Fact::Header(name) => request.header(name),
            Fact::Query(name) => request.query(name),
        }
    }

    /// The address, or the network around it if not all of its bits count.
    fn network(&self, address: IpAddr) -> String {
        let address = address.to_canonical();
        let bits = if address.is_ipv4() { self.ipv4 } else { self.ipv6 };
        match Prefix::around(address, bits) {
            Some(network) if Prefix::around(address, bits.saturating_add(1)).is_some() => network.to_string(),
            _ => address.to_string(),
        }
    }
}

impl DescriptorTemplate {
    /// Whether a client can leave out what it names, and with that the descriptor.
    #[must_use]
    pub fn is_optional(&self) -> bool {
        self.entries.iter().any(|(_, template)| template.is_optional())
    }
}

impl Template {
    /// Whether it has the name of a fact in it.
    #[must_use]
    pub fn names(&self, fact: &Fact) -> bool {
        self.facts().any(|named| named == fact)
    }

    /// The one form in which a value that it makes would be this one; `None` if it makes others than paths or hosts alone,
    /// which have no such form.
    #[must_use]
    pub fn one_form(&self, value: &str) -> Option<String> {
        match self.parts.as_slice() {
            [Part::Fact(Fact::Path)] => Some(target::path(value.as_bytes())),
            [Part::Fact(Fact::Host)] => Some(target::host(value)),
            _ => None,
        }
    }

    /// Whether it names what a client can leave out.
    #[must_use]
    pub fn is_optional(&self) -> bool {
        self.facts().any(|fact| matches!(fact, Fact::Header(_) | Fact::Query(_)))
    }

    fn facts(&self) -> impl Iterator<Item = &Fact> {
        self.parts.iter().filter_map(|part| match part {
            Part::Fact(fact) => Some(fact),
            Part::Text(_) => None,
        })
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
                parts.push(Part::Text(std::mem::take(&mut plain)));
            }
            parts.push(Part::Fact(name.parse()?));
            rest = after;
        }
        plain += rest;
        if !plain.is_empty() {
            parts.push(Part::Text(plain));
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
        Ok(match text.split_once(':') {
            None => match text {
                "client_address" => Self::ClientAddress,
                "method" => Self::Method,
                "path" => Self::Path,
                "host" => Self::Host,
                _ => return Err(TemplateError::Unknown),
            },
            Some(("header", name)) if !name.is_empty() => {
                if !name.bytes().all(is_of_token) {
                    return Err(TemplateError::HeaderName);
                }
                Self::Header(name.to_ascii_lowercase())
            }
            Some(("query", name)) if !name.is_empty() => Self::Query(name.to_owned()),
            Some(_) => return Err(TemplateError::Unknown),
        })
    }
}

/// Whether names of headers may have it (RFC 9110, section 5.6.2).
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
