//! An HTTP client that shows every byte.

use std::io::{Read, Write};

use serde_json::Value;

/// The bytes of a request after which the server closes.
pub fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let mut text = format!(
        "{method} {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\ncontent-length: {length}\r\n"
    );
    for (name, value) in headers {
        text += &format!("{name}: {value}\r\n");
    }
    [text.as_bytes(), b"\r\n", body].concat()
}

/// An HTTP answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    headers: Vec<(String, String)>,
    pub body: String,
}

impl Answer {
    /// Sends a request and reads until the server closes.
    pub fn read(mut stream: impl Read + Write, request: &[u8]) -> Self {
        // A server that refuses may stop reading before it has all.
        let _ = stream.write_all(request);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        Self::parse(&answer)
    }

    pub fn parse(answer: &[u8]) -> Self {
        let answer = String::from_utf8_lossy(answer);
        let Some((head, body)) = answer.split_once("\r\n\r\n") else { panic!("no answer: {answer:?}") };
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).unwrap().parse().unwrap();
        let header = |line: &str| {
            let (name, value) = line.split_once(": ").unwrap();
            (name.to_ascii_lowercase(), value.to_owned())
        };
        Self { status, headers: lines.map(header).collect(), body: body.to_owned() }
    }

    /// A header's value; none or one.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values =
            self.headers.iter().filter(|(other, _)| other == name).map(|(_, value)| value.as_str());
        let value = values.next();
        assert_eq!(values.next(), None, "{name} twice: {self:?}");
        value
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}
