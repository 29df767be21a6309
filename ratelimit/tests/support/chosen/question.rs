//! A question, made of bytes, and how it is written for each way to ask.

use std::borrow::Cow;

use http::{HeaderValue, Method, Request, Uri};

/// What entries are called, and the headers that show them to `/v1/auth`.
pub const FACTS: [(&str, &str); 4] = [
    ("user", "x-user"),
    ("method", "x-forwarded-method"),
    ("path", "x-forwarded-uri"),
    ("host", "x-forwarded-host"),
];

/// Bytes of a value at most, where headers carry it and where a body does.
const MOST_IN_HEADER: usize = 5_000;
const MOST_IN_BODY: usize = 100_000;
/// Bytes of a body that servers read; more is denied.
const MOST_READ: usize = 1 << 20;

/// How it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Grpc,
    Json,
    Check,
    Auth,
    Descriptors,
    Address,
    /// A message of gRPC that may be none.
    Raw,
}

const WAYS: [Way; 7] =
    [Way::Grpc, Way::Json, Way::Check, Way::Auth, Way::Descriptors, Way::Address, Way::Raw];

/// What it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost {
    Takes(u64),
    GivesBack(u64),
}

#[derive(Clone, Debug)]
pub struct Question {
    way: Way,
    pub over_unix: bool,
    /// Whether JSON has bytes that are no ASCII as halves of characters, as Python writes them.
    escapes: bool,
    values: Vec<Vec<u8>>,
    addresses: Vec<(&'static str, Vec<u8>)>,
    cost: Cost,
}

/// What is left of the bytes.
struct Bytes<'b>(&'b [u8]);

impl Bytes<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn number(&mut self) -> u64 {
        (0..8).fold(0, |number, _| number << 8 | u64::from(self.byte()))
    }

    /// A text of some bytes, or of many times the same.
    fn text(&mut self, most: usize) -> Vec<u8> {
        let (length, times) = (self.byte(), self.byte());
        let end = usize::from(length % 64).min(self.0.len());
        let (text, rest) = self.0.split_at(end);
        self.0 = rest;
        let times = if times > 200 { usize::from(times) * 10 } else { 1 };
        let mut text = text.repeat(times);
        text.truncate(most);
        text
    }
}

impl Question {
    pub fn of(bytes: &[u8]) -> Self {
        let mut bytes = Bytes(bytes);
        let way = WAYS[usize::from(bytes.byte()) % WAYS.len()];
        let flags = bytes.byte();
        if way == Way::Raw {
            return Self::with(way, flags, vec![bytes.0.to_vec()], Vec::new(), Cost::Takes(1));
        }
        let in_header = !matches!(way, Way::Grpc | Way::Json | Way::Check);
        let most = if in_header { MOST_IN_HEADER } else { MOST_IN_BODY };
        let count = 1 + usize::from(bytes.byte()) % FACTS.len();
        let values = (0..count).map(|_| bytes.text(most)).collect();
        let address = |bytes: &mut Bytes<'_>| {
            let name = if bytes.byte().is_multiple_of(2) { "x-forwarded-for" } else { "forwarded" };
            (name, bytes.text(1_000))
        };
        let addresses = (0..bytes.byte() % 4).map(|_| address(&mut bytes)).collect();
        let cost = match (in_header, bytes.byte() % 8) {
            (true, _) | (_, 0) => Cost::Takes(1),
            (_, 1) => Cost::Takes(0),
            (_, 2) => Cost::GivesBack(bytes.number()),
            (_, 3) => Cost::Takes(bytes.number()),
            (_, shift) => Cost::Takes(bytes.number() >> (8 * u64::from(shift) - 8)),
        };
        Self::with(way, flags, values, addresses, cost)
    }

    fn with(
        way: Way,
        flags: u8,
        values: Vec<Vec<u8>>,
        addresses: Vec<(&'static str, Vec<u8>)>,
        cost: Cost,
    ) -> Self {
        Self { way, over_unix: flags & 1 != 0, escapes: flags & 2 != 0, values, addresses, cost }
    }

    pub const fn way(&self) -> Way {
        self.way
    }

    pub const fn cost(&self) -> Cost {
        self.cost
    }

    pub fn costing(&self, cost: Cost) -> Self {
        Self { cost, ..self.clone() }
    }

    pub fn raw_message(&self) -> Option<&[u8]> {
        (self.way == Way::Raw).then(|| &*self.values[0])
    }

    /// Whether servers do not read all of it.
    pub fn is_too_long(&self) -> bool {
        matches!(self.way, Way::Json | Way::Check) && self.json().len() > MOST_READ
    }

    /// Keys and values, one after the other.
    pub fn entries(&self) -> impl Iterator<Item = (&'static str, &[u8])> {
        FACTS.iter().zip(&self.values).map(|((key, _), value)| (*key, &**value))
    }

    /// As Envoy's message.
    pub fn message(&self) -> Vec<u8> {
        let mut message = field(1, b"edge");
        for (key, value) in self.entries() {
            let entry = [field(1, key.as_bytes()), field(2, value)].concat();
            let (hits, sign) = match self.cost {
                Cost::Takes(hits) => (hits, 0),
                Cost::GivesBack(hits) => (hits, 1),
            };
            let hits = [&[0x08][..], &varint(hits)].concat();
            let descriptor = [field(1, &entry), field(3, &hits), vec![0x20, sign]].concat();
            message.extend(field(2, &descriptor));
        }
        message
    }

    /// As JSON, the same for `/json` and `/v1/check`.
    pub fn json(&self) -> Vec<u8> {
        let mut json = br#"{"domain": "edge", "descriptors": ["#.to_vec();
        for (index, (key, value)) in self.entries().enumerate() {
            json.extend_from_slice(if index == 0 { b"" } else { b", " });
            json.extend(format!(r#"{{"entries": [{{"key": "{key}", "value": ""#).bytes());
            value.iter().for_each(|byte| self.escape(*byte, &mut json));
            let (hits, gives_back) = match self.cost {
                Cost::Takes(hits) => (hits, false),
                Cost::GivesBack(hits) => (hits, true),
            };
            json.extend(
                format!(r#""}}], "hits_addend": {hits}, "is_negative_hits": {gives_back}}}"#).bytes(),
            );
        }
        json.extend_from_slice(b"]}");
        json
    }

    fn escape(&self, byte: u8, json: &mut Vec<u8>) {
        match byte {
            b'"' | b'\\' => json.extend([b'\\', byte]),
            0..0x20 => json.extend(format!("\\u{byte:04x}").bytes()),
            0x80.. if self.escapes => json.extend(format!("\\udc{byte:02x}").bytes()),
            _ => json.push(byte),
        }
    }

    /// As a request that a proxy shows, or that comes itself.
    pub fn request<B>(&self, body: B) -> Request<B> {
        let mut request = Request::new(body);
        *request.uri_mut() = Uri::from_static("/v1/auth?page=1");
        for ((_, name), value) in FACTS.iter().zip(&self.values) {
            request.headers_mut().append(*name, header(value));
        }
        for (name, value) in &self.addresses {
            request.headers_mut().append(*name, header(value));
        }
        request
    }

    /// The same with what is shown as its own, as far as HTTP has words for it.
    pub fn own_request<B>(&self, body: B) -> Request<B> {
        let mut request = self.request(body);
        let value = |index: usize| self.values.get(index).map_or(&b""[..], Vec::as_slice);
        *request.method_mut() = Method::from_bytes(value(1)).unwrap_or_default();
        if let Ok(uri) = Uri::try_from(value(2)) {
            *request.uri_mut() = uri;
        }
        request
    }
}

/// With what no header can have replaced, which no proxy passes on.
fn header(value: &[u8]) -> HeaderValue {
    let allowed = |byte: &u8| if *byte == b'\t' || (*byte >= 0x20 && *byte != 0x7f) { *byte } else { b'x' };
    HeaderValue::from_bytes(&value.iter().map(allowed).collect::<Vec<u8>>()).unwrap()
}

/// As text, for programs that describe requests themselves.
pub fn text(value: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(value)
}

fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    [&[number << 3 | 2][..], &varint(bytes.len() as u64), bytes].concat()
}

fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}
