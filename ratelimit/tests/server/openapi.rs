//! The description of the HTTP routes is true: each route is there, and answers have the shape that it says.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::support::{Answer, Fixture, question};

fn description() -> Value {
    let answer = Fixture::new("").get("/openapi.json", &[]);
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
    answer.json()
}

/// The part of a document that a reference is to.
fn resolved<'d>(document: &'d Value, schema: &'d Value) -> &'d Value {
    match schema["$ref"].as_str() {
        Some(reference) => document.pointer(reference.strip_prefix('#').unwrap()).unwrap(),
        None => schema,
    }
}

/// Whether a value has the shape; of the keywords those that the description uses for answers.
fn fits(document: &Value, schema: &Value, value: &Value) -> bool {
    let schema = resolved(document, schema);
    let is_type = |name: &str| match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        other => panic!("type {other}"),
    };
    let each = |name: &str| schema[name].as_array().into_iter().flatten();
    let one_of: Vec<bool> = each("oneOf").map(|schema| fits(document, schema, value)).collect();
    schema["type"].as_str().is_none_or(is_type)
        && schema.get("const").is_none_or(|constant| constant == value)
        && schema.get("enum").is_none_or(|_| each("enum").any(|choice| choice == value))
        && (one_of.is_empty() || one_of.iter().filter(|fits| **fits).count() == 1)
        && each("required").all(|name| value.get(name.as_str().unwrap()).is_some())
        && value.as_array().into_iter().flatten().all(|item| fits(document, &schema["items"], item))
        && schema["properties"]
            .as_object()
            .into_iter()
            .flatten()
            .all(|(name, property)| value.get(name).is_none_or(|value| fits(document, property, value)))
}

#[test]
fn every_route_answers_as_described() {
    let document = description();
    let fixture = Fixture::new(
        "auth: {domain: edge, descriptors: [{user: '{header:X-User}'}, {soft: '{header:X-Soft}'}]}",
    );
    // The next two of each are above the soft limit.
    fixture.check("soft", "x");
    fixture.check("soft", "y");
    for _ in 0..2 {
        assert_eq!(fixture.check("user", "x").status, 200);
    }
    let denied = question("user", "x");
    let allowed = question("other", "x");
    let limited = question("user", "y");
    let soft = question("soft", "y");
    let many = format!(r#"{{"requests": [{allowed}, {denied}, {{"domain": "", "descriptors": []}}]}}"#);
    let large = "x".repeat(2 << 20);
    let mut seen = Vec::new();
    let mut headers = HashSet::new();
    for (method, path, shown, body, status) in [
        ("post", "/v1/check", "", allowed.as_str(), "200"),
        ("post", "/v1/check", "", &limited, "200"),
        ("post", "/v1/check", "", &soft, "200"),
        ("post", "/v1/check", "", &many, "200"),
        ("post", "/v1/check", "", &denied, "429"),
        ("post", "/v1/check", "", "{}", "400"),
        ("post", "/v1/check", "", &large, "429"),
        ("get", "/v1/auth", "X-User", "", "403"),
        ("post", "/v1/auth", "X-User", "", "403"),
        ("get", "/v1/auth", "X-Soft", "", "200"),
        ("post", "/v1/auth", "X-Soft", "", "200"),
        ("get", "/v1/auth", "", "", "200"),
        ("post", "/v1/auth", "", "", "200"),
        ("post", "/json", "", &allowed, "200"),
        ("post", "/json", "", &soft, "200"),
        ("post", "/json", "", &denied, "429"),
        ("post", "/json", "", "{}", "400"),
        ("post", "/json", "", &large, "429"),
        ("get", "/healthcheck", "", "", "200"),
        ("get", "/openapi.json", "", "", "200"),
    ] {
        let sent: &[(&str, &str)] = if shown.is_empty() { &[] } else { &[(shown, "x")] };
        let answer = fixture.send(&method.to_uppercase(), path, sent, body);
        assert_eq!(answer.status.to_string(), status, "{method} {path}");
        let described = &document["paths"][path][method]["responses"][status];
        check(&document, described, &answer);
        seen.push((path.to_owned(), method.to_owned()));
        for name in document["components"]["headers"].as_object().unwrap().keys() {
            if answer.header(&name.to_lowercase()).is_some() {
                assert!(described["headers"][name].is_object(), "{method} {path}: {status} has {name}");
                headers.insert((path, method, status, name.clone()));
            }
        }
    }
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            assert!(seen.contains(&(path.clone(), method.clone())), "{method} {path} is not tried");
            for (status, described) in operation["responses"].as_object().unwrap() {
                for name in described["headers"].as_object().into_iter().flat_map(|headers| headers.keys()) {
                    let found = (path.as_str(), method.as_str(), status.as_str(), name.clone());
                    assert!(headers.contains(&found), "{method} {path}: {status} has no {name}");
                }
            }
        }
    }
}

fn check(document: &Value, described: &Value, answer: &Answer) {
    assert!(described.is_object(), "not described: {answer:?}");
    let Some(content) = described["content"].as_object() else { return };
    let found = answer.header("content-type").unwrap();
    let described = content.iter().find(|(kind, _)| found.starts_with(kind.as_str()));
    let (kind, described) = described.unwrap_or_else(|| panic!("{found} is not described: {answer:?}"));
    let body = if kind == "text/plain" { answer.body.clone().into() } else { answer.json() };
    assert!(fits(document, &described["schema"], &body), "{body} is not {}", described["schema"]);
    let headers = described["headers"].as_object();
    for name in headers.into_iter().flat_map(|headers| headers.keys()) {
        assert!(document["components"]["headers"][name].is_object(), "{name}");
    }
}

#[test]
fn the_bounds_of_questions_are_those_that_are_kept() {
    let document = description();
    let fixture = Fixture::new("");
    let entry = || json!({"key": "other", "value": "x"});
    let descriptor = || json!({"entries": [entry()]});
    let question = |descriptors: Value| json!({"domain": "edge", "descriptors": descriptors});
    let with = |name: &str, value: Value| {
        let mut descriptor = descriptor();
        descriptor[name] = value;
        question(json!([descriptor]))
    };
    let times = |count: u64, value: Value| Value::from(vec![value; usize::try_from(count).unwrap()]);
    type Case<'c> = (&'c str, &'c dyn Fn(u64) -> Value, u16);
    let cases: [Case<'_>; 4] = [
        (
            "Requests/properties/requests/maxItems",
            &|n| json!({"requests": times(n, question(json!([descriptor()])))}),
            400,
        ),
        // What a client could bring about is denied, and no error.
        ("Request/properties/descriptors/maxItems", &|n| question(times(n, descriptor())), 429),
        (
            "Descriptor/properties/entries/maxItems",
            &|n| question(json!([{"entries": times(n, entry())}])),
            429,
        ),
        (
            "Descriptor/properties/limit/properties/requests_per_unit/maximum",
            &|n| with("limit", json!({"requests_per_unit": n, "unit": "day"})),
            400,
        ),
    ];
    for (place, make, beyond) in cases {
        let most = document.pointer(&format!("/components/schemas/{place}")).and_then(Value::as_u64);
        let most = most.unwrap_or_else(|| panic!("{place} is not said"));
        let status = |number: u64| fixture.post("/v1/check", make(number).to_string()).status;
        assert_eq!((status(most), status(most + 1)), (200, beyond), "{place}");
    }
}

#[test]
fn shapes_are_told_apart() {
    let document = description();
    let decision = json!({"$ref": "#/components/schemas/Decision"});
    let good = json!({"allowed": true, "soft": false, "descriptors": [{"allowed": true}]});
    assert!(fits(&document, &decision, &good));
    for (name, wrong) in [("allowed", json!("yes")), ("descriptors", json!([{}])), ("limit", json!(1.5))] {
        let mut bad = good.clone();
        bad[name] = wrong;
        assert!(!fits(&document, &decision, &bad), "{bad}");
    }
}
