//! What a request shows of itself, as it is passed on: never what a client says about it in a header.

use std::{borrow::Cow, net::IpAddr};

use http::{HeaderValue, header};

use super::request::ProxyRequest;
use crate::policy::application::{FactValue, Facts, target};

/// A request and the client that it comes from.
pub struct ProxyFacts<'r> {
    asked: &'r ProxyRequest,
    client: Option<IpAddr>,
}

impl<'r> ProxyFacts<'r> {
    pub const fn new(asked: &'r ProxyRequest, client: Option<IpAddr>) -> Self {
        Self { asked, client }
    }
}

impl Facts for ProxyFacts<'_> {
    fn client_address(&self) -> Option<IpAddr> {
        self.client
    }

    fn method(&self) -> Option<Cow<'_, str>> {
        Some(self.asked.method.as_str().into())
    }

    fn path(&self) -> Option<Cow<'_, str>> {
        Some(self.asked.path().into())
    }

    fn host(&self) -> Option<Cow<'_, str>> {
        Some(self.asked.host.as_str().into())
    }

    fn header(&self, name: &str) -> FactValue<'_> {
        if name == "host" {
            return FactValue::One(self.asked.host.as_str().into());
        }
        FactValue::of_header(name, self.asked.headers.get_all(name).iter().map(HeaderValue::as_bytes))
    }

    fn cookie(&self, name: &str) -> FactValue<'_> {
        FactValue::of_cookie(
            self.asked.headers.get_all(header::COOKIE).iter().map(HeaderValue::as_bytes),
            name,
        )
    }

    fn query(&self, name: &str) -> FactValue<'_> {
        target::parameter(self.asked.target.as_str().as_bytes(), name)
    }
}
