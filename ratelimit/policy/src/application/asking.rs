//! What is asked about a request: from its facts to descriptors.

use std::{
    borrow::Cow,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use ratelimit_limiter::{
    application::{Descriptor, Request},
    text,
};

use super::{
    deny_body::DenyBody,
    facts::Facts,
    target::{PathForm, PathTemplates, TemplateMatch},
    template::{Fact, Template, TemplatePart},
};
use crate::{Prefix, PrefixLengths, Range};

/// What `/v1/auth` asks about a request that a gateway shows, and what it answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Auth {
    /// What is asked.
    pub asks: RequestTemplate,
    /// The HTTP status of a denied request.
    pub deny_status: u16,
    /// What it gets to read, instead of problem details.
    pub deny_body: Option<DenyBody>,
}

/// What is asked about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestTemplate {
    /// The domain of the rules.
    pub domain: String,
    /// The descriptors to make; one that names what a request does not have is left out.
    pub descriptors: Vec<DescriptorTemplate>,
    /// How much of a client's address counts unless an entry says otherwise.
    pub client: ClientBits,
    /// How paths are compared.
    pub path: PathForm,
    /// What paths are instances of.
    pub templates: PathTemplates,
}

/// How many bits of addresses count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClientBits {
    /// Bits of an IPv4 address.
    pub ipv4: u8,
    /// Bits of an IPv6 address.
    pub ipv6: u8,
}

/// A descriptor to make, entry by entry: at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescriptorTemplate {
    /// Keys with the templates of their values.
    pub entries: Vec<(String, Template)>,
}

impl Auth {
    /// What the status of a denied request may be.
    pub const DENY_STATUSES: Range = Range::new(400, 599);
    /// What it is unless somebody says otherwise.
    pub const DEFAULT_DENY_STATUS: u16 = 403;
}

impl Default for ClientBits {
    fn default() -> Self {
        Self { ipv4: PrefixLengths::DEFAULT_IPV4, ipv6: PrefixLengths::DEFAULT_IPV6 }
    }
}

impl ClientBits {
    /// The address, or the network around it if not all of its bits count.
    #[must_use]
    pub fn network(self, address: IpAddr) -> String {
        let address = address.to_canonical();
        let (bits, most) = match address {
            IpAddr::V4(_) => (self.ipv4, Ipv4Addr::BITS),
            IpAddr::V6(_) => (self.ipv6, Ipv6Addr::BITS),
        };
        match Prefix::around(address, bits) {
            Some(network) if u32::from(bits) < most => network.to_string(),
            _ => text::of_address(address),
        }
    }
}

impl RequestTemplate {
    /// The question about a request; `None` if it has nothing that a limit is about.
    #[must_use]
    pub fn request(&self, facts: &dyn Facts) -> Option<Request> {
        let descriptors: Vec<_> = self.descriptors(facts).into_iter().map(Descriptor::of).collect();
        (!descriptors.is_empty()).then(|| Request {
            domain: self.domain.clone(),
            descriptors,
            hits_addend: 1,
        })
    }

    /// Makes the descriptors of a request: for each, keys and values in order.
    #[must_use]
    pub fn descriptors(&self, facts: &dyn Facts) -> Vec<Vec<(String, String)>> {
        let path = facts.path();
        let matched = path.as_deref().and_then(|path| self.templates.find(path));
        let known = RequestFacts { asks: self, facts, path: path.as_deref(), matched };
        let entry = |(key, template): &(String, Template)| Some((key.clone(), known.value(template)?));
        self.descriptors.iter().filter_map(|template| template.entries.iter().map(entry).collect()).collect()
    }

    /// The headers that descriptors are about, their names in lower case.
    pub fn headers(&self) -> impl Iterator<Item = &str> {
        let entries = self.descriptors.iter().flat_map(|descriptor| &descriptor.entries);
        entries.flat_map(|(_, template)| template.facts()).filter_map(|fact| match fact {
            Fact::Header(name) => Some(name.as_str()),
            _ => None,
        })
    }

    /// Whether a descriptor is about the client's address.
    #[must_use]
    pub fn names_clients(&self) -> bool {
        let mut entries = self.descriptors.iter().flat_map(|descriptor| &descriptor.entries);
        entries.any(|(_, template)| template.names_clients())
    }
}

impl DescriptorTemplate {
    /// Whether a client can leave out what it names, and with that the descriptor.
    #[must_use]
    pub fn is_optional(&self) -> bool {
        self.entries.iter().any(|(_, template)| template.is_optional())
    }
}

/// A request, while its descriptors are made.
struct RequestFacts<'r> {
    asks: &'r RequestTemplate,
    facts: &'r dyn Facts,
    path: Option<&'r str>,
    matched: Option<TemplateMatch<'r, 'r>>,
}

impl RequestFacts<'_> {
    fn value(&self, template: &Template) -> Option<String> {
        if let [TemplatePart::Fact(fact, None)] = template.parts() {
            return self.fact(fact).map(Cow::into_owned);
        }
        let mut value = String::new();
        for part in template.parts() {
            match part {
                TemplatePart::Text(text) => value += text,
                TemplatePart::Fact(fact, None) => value += &self.fact(fact)?,
                TemplatePart::Fact(fact, Some(default)) => match self.fact(fact) {
                    Some(text) if !text.is_empty() => value += &text,
                    _ => value += default,
                },
            }
        }
        Some(value)
    }

    fn fact(&self, fact: &Fact) -> Option<Cow<'_, str>> {
        match fact {
            Fact::ClientAddress(bits) => {
                let bits = bits.unwrap_or(self.asks.client);
                let network = self.facts.client_address().map(|address| bits.network(address).into());
                network.or_else(|| self.facts.unknown_client().map(Cow::Borrowed))
            }
            Fact::Method => self.facts.method(),
            Fact::Path => self.path.map(Cow::Borrowed),
            Fact::PathTemplate => Some(self.matched.as_ref()?.template().into()),
            Fact::PathParameter(name) => Some(self.matched.as_ref()?.parameter(name)?.into()),
            Fact::Host => self.facts.host(),
            Fact::Header(name) => self.facts.header(name).text(),
            Fact::Cookie(name) => self.facts.cookie(name).text(),
            Fact::Query(name) => self.facts.query(name).text(),
        }
    }
}
