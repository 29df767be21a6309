//! `POST /v1/check`: one request, many, and what is refused.

use serde_json::json;

use crate::support::{Fixture, question};

#[test]
fn the_decision_has_each_descriptor() {
    let fixture = Fixture::new("");
    let body = json!({"domain": "edge", "hits_addend": 2, "descriptors": [
        {"entries": [{"key": "user", "value": "alice"}]},
        {"entries": [{"key": "path", "value": "/login"}]},
        {"entries": [{"key": "watched", "value": "x"}]},
        {"entries": [{"key": "other"}]},
    ]});
    let answer = fixture.post("/v1/check", body.to_string());
    assert_eq!(answer.status, 200);
    let expected = json!({
        "allowed": true, "soft": false,
        "rule": "per-user", "limit": 2, "remaining": 0, "reset_after": 3600.0,
        "descriptors": [
            {"allowed": true, "rule": "per-user", "limit": 2, "remaining": 0, "reset_after": 3600.0},
            {"allowed": true, "rule": "path_/login", "limit": 5, "remaining": 3, "reset_after": 60.0},
            {"allowed": true, "rule": "watched", "limit": 1, "remaining": 0, "reset_after": 3600.0, "shadow": true},
            {"allowed": true},
        ],
    });
    assert_eq!(answer.json(), expected);
}

#[test]
fn many_requests_get_an_answer_each() {
    let fixture = Fixture::new("");
    let one: serde_json::Value = serde_json::from_str(&question("user", "bob")).unwrap();
    let empty = json!({"domain": "", "descriptors": []});
    let answer = fixture.post("/v1/check", json!({"requests": [one, one, one, empty]}).to_string());
    assert_eq!((answer.status, answer.header("cache-control")), (200, Some("no-store")));
    let answers = answer.json()["answers"].clone();
    let allowed: Vec<_> = (0..3).map(|index| answers[index]["allowed"].as_bool().unwrap()).collect();
    assert_eq!(allowed, [true, true, false]);
    assert_eq!(answers[2]["retry_after"], 3600.0);
    assert!(answers[3]["error"].as_str().unwrap().contains("domain"), "{answers}");
    assert_eq!(fixture.post("/v1/check", r#"{"requests": []}"#).json(), json!({"answers": []}));
}

#[test]
fn a_report_is_charged_and_not_denied() {
    let fixture = Fixture::new("");
    let question = |hits: serde_json::Value, report: serde_json::Value| {
        json!({"domain": "edge", "report": report, "descriptors": [
            {"entries": [{"key": "user", "value": "erin"}], "hits_addend": hits},
            {"entries": [{"key": "path", "value": "/login"}], "hits_addend": hits},
        ]})
    };
    let ask =
        |hits: u64, report: bool| fixture.post("/v1/check", question(hits.into(), report.into()).to_string());
    let reported = ask(3, true);
    assert_eq!((reported.status, reported.header("retry-after")), (200, None));
    assert_eq!(
        reported.json()["descriptors"][0],
        json!({
            "allowed": true, "rule": "per-user", "limit": 2, "remaining": 0, "reset_after": 3600.0,
        })
    );
    assert_eq!(reported.json()["descriptors"][1]["remaining"], 2);
    assert_eq!((ask(1, false).status, ask(1, true).status), (429, 200));
    let many = json!({"requests": [question(1.into(), true.into()), question(1.into(), false.into())]});
    let answers = fixture.post("/v1/check", many.to_string()).json()["answers"].clone();
    assert_eq!((&answers[0]["allowed"], &answers[1]["allowed"]), (&json!(true), &json!(false)));
    // What a client may choose is no error in a report, either.
    for hits in [json!(-1), json!(1e300), json!(2.5)] {
        assert_eq!(fixture.post("/v1/check", question(hits, true.into()).to_string()).status, 200);
    }
    assert_eq!(fixture.post("/v1/check", question(1.into(), "yes".into()).to_string()).status, 400);
}

#[test]
fn limits_and_hits_of_a_request_count() {
    let fixture = Fixture::new("");
    let ask = |hits: u64, negative: bool| {
        let body = json!({"domain": "edge", "descriptors": [{
            "entries": [{"key": "user", "value": "dave"}], "hits_addend": hits, "is_negative_hits": negative,
            "limit": {"requests_per_unit": 10, "unit": "day"},
        }]});
        let answer = fixture.post("/v1/check", body.to_string());
        (answer.status, answer.json()["remaining"].clone())
    };
    assert_eq!(ask(7, false), (200, 3.into()));
    assert_eq!(ask(2, true), (200, 5.into()));
    assert_eq!(ask(0, false), (200, 5.into()));
    assert_eq!(ask(6, false), (429, 0.into()));
    let unit = r#"{"domain": "edge", "descriptors": [{"entries": [{"key": "user"}], "limit": {"requests_per_unit": 1, "unit": "eon"}}]}"#;
    assert_eq!(fixture.post("/v1/check", unit).status, 400);
}

#[test]
fn what_makes_no_sense_is_refused_with_a_reason() {
    let fixture = Fixture::new("");
    let many = format!("{{\"requests\": [{}]}}", vec![question("user", "x"); 1001].join(","));
    for (body, part) in [
        ("", "EOF"),
        ("[]", "expected an object with domain and descriptors"),
        (r#"[[]]"#, "expected an object with domain and descriptors"),
        (r#"["edge", [[[["user", "bob"]], null, 1, false]], 1]"#, "expected an object with domain"),
        (r#"{"requests": [["edge", [], 1]]}"#, "expected an object with domain and descriptors"),
        (
            r#"{"domain": "edge", "descriptors": [[[{"key": "user"}], null, 1, false]]}"#,
            "invalid type: sequence, expected a descriptor: an object with entries",
        ),
        (
            r#"{"domain": "edge", "descriptors": [{"entries": [["user", "bob"]]}]}"#,
            "invalid type: sequence, expected an entry: an object with key and value",
        ),
        (
            r#"{"domain": "edge", "descriptors": [{"entries": [{"key": "user"}], "limit": [1, "day"]}]}"#,
            "invalid type: sequence, expected a limit: an object with requests_per_unit and unit",
        ),
        ("{", "EOF"),
        ("null", "invalid"),
        ("1", "expected an object with domain and descriptors"),
        (r#"{"requests": [1]}"#, "expected an object with domain and descriptors"),
        (r#"{"domain": "edge", "descriptors": [1]}"#, "expected a descriptor: an object with entries"),
        (
            r#"{"domain": "edge", "descriptors": [{"entries": ["a"]}]}"#,
            "expected an entry: an object with key",
        ),
        (
            r#"{"domain": "edge", "descriptors": [{"entries": [], "limit": 1}]}"#,
            "expected a limit: an object with requests_per_unit and unit",
        ),
        (r#"{"domain": "edge"}"#, "descriptors"),
        (r#"{"domain": "", "descriptors": [{"entries": [{"key": "a"}]}]}"#, "domain"),
        (r#"{"domain": "edge", "descriptors": []}"#, "descriptor"),
        (r#"{"domain": "edge", "descriptors": [{"entries": [{"key": "a"}]}], "hits": 1}"#, "hits"),
        (r#"{"domain": "edge", "descriptors": [{"entries": [{"key": "a"}], "hits_addend": "1"}]}"#, "hits"),
        (&many, "1001"),
    ] {
        let answer = fixture.post("/v1/check", body);
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (400, Some("application/problem+json")),
            "{body}"
        );
        let problem = answer.json();
        assert!(problem["detail"].as_str().unwrap().contains(part), "{body:.60}: {problem}");
    }
    assert_eq!(fixture.get("/v2", &[]).status, 404);
}

#[test]
fn a_route_says_which_methods_it_takes() {
    let fixture = Fixture::new("");
    for (path, methods) in [
        ("/v1/check", "POST"),
        ("/json", "POST"),
        ("/healthcheck", "GET,HEAD"),
        ("/openapi.json", "GET,HEAD"),
    ] {
        for method in ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "POS"] {
            let answer = fixture.send(method, path, &[], "");
            let is_taken = methods.split(',').any(|taken| taken == method);
            let allow = (answer.status == 405).then_some(methods);
            assert_eq!((answer.status != 405, answer.header("allow")), (is_taken, allow), "{method} {path}");
            assert!(method != "HEAD" || answer.body.is_empty(), "{path} {answer:?}");
        }
    }
}
