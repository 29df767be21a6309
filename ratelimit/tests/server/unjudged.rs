//! No byte, value or cost that a client can choose makes an error of a question, since gateways let pass what they get
//! an error for: it is judged, or denied where it can't be.

use std::{fs, os::unix::net::UnixStream};

use hyper::body::Bytes;
use prost::Message as _;
use ratelimit::server::{
    proto::envoy::{
        extensions::common::ratelimit::v3::RateLimitDescriptor,
        service::ratelimit::v3::{RateLimitRequest, rate_limit_response::Code},
    },
    unjudged::Unjudged,
};

use crate::{
    grpc::{self, code, descriptor, framed},
    support::{Answer, Fixture, PATIENCE, RULES, question, request, unix, unjudged},
};

/// What is no text: Latin-1, a byte that never stands in UTF-8, cut and overlong sequences, surrogates.
const NO_TEXT: [&[u8]; 7] =
    [b"\xff", b"b\xfccher", b"a\xc3", b"\xe2\x82", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80"];

/// A message with these bytes in place of the value `?`, the key `!` and the domain `edge`.
fn message(descriptors: Vec<RateLimitDescriptor>, value: &[u8]) -> Bytes {
    let place = "?".repeat(value.len());
    let descriptors = descriptors.into_iter().map(|mut descriptor| {
        for entry in &mut descriptor.entries {
            entry.value = entry.value.replace('?', &place);
        }
        descriptor
    });
    let encoded = grpc::request(descriptors.collect()).encode_to_vec();
    let at = memchr::memmem::find(&encoded, place.as_bytes()).unwrap();
    framed(&[&encoded[..at], value, &encoded[at + value.len()..]].concat())
}

#[tokio::test]
async fn over_grpc_bytes_that_are_no_text_are_judged() {
    for bytes in NO_TEXT {
        let fixture = Fixture::new("");
        let ask = || code(&fixture, message(vec![descriptor(&[("user", "?")])], bytes));
        let codes = [ask().await, ask().await, ask().await];
        assert_eq!(codes, [Code::Ok, Code::Ok, Code::OverLimit], "{}", bytes.escape_ascii());
        // As over HTTP, it is another user than one without these bytes.
        assert_eq!(fixture.check("user", &String::from_utf8_lossy(bytes)).status, 429);
        assert_eq!(fixture.check("user", "b").status, 200);
    }
}

#[tokio::test]
async fn bytes_that_are_no_text_take_no_other_descriptor_out_of_its_limit() {
    let fixture = Fixture::new("");
    let client = || descriptor(&[("client", "192.0.2.1")]);
    let ask = |bytes| code(&fixture, message(vec![client(), descriptor(&[("user", "?")])], bytes));
    assert_eq!([ask(b"a").await, ask(b"b").await], [Code::Ok; 2]);
    for bytes in NO_TEXT {
        assert_eq!(ask(bytes).await, Code::OverLimit, "{}", bytes.escape_ascii());
    }
}

#[tokio::test]
async fn a_key_or_domain_that_is_no_text_is_another() {
    let fixture = Fixture::new("");
    for (bytes, expected) in [
        (&b"\x0a\x04edge\x12\x0c\x0a\x0a\x0a\x05\xffuser\x12\x01a"[..], Code::Ok),
        (b"\x0a\x05\xffedge\x12\x0b\x0a\x09\x0a\x04none\x12\x01a", Code::Ok),
        (b"\x0a\x04edge\x12\x0b\x0a\x09\x0a\x04none\x12\x01a", Code::OverLimit),
    ] {
        assert_eq!(code(&fixture, framed(bytes)).await, expected, "{}", bytes.escape_ascii());
    }
}

#[tokio::test]
async fn messages_are_read_as_the_public_ones_are() {
    let fixture = Fixture::new("");
    let whole = grpc::request(vec![descriptor(&[("none", "x")])]).encode_to_vec();
    // Unknown fields; a scalar twice, of which the last counts; a descriptor whose limit comes in two parts.
    let unknown = [&whole[..], b"\x98\x06\x05\xa2\x06\x02\xff\xfe"].concat();
    let twice = [&whole[..], b"\x0a\x05other"].concat();
    let merged = [
        &b"\x0a\x04edge\x12\x15\x0a\x09\x0a\x04user\x12\x01m"[..],
        // requests_per_unit 0, then the unit HOUR.
        b"\x12\x02\x08\x05\x12\x02\x10\x03\x12\x00",
    ]
    .concat();
    let wrong_kind = b"\x08\x01".to_vec();
    for (bytes, expected) in
        [(&unknown, Some(Code::OverLimit)), (&twice, Some(Code::Ok)), (&wrong_kind, None)]
    {
        assert_eq!(RateLimitRequest::decode(&bytes[..]).is_ok(), expected.is_some());
        assert_eq!(code(&fixture, framed(bytes)).await, expected.unwrap_or(Code::OverLimit));
    }
    let decoded = RateLimitRequest::decode(&merged[..]).unwrap();
    assert_eq!(decoded.descriptors[0].limit.unwrap().requests_per_unit, 5);
    let codes = [(); 6].map(|()| merged.clone());
    let mut found = Vec::new();
    for bytes in codes {
        found.push(code(&fixture, framed(&bytes)).await);
    }
    assert_eq!(found, [vec![Code::Ok; 5], vec![Code::OverLimit]].concat());
}

#[tokio::test]
async fn a_message_that_can_not_be_judged_is_denied_and_counted_apart() {
    let fixture = Fixture::new("");
    let good = grpc::request(vec![descriptor(&[("other", "x")])]).encode_to_vec();
    let large = grpc::request(vec![descriptor(&[("other", &"x".repeat(1 << 20))])]).encode_to_vec();
    let mut compressed = framed(&good).to_vec();
    compressed[0] = 1;
    let announced = [&[0, 0xff, 0xff, 0xff, 0xff][..], &good].concat();
    for (body, why) in [
        (framed(&large), Unjudged::TooLarge),
        (announced.into(), Unjudged::TooLarge),
        (framed(&[b'x'; 3 << 20]), Unjudged::TooLarge),
        (framed(b"\xff\xff"), Unjudged::Unreadable),
        (compressed.into(), Unjudged::Unreadable),
        (framed(&good).slice(..good.len()), Unjudged::Unreadable),
        (Bytes::from_static(b"\0\0"), Unjudged::Unreadable),
        (Bytes::new(), Unjudged::Unreadable),
    ] {
        let before = unjudged(&fixture, why);
        assert_eq!(code(&fixture, body).await, Code::OverLimit, "{why:?}");
        assert_eq!(unjudged(&fixture, why), before + 1, "{why:?}");
    }
    // The most that is read is judged, and what comes after a message is nothing.
    let most = (1 << 20) - (large.len() - (1 << 20));
    let most = grpc::request(vec![descriptor(&[("other", &"x".repeat(most))])]).encode_to_vec();
    assert_eq!(most.len(), 1 << 20);
    assert_eq!(code(&fixture, framed(&most)).await, Code::Ok);
    assert_eq!(code(&fixture, [&framed(&good)[..], b"rest"].concat().into()).await, Code::Ok);
    assert_eq!(fixture.servers.stats().refused_requests(), 0);
}

#[tokio::test]
async fn where_all_limits_only_count_nothing_is_denied_unjudged() {
    let fixture = Fixture::new("shadow_mode: true");
    assert_eq!(code(&fixture, framed(b"\xff\xff")).await, Code::Ok);
    assert_eq!(unjudged(&fixture, Unjudged::Unreadable), 1);
    let large = "x".repeat(2 << 20);
    let answer = fixture.post("/v1/check", &large);
    assert_eq!((answer.status, &answer.json()["allowed"]), (200, &true.into()));
    let answer = fixture.post("/json", &large);
    assert_eq!((answer.status, &answer.json()["overallCode"]), (200, &"OK".into()));
}

#[test]
fn over_http_what_is_no_text_in_json_is_judged() {
    for (number, body) in
        [&b"\xff"[..], b"\\ud800", b"\\udcff", b"a\xc3", b"\\uD83D\\u0041"].iter().enumerate()
    {
        for path in ["/v1/check", "/json"] {
            let fixture = Fixture::new("");
            let whole = question("user", "?").into_bytes();
            let at = whole.iter().position(|byte| *byte == b'?').unwrap();
            let body = [&whole[..at], body, &whole[at + 1..]].concat();
            let statuses = [(); 3].map(|()| fixture.post(path, &body).status);
            assert_eq!(statuses, [200, 200, 429], "{path} {number}");
        }
    }
}

#[test]
fn over_http_any_number_is_a_cost() {
    let fixture = Fixture::new("");
    let ask = |path: &str, cost: &str, at: &str, user: String| {
        let (of_request, of_descriptor) = match at {
            "request" => (format!(", \"hits_addend\": {cost}"), String::new()),
            _ => (String::new(), format!(", \"hits_addend\": {cost}")),
        };
        let entries = format!(r#"[{{"key": "bucket", "value": "{user}"}}]"#);
        let body = format!(
            r#"{{"domain": "edge", "descriptors": [{{"entries": {entries}{of_descriptor}}}]{of_request}}}"#
        );
        fixture.post(path, body).status
    };
    let long = "9".repeat(400);
    let costs = ["4", "1000000001", "5000000000", "18446744073709551616", "1e30", "-1", "-5e9", "3.5"];
    for path in ["/v1/check", "/json"] {
        for at in ["request", "descriptor"] {
            for (number, cost) in costs.iter().chain(&["1e999", "-1e999", &long]).enumerate() {
                let user = format!("{path}-{at}-{number}");
                assert_eq!(ask(path, cost, at, user.clone()), 429, "{path} {at} {cost}");
                assert_eq!(ask(path, "3", at, user), 200, "{path} {at} {cost}");
            }
            assert_eq!(ask(path, "2.5", at, format!("{path}-{at}")), 200);
            assert_eq!(ask(path, "null", at, format!("{path}-{at}")), 429);
        }
    }
}

#[test]
fn all_clients_on_a_unix_socket_that_can_not_be_told_apart_are_one() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("rules.yaml"), RULES).unwrap();
    let lines = format!(
        "listen: {{http: ['unix:{}', '127.0.0.1:0']}}\ntrusted_hops: 1\n\
         auth: {{domain: edge, descriptors: [{{client: '{{client_address}}'}}]}}",
        directory.path().join("http.sock").display()
    );
    let fixture = Fixture::in_directory(directory, &lines);
    let path = unix(&fixture.servers.addresses().http[0]);
    let port = crate::support::tcp(&fixture.servers.addresses().http[1]);
    let over_unix = |headers: &[(&str, &str)]| {
        let stream = UnixStream::connect(&path).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Answer::read(stream, &request("GET", "/v1/auth", headers, b"")).status
    };
    let over_tcp = |headers: &[(&str, &str)]| {
        let stream = std::net::TcpStream::connect(port).unwrap();
        Answer::read(stream, &request("GET", "/v1/auth", headers, b"")).status
    };
    let nameless: [&[(&str, &str)]; 6] = [
        &[("X-Forwarded-For", "192.0.2.1"), ("Forwarded", "for=192.0.2.2")],
        &[("X-Forwarded-For", "unknown")],
        &[],
        &[("X-Forwarded-For", "\u{ff}")],
        &[("Forwarded", "for=\"")],
        &[("Forwarded", "for=_hidden")],
    ];
    assert_eq!([over_unix(nameless[0]), over_tcp(nameless[1])], [200; 2]);
    for headers in nameless {
        assert_eq!([over_unix(headers), over_tcp(headers)], [403; 2], "{headers:?}");
    }
    // A zone says nothing of who it is.
    for (client, status) in [
        ("fe80::1%eth0", 200),
        ("[fe80::1%25eth1]:80", 200),
        ("fe80::1%x", 403),
        ("fe80::1", 403),
        ("2001:db8::1", 200),
    ] {
        assert_eq!(over_unix(&[("X-Forwarded-For", client)]), status, "{client}");
    }
    let unknown = question("client", "unknown");
    let stream = UnixStream::connect(&path).unwrap();
    assert_eq!(Answer::read(stream, &request("POST", "/v1/check", &[], unknown.as_bytes())).status, 429);
}
