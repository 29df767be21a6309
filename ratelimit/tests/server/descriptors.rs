//! What `/v1/auth` makes of what a gateway shows: each kind of fact, what stands for a missing one, and what clients
//! try.

use crate::support::Fixture;

/// Denies each descriptor that has a rule, so that the answer says which there are.
fn fixture(auth: &str, rules: &[(&str, &str)]) -> Fixture {
    let rule = |(key, value): &(&str, &str)| {
        format!("  - {{key: {key}, value: '{value}', rate_limit: {{unit: day, requests_per_unit: 0}}}}\n")
    };
    let rules: String = rules.iter().map(rule).collect();
    Fixture::with_rules(
        &format!("domain: edge\ndescriptors:\n{rules}"),
        &format!("trusted_hops: 1\nauth: {{domain: edge, {auth}}}"),
    )
}

fn is_denied(fixture: &Fixture, headers: &[(&str, &str)]) -> bool {
    fixture.get("/v1/auth", headers).status == 403
}

#[test]
fn an_entry_has_as_much_of_the_address_as_it_says() {
    let auth = "descriptors: [{one: '{client_address/32/128}'}, {net: '{client_address/24/48}'}]";
    for (key, value, inside, outside) in [
        ("one", "192.0.2.1", "192.0.2.1", "192.0.2.2"),
        ("net", "192.0.2.0/24", "192.0.2.200", "192.0.3.1"),
        ("one", "2001:db8::1", "2001:db8::1", "2001:db8::2"),
        ("net", "2001:db8:1::/48", "2001:db8:1:ffff::9", "2001:db8:2::"),
    ] {
        let fixture = fixture(auth, &[(key, value)]);
        assert!(is_denied(&fixture, &[("X-Forwarded-For", inside)]), "{value} {inside}");
        assert!(!is_denied(&fixture, &[("X-Forwarded-For", outside)]), "{value} {outside}");
    }
}

#[test]
fn paths_are_instances_of_templates() {
    let auth = "path: {templates: ['/users/{id}', '/users/me']}, descriptors: [{path: '{path_template|other}', id: \
                '{path:id|-}'}]";
    let rules = "
domain: edge
descriptors:
  - key: path
    value: '/users/{id}'
    descriptors: [{key: id, rate_limit: {unit: day, requests_per_unit: 1}}]
  - key: path
    value: other
    descriptors: [{key: id, value: '-', rate_limit: {unit: day, requests_per_unit: 0}}]
";
    let fixture = Fixture::with_rules(rules, &format!("auth: {{domain: edge, {auth}}}"));
    let ask = |target: &str| fixture.get("/v1/auth", &[("X-Forwarded-Uri", target)]).status;
    assert_eq!([ask("/users/7"), ask("/users/8"), ask("/users/me"), ask("/")], [200, 200, 200, 403]);
    for target in ["/users/7", "/users/7/", "//users/./7?x", "/users/%37;a", "/x/..;/users/7"] {
        assert_eq!(ask(target), 403, "{target}");
    }
}

#[test]
fn a_default_stands_for_what_is_missing_or_empty() {
    let auth = "descriptors: [{plan: '{header:x-plan|free}'}, {sid: '{cookie:sid|none}'}, {page: '{query:page|first}'}]";
    let plan = fixture(auth, &[("plan", "free")]);
    assert!(is_denied(&plan, &[]) && is_denied(&plan, &[("X-Plan", "")]));
    assert!(!is_denied(&plan, &[("X-Plan", "paid")]));
    let session = fixture(auth, &[("sid", "none")]);
    assert!(is_denied(&session, &[]) && is_denied(&session, &[("Cookie", "sid=; x=1")]));
    assert!(!is_denied(&session, &[("Cookie", "x=1; sid=7")]));
    let page = fixture(auth, &[("page", "first")]);
    assert!(is_denied(&page, &[("X-Forwarded-Uri", "/?x=1")]));
    assert!(!is_denied(&page, &[("X-Forwarded-Uri", "/?page=2")]));
}

#[test]
fn several_values_under_one_name_share_one_limit() {
    let rules = "
domain: edge
descriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 2}}]
";
    for (value, name, asked) in [
        ("{header:x-user}", "X-User", ["1", "2", "3"]),
        ("{cookie:user}", "Cookie", ["user=1", "user=2", "user=3"]),
        ("{query:user}", "X-Forwarded-Uri", ["/?user=1&user=a", "/?user=2&user=a", "/?user=3&user=a"]),
    ] {
        let auth = format!("auth: {{domain: edge, descriptors: [{{user: '{value}'}}]}}");
        let fixture = Fixture::with_rules(rules, &auth);
        let other = if name == "Cookie" { "user=a" } else { "a" };
        let ask = |one: &str| match name {
            "X-Forwarded-Uri" => fixture.get("/v1/auth", &[(name, one)]).status,
            _ => fixture.get("/v1/auth", &[(name, one), (name, other)]).status,
        };
        assert_eq!(asked.map(ask), [200, 200, 403], "{value}");
    }
}

#[test]
fn the_application_says_what_is_one_path() {
    let ask = |lines: &str, value: &str, target: &str| {
        let auth = format!("path: {{{lines}}}, descriptors: [{{path: '{{path}}'}}]");
        is_denied(&fixture(&auth, &[("path", value)]), &[("X-Forwarded-Uri", target)])
    };
    assert!(ask("ignore_case: true", "/login", "/LogIn"));
    assert!(!ask("ignore_case: false", "/login", "/LogIn"));
    for target in ["/x/..%2Flogin", "/x%5c..%5Clogin", "/x\\..\\login", "/%2flogin"] {
        assert!(ask("escaped_slashes: decode", "/login", target), "{target}");
        assert!(!ask("escaped_slashes: keep", "/login", target), "{target}");
    }
}
