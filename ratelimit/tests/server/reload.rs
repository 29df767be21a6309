//! What a reload changes in answers.

use std::fs;

use crate::support::{Fixture, application};

#[test]
fn headers_and_templates_follow_and_counts_stay() {
    let fixture = Fixture::new("auth: {domain: edge, descriptors: [{user: '{header:X-User}'}]}");
    let ask = || fixture.get("/v1/auth", &[("X-User", "a"), ("X-Client", "b")]);
    assert_eq!(ask().header("x-ratelimit-remaining"), Some("1"));

    let lines = "headers: {x_ratelimit: false}\nauth: {domain: edge, deny_status: 401, descriptors: [{user: '{header:X-User}'}]}";
    let policy = application(fixture.directory.path(), lines);
    fixture.reload(&policy).unwrap();
    let answer = ask();
    assert_eq!((answer.status, answer.header("x-ratelimit-remaining")), (200, None));
    assert!(answer.header("ratelimit").unwrap().contains("r=0"), "{answer:?}");
    assert_eq!(ask().status, 401);
}

#[test]
fn rules_change_under_load_and_no_request_fails() {
    let fixture = Fixture::new("");
    let roomy = crate::support::RULES.replace("requests_per_unit: 2", "requests_per_unit: 1000000");
    let file = fixture.directory.path().join("rules.yaml");
    let policies: Vec<_> = [roomy.clone(), format!("{roomy}  - key: more\n")]
        .iter()
        .map(|rules| {
            fs::write(&file, rules).unwrap();
            application(fixture.directory.path(), "")
        })
        .collect();
    fixture.service.reload(&policies[0].service_policy()).unwrap();
    let asked: u64 = std::thread::scope(|scope| {
        let asking: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    (0..200).map(|_| u64::from(fixture.check("user", "load").status == 200)).sum::<u64>()
                })
            })
            .collect();
        for round in 0..1000 {
            let policy = &policies[round % 2];
            fixture.reload(policy).unwrap();
        }
        asking.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(asked, 600);
    let left = fixture.check("user", "load").header("x-ratelimit-remaining").map(str::to_owned);
    assert_eq!(left, Some((1_000_000 - 601).to_string()));
}
