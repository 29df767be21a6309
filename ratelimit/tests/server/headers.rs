//! The headers of answers, as section "Answers" of the documentation has them.

use ratelimit::limiter::Nanos;

use crate::support::{Fixture, START, question};

const LIMIT: &str = "x-ratelimit-limit";
const REMAINING: &str = "x-ratelimit-remaining";
const X_RETRY_AFTER: &str = "x-ratelimit-retry-after";

#[test]
fn a_window_says_what_is_left_and_when_it_ends() {
    let fixture = Fixture::new("");
    fixture.clock.set(Nanos(START.0 + 1));
    let answer = fixture.check("user", "alice");
    assert_eq!(answer.status, 200);
    let header = |name| answer.header(name);
    assert_eq!((header(LIMIT), header(REMAINING)), (Some("2"), Some("1")));
    assert_eq!((header(X_RETRY_AFTER), header("retry-after")), (None, None));
    assert_eq!(header("ratelimit-policy"), Some("\"per-user\";q=2;w=3600"));
    assert_eq!(header("ratelimit"), Some("\"per-user\";r=1;t=3600"));
    assert_eq!(header("cache-control"), Some("no-store"));
    assert_eq!(header("content-type"), Some("application/json"));
    assert_eq!(header("x-ratelimit-soft"), None);
}

#[test]
fn a_denied_request_says_when_to_come_back_in_whole_seconds_at_least_one() {
    let fixture = Fixture::new("");
    for _ in 0..2 {
        assert_eq!(fixture.check("user", "bob").status, 200);
    }
    for (after, expected) in
        [(0, "3600"), (3_599 * Nanos::SECOND.0 + 1, "1"), (3_600 * Nanos::SECOND.0 - 1, "1")]
    {
        fixture.clock.set(Nanos(START.0 + after));
        let answer = fixture.check("user", "bob");
        assert_eq!(answer.status, 429);
        assert_eq!(answer.header("retry-after"), Some(expected));
        assert_eq!(answer.header(X_RETRY_AFTER), Some(expected));
        assert_eq!(answer.header("ratelimit").unwrap(), format!("\"per-user\";r=0;t={expected}"));
        assert_eq!(answer.header("content-type"), Some("application/problem+json"));
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        let problem = answer.json();
        assert_eq!(problem["type"], "https://iana.org/assignments/http-problem-types#quota-exceeded");
        assert_eq!(problem["violated-policies"], serde_json::json!(["per-user"]));
        assert_eq!((&problem["status"], &problem["allowed"]), (&429.into(), &false.into()));
    }
    fixture.clock.advance(Nanos(1));
    assert_eq!(fixture.check("user", "bob").status, 200);
}

#[test]
fn a_bucket_says_its_burst_and_the_time_to_the_next_unit() {
    let fixture = Fixture::new("");
    fixture.check("bucket", "a");
    let answer = fixture.check("bucket", "a");
    assert_eq!(answer.header(LIMIT), Some("3"));
    assert_eq!(answer.header("ratelimit-policy"), Some("\"a \\\"quoted\\\" n%C3%A4me\";q=3;w=3"));
    assert_eq!(answer.header("ratelimit"), Some("\"a \\\"quoted\\\" n%C3%A4me\";r=1;t=1"));
    fixture.check("bucket", "a");
    let answer = fixture.check("bucket", "a");
    assert_eq!((answer.status, answer.header("retry-after")), (429, Some("1")));
    // Who waits as long as that gets through.
    fixture.clock.advance(Nanos::SECOND);
    assert_eq!(fixture.check("bucket", "a").status, 200);
}

#[test]
fn headers_stay_short_however_long_a_name_is() {
    let name = "ä\"".repeat(2_000);
    let rules = format!(
        "domain: edge\ndescriptors:\n  - {{key: user, rate_limit: {{name: {name:?}, unit: hour, requests_per_unit: 1}}}}\n"
    );
    let fixture = Fixture::with_rules(&rules, "");
    for status in [200, 429] {
        let answer = fixture.check("user", "a");
        assert_eq!(answer.status, status);
        for header in ["ratelimit", "ratelimit-policy"] {
            let value = answer.header(header).unwrap();
            assert!(value.starts_with("\"%C3%A4\\\"%C3") && value.len() < 450, "{} {value}", value.len());
        }
    }
}

#[test]
fn bodies_have_the_beginning_of_a_long_name() {
    let name = format!("x{}", "äöü".repeat(10_000));
    let limit = format!("{{name: {name}, unit: hour, requests_per_unit: 1}}");
    let rules = format!("domain: edge\ndescriptors:\n  - {{key: user, rate_limit: {limit}}}\n");
    let fixture = Fixture::with_rules(&rules, "");
    // 128 bytes would end within a letter.
    let beginning = &name[..127];
    let answer = fixture.check("user", "a").json();
    assert_eq!((&answer["rule"], &answer["descriptors"][0]["rule"]), (&beginning.into(), &beginning.into()));
    assert_eq!(fixture.check("user", "a").json()["violated-policies"], serde_json::json!([beginning]));
    let answer = fixture.post("/json", question("user", "a")).json();
    assert_eq!(answer["statuses"][0]["currentLimit"]["name"], beginning);
}

#[test]
fn who_never_gets_through_is_not_told_to_wait() {
    let fixture = Fixture::new("");
    let body = r#"{"domain": "edge", "descriptors": [{"entries": [{"key": "bucket", "value": "b"}], "hits_addend": 4}]}"#;
    let answer = fixture.post("/v1/check", body);
    assert_eq!(answer.status, 429);
    assert_eq!((answer.header("retry-after"), answer.header(X_RETRY_AFTER)), (None, None));
    assert!(!answer.header("ratelimit").unwrap().contains(";t="), "{answer:?}");
    assert_eq!(answer.json()["descriptors"][0]["never"], true);
}

#[test]
fn each_set_can_be_turned_off() {
    for (off, gone) in [
        ("x_ratelimit", &[LIMIT, REMAINING, X_RETRY_AFTER][..]),
        ("retry_after", &["retry-after"]),
        ("ietf", &["ratelimit", "ratelimit-policy"]),
    ] {
        let fixture = Fixture::new(&format!("headers: {{{off}: false}}"));
        let answer = (0..3).map(|_| fixture.check("user", "carol")).last().unwrap();
        assert_eq!(answer.status, 429);
        for name in [LIMIT, REMAINING, X_RETRY_AFTER, "retry-after", "ratelimit", "ratelimit-policy"] {
            assert_eq!(answer.header(name).is_none(), gone.contains(&name), "{off}: {name}");
        }
    }
}

#[test]
fn what_passes_by_a_soft_limit_is_flagged() {
    let fixture = Fixture::new("");
    assert_eq!(fixture.check("soft", "a").header("x-ratelimit-soft"), None);
    let answer = fixture.check("soft", "a");
    assert_eq!((answer.status, answer.header("x-ratelimit-soft")), (200, Some("1")));
    assert_eq!(answer.json()["soft"], true);
}

#[test]
fn without_a_limit_there_are_no_numbers() {
    let fixture = Fixture::new("");
    let answer = fixture.check("unknown", "x");
    assert_eq!(answer.status, 200);
    assert_eq!(
        answer.json(),
        serde_json::json!({"allowed": true, "soft": false, "descriptors": [{"allowed": true}]})
    );
    for name in [LIMIT, REMAINING, "ratelimit", "ratelimit-policy"] {
        assert_eq!(answer.header(name), None, "{name}");
    }
    assert_eq!(answer.header("cache-control"), Some("no-store"));
}
