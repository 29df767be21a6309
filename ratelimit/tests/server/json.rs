//! `POST /json`, as Envoy's service has it.

use serde_json::json;

use crate::support::Fixture;

#[test]
fn messages_are_mapped_as_protobuf_says() {
    let fixture = Fixture::new("");
    let body = json!({"domain": "edge", "hitsAddend": 1, "descriptors": [
        {"entries": [{"key": "user", "value": "alice"}], "hitsAddend": "1"},
        {"entries": [{"key": "quarter", "value": "x"}]},
        {"entries": [{"key": "other", "value": "x"}]},
    ]});
    let answer = fixture.post("/json", body.to_string());
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
    let expected = json!({"overallCode": "OK", "statuses": [
        {"code": "OK", "limitRemaining": 1, "durationUntilReset": "3600s",
         "currentLimit": {"name": "per-user", "requestsPerUnit": 2, "unit": "HOUR"}},
        // No unit of Envoy's has 15 minutes.
        {"code": "OK", "limitRemaining": 255, "durationUntilReset": "900s", "currentLimit": {"requestsPerUnit": 256}},
        {"code": "OK"},
    ]});
    assert_eq!(answer.json(), expected);
}

#[test]
fn names_of_both_kinds_are_read_and_a_denied_request_gets_429() {
    let fixture = Fixture::new("");
    let body = |unit: serde_json::Value| {
        json!({"domain": "edge", "hits_addend": 3, "descriptors": [{
            "entries": [{"key": "user", "value": "bob"}],
            "limit": {"requests_per_unit": 2, "unit": unit},
        }]})
    };
    for unit in [json!("WEEK"), json!(7)] {
        let answer = fixture.post("/json", body(unit).to_string());
        assert_eq!((answer.status, answer.header("cache-control")), (429, Some("no-store")));
        let answer = answer.json();
        assert_eq!(answer["overallCode"], "OVER_LIMIT");
        assert_eq!(answer["statuses"][0]["code"], "OVER_LIMIT");
        assert_eq!(answer["statuses"][0]["currentLimit"]["unit"], "WEEK");
    }
}

#[test]
fn what_makes_no_sense_is_400() {
    let fixture = Fixture::new("");
    for body in [
        "",
        "[]",
        r#"["edge", [], 1]"#,
        r#"{"domain": "edge", "descriptors": [[[{"key": "a", "value": "b"}]]]}"#,
        r#"{"domain": "edge", "descriptors": [{"entries": [["a", "b"]]}]}"#,
        r#"{"domain": "edge", "descriptors": [{"entries": [{"key": "a"}], "limit": [1, "DAY"]}]}"#,
        "{}",
        r#"{"domain": "edge"}"#,
        r#"{"domain": "", "descriptors": [{"entries": [{"key": "a", "value": "b"}]}]}"#,
        r#"{"domain": "edge", "descriptors": [{"entries": [{"key": "a"}]}], "unknown": 1}"#,
        r#"{"domain": "edge", "descriptors": [{"entries": [{"key": "a"}]}]} trailing"#,
        r#"{"domain": "edge", "hitsAddend": [1], "descriptors": [{"entries": [{"key": "a"}]}]}"#,
        r#"{"domain": "edge", "descriptors": [{"entries": [{"key": "a"}], "limit": {"requestsPerUnit": 1}}]}"#,
        r#"{"domain": "edge", "descriptors": [{"entries": [{"key": "a"}], "limit": {"unit": "DAY", "unitMultiplier": 2}}]}"#,
    ] {
        assert_eq!(fixture.post("/json", body).status, 400, "{body}");
    }
}

#[test]
fn a_member_that_is_there_twice_is_400_at_every_level_and_by_either_name() {
    let fixture = Fixture::new("");
    let whole = r#"{"domain": "edge", "hits_addend": 1, "descriptors": [{"entries": [{"key": "other", "value": "x"}],
        "hitsAddend": 1, "limit": {"requests_per_unit": 9, "unit": "DAY"}}]}"#;
    assert_eq!(fixture.post("/json", whole).status, 200);
    for (once, twice) in [
        (r#""domain": "edge","#, r#""domain": "other", "domain": "edge","#),
        (r#""domain": "edge","#, r#""dom\u0061in": "edge", "domain": "edge","#),
        (r#""hits_addend": 1,"#, r#""hits_addend": 1, "hitsAddend": 1,"#),
        (r#""hitsAddend": 1,"#, r#""hitsAddend": 1, "hits_addend": 1,"#),
        (r#""descriptors": ["#, r#""descriptors": [], "descriptors": ["#),
        (r#""key": "other","#, r#""key": "user", "key": "other","#),
        (r#""requests_per_unit": 9,"#, r#""requests_per_unit": 9, "requestsPerUnit": 9,"#),
    ] {
        let answer = fixture.post("/json", whole.replace(once, twice));
        let problem = answer.json().to_string();
        assert!(answer.status == 400 && problem.contains("duplicate field"), "{twice}: {problem}");
    }
}
