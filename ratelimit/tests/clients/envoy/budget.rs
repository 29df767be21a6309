//! Costs that Envoy reports when an answer is done.

use std::{mem, time::Instant};

use super::Envoy;
use crate::process::{from_document, post, until};

/// 5,000 tokens a minute, and answers of 2,000: the third goes beyond them, and the fourth waits until that is paid.
/// The slower the machine is, the more comes back meanwhile.
#[test]
fn a_budget_is_charged_when_an_answer_is_done() {
    const COST: u128 = 2_000;
    let rules =
        from_document("docs/budgets.md", "yaml", "domain: llm").replace("domain: llm", "domain: edge");
    let routes = from_document(
        "docs/budgets.md",
        "yaml",
        "routes:                           # of a virtual host, for budgets",
    );
    let envoy = Envoy::start_with_routes(&rules, &routes);
    let left = || {
        let entries = r#"[{"key": "user", "value": "alice"}], "hits_addend": 0"#;
        let question = format!(r#"{{"domain": "edge", "descriptors": [{{"entries": {entries}}}]}}"#);
        post(envoy.daemon.http, "/v1/check", &question).json()["remaining"].as_u64().unwrap()
    };
    let ask = || envoy.get("/any", &[("x-user", "alice")]).status;
    let begun = Instant::now();
    let had = || 5_000 + 5_000 * begun.elapsed().as_millis() / 60_000;
    let (mut passed, mut before) = (0, left());
    let denied = loop {
        match ask() {
            200 => passed += 1,
            status => break status,
        }
        assert!((passed - 1) * COST < had(), "{passed} of {}", had());
        // Nothing else takes from what is left. Envoy sends it when the client has its answer.
        until("a report", || {
            let now = left();
            mem::replace(&mut before, now) > now
        });
    };
    assert_eq!(denied, 429);
    assert!(passed >= 3, "{passed}");
    until("the debt's end", || ask() == 200);
    assert!(passed * COST < had(), "{passed} of {}", had());
}
