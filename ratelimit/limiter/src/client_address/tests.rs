//! Whom requests come from, and who can't make them seem to come from elsewhere.

use super::*;

fn headers(lines: &[(HeaderName, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        headers.append(name, HeaderValue::from_str(value).unwrap());
    }
    headers
}

fn found(lines: &[(HeaderName, &str)], trusted_hops: u8) -> String {
    let peer = "10.0.0.1".parse().ok();
    client(&headers(lines), peer, trusted_hops)
        .map_or_else(|| "nobody".to_owned(), |client| client.to_string())
}

#[test]
fn hops_are_counted_from_the_right_over_all_lines() {
    for (lines, hops, expected) in [
        (&["6.6.6.6, 1.1.1.1, 2.2.2.2"][..], 0, "10.0.0.1"),
        (&["6.6.6.6, 1.1.1.1, 2.2.2.2"], 1, "2.2.2.2"),
        (&["6.6.6.6, 1.1.1.1, 2.2.2.2"], 2, "1.1.1.1"),
        (&["6.6.6.6, 1.1.1.1, 2.2.2.2"], 4, "nobody"),
        (&["6.6.6.6", "1.1.1.1,2.2.2.2"], 2, "1.1.1.1"),
        (&["6.6.6.6", "1.1.1.1", "2.2.2.2"], 3, "6.6.6.6"),
        (&[" , ,1.1.1.1 ,, "], 1, "1.1.1.1"),
        (&[""], 1, "nobody"),
        (&[], 1, "nobody"),
    ] {
        let lines: Vec<_> = lines.iter().map(|line| (X_FORWARDED_FOR, *line)).collect();
        assert_eq!(found(&lines, hops), expected, "{lines:?} {hops}");
    }
}

#[test]
fn all_forms_of_addresses_are_read() {
    for (hop, expected) in [
        ("192.0.2.1:4711", "192.0.2.1"),
        ("2001:DB8::0:1", "2001:db8::1"),
        ("[2001:db8::1]", "2001:db8::1"),
        ("[2001:db8::1]:4711", "2001:db8::1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("[::ffff:192.0.2.1]:80", "192.0.2.1"),
        ("_hidden", "nobody"),
        ("unknown", "nobody"),
        ("evil.example", "nobody"),
        ("192.0.2.256", "nobody"),
        ("[2001:db8::1]x", "nobody"),
        ("[2001:db8::1]:_port", "2001:db8::1"),
        ("2001:db8::1:80:", "nobody"),
        ("fe80::1%eth0", "fe80::1"),
        ("[fe80::1%25eth0]:80", "fe80::1"),
        ("[fe80::1%a:b]", "fe80::1"),
        ("fe80::1%", "nobody"),
        ("%eth0", "nobody"),
        ("192.0.2.1%eth0", "nobody"),
    ] {
        assert_eq!(found(&[(X_FORWARDED_FOR, &format!("6.6.6.6, {hop}"))], 1), expected, "{hop}");
    }
    let mut bytes = headers(&[]);
    bytes.append(X_FORWARDED_FOR, HeaderValue::from_bytes(b"\xff\xfe").unwrap());
    assert_eq!(client(&bytes, None, 1), None);
    bytes.insert(X_FORWARDED_FOR, HeaderValue::from_bytes(b"\xff\xfe, 1.1.1.1").unwrap());
    assert_eq!(client(&bytes, None, 1), "1.1.1.1".parse().ok());
}

#[test]
fn forwarded_is_read_with_all_its_quoting() {
    for (lines, hops, expected) in [
        (&["for=6.6.6.6, for=192.0.2.43"][..], 1, "192.0.2.43"),
        (&["for=6.6.6.6, for=192.0.2.43"], 2, "6.6.6.6"),
        (&["for=6.6.6.6, for=192.0.2.43"], 3, "nobody"),
        (&["For=\"[2001:db8:cafe::17]:4711\""], 1, "2001:db8:cafe::17"),
        (&["for=\"192.0.2.1:_port\";by=203.0.113.43"], 1, "192.0.2.1"),
        (&["by=203.0.113.43;proto=http ; FOR=192.0.2.60"], 1, "192.0.2.60"),
        (&["for=\"_gaz\\onk\""], 1, "nobody"),
        (&["for=unknown"], 1, "nobody"),
        (&["for=1.1.1.1, proto=https"], 1, "nobody"),
        (&["for=1.1.1.1, proto=https"], 2, "1.1.1.1"),
        (&["for=[2001:db8::1]"], 1, "2001:db8::1"),
        (&["for=\"[fe80::1%eth0]:80\""], 1, "fe80::1"),
        (&["for=1.1.1.1,, ,"], 1, "1.1.1.1"),
        (&["for=1.1.1.1;secret=\"a, for=6.6.6.6; b\""], 1, "1.1.1.1"),
        (&["for=6.6.6.6", "for=1.1.1.1"], 1, "1.1.1.1"),
        // A stranger's text can't swallow what the proxy adds behind it.
        (&["for=\"6.6.6.6, for=1.1.1.1"], 1, "nobody"),
        (&["for=6.6.6.6;x=\", for=\"[2001:db8::1]:1\""], 1, "nobody"),
        (&["for=6.6.6.6;x=\"\\", "for=1.1.1.1"], 1, "nobody"),
        (&["for=6.6.6.6;for=7.7.7.7"], 1, "nobody"),
        (&["6.6.6.6"], 1, "nobody"),
        (&["for="], 1, "nobody"),
        (&["=6.6.6.6"], 1, "nobody"),
    ] {
        let lines: Vec<_> = lines.iter().map(|line| (FORWARDED, *line)).collect();
        assert_eq!(found(&lines, hops), expected, "{lines:?} {hops}");
    }
}

#[test]
fn long_headers_are_read_in_one_pass() {
    // If each separator cost a look at all that follows, this would take minutes.
    for (text, expected) in [(";", "1.1.1.1"), (",", "1.1.1.1"), ("a=b;", "1.1.1.1"), ("a,", "nobody")] {
        let long = format!("{}for=1.1.1.1", text.repeat(1 << 20));
        assert_eq!(found(&[(FORWARDED, &long)], 1), expected, "{text}");
    }
    let long = format!("{}1.1.1.1", ",".repeat(1 << 20));
    assert_eq!(found(&[(X_FORWARDED_FOR, &long)], 1), "1.1.1.1");
}

#[test]
fn of_two_headers_that_differ_none_is_believed() {
    let both = |forwarded| found(&[(X_FORWARDED_FOR, "6.6.6.6, 1.1.1.1"), (FORWARDED, forwarded)], 1);
    assert_eq!(both("for=1.1.1.1"), "1.1.1.1");
    assert_eq!(both("for=6.6.6.6"), "nobody");
    assert_eq!(both("nonsense"), "nobody");
}

#[test]
fn behind_proxies_the_peer_is_never_the_client() {
    assert_eq!(client(&headers(&[]), None, 0), None);
    assert_eq!(client(&headers(&[(X_FORWARDED_FOR, "1.1.1.1")]), None, 2), None);
    let known = client(&headers(&[(X_FORWARDED_FOR, "1.1.1.1")]), None, 1).unwrap();
    assert_eq!(known.to_string(), "1.1.1.1");
    let peer = client(&headers(&[]), "::ffff:192.0.2.1".parse().ok(), 0).unwrap();
    assert_eq!(peer.to_string(), "192.0.2.1");
}

proptest::proptest! {
    /// Whatever stands to the left of what the trusted proxy wrote changes nothing, other than that nobody is believed.
    #[test]
    fn what_strangers_write_does_not_matter(text in "[ -~]{0,60}", forwarded: bool) {
        let (name, own) = if forwarded { (FORWARDED, "for=1.1.1.1") } else { (X_FORWARDED_FOR, "1.1.1.1") };
        for lines in [vec![(name.clone(), format!("{text}, {own}"))], vec![(name.clone(), text.clone()), (name.clone(), own.to_owned())]] {
            let lines: Vec<_> = lines.iter().map(|(name, line)| (name.clone(), line.as_str())).collect();
            let client = found(&lines, 1);
            proptest::prop_assert!(client == "1.1.1.1" || (forwarded && client == "nobody"), "{client}");
        }
    }
}
