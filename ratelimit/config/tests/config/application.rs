//! The `application` section: settings, files of rules, and what is wrong with them.

use std::{fs, path::PathBuf};

use ratelimit_common::time::Nanos;
use ratelimit_config::{self as config};
use ratelimit_policy::application::{
    AnswerHeaders, Application, ClientBits, ListenAddress, ListenerSettings, NearLimitRatio, OnStoreError,
    StoreSettings,
};

use super::{File, assert_errors, check, file, policy, shown};

fn section(lines: &[&str]) -> String {
    let lines: String = lines.iter().map(|line| format!("  {line}\n")).collect();
    format!("application:\n{lines}")
}

fn application(lines: &[&str]) -> Application {
    policy(&section(lines)).application.unwrap()
}

#[test]
fn what_is_left_out_has_its_default() {
    let policy = policy("application: {}");
    assert!(policy.network.is_none());
    let section = policy.application.unwrap();
    assert_eq!(section, Application::of_rules(section.rules.clone()));
    assert_eq!(section.rules.limits(), 0);
}

#[test]
fn every_setting() {
    let section = application(&[
        "shadow_mode: true",
        "quota_mode: true",
        "near_limit_ratio: 0.5",
        "trusted_hops: 2",
        "headers: {x_ratelimit: false, retry_after: false, ietf: false, grpc: true}",
        "auth: {domain: edge, deny_status: 429, client: {ipv4: 24, ipv6: 48}, descriptors: [{a: \"{path}\", b: x}]}",
        "store: {memory: {max_keys: 20k, state_file: s, save_interval: 10s}}",
        "on_store_error: local",
    ]);
    assert!(section.shadow_mode && section.quota_mode);
    assert_eq!((section.near_limit_ratio, section.trusted_hops), (NearLimitRatio::new(0.5).unwrap(), 2));
    let headers = AnswerHeaders { x_ratelimit: false, retry_after: false, ietf: false, grpc: true };
    assert_eq!(section.headers, headers);
    let auth = section.auth.unwrap();
    assert_eq!((auth.asks.domain.as_str(), auth.deny_status), ("edge", 429));
    assert_eq!(auth.asks.client, ClientBits { ipv4: 24, ipv6: 48 });
    let keys: Vec<&str> = auth.asks.descriptors[0].entries.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys, ["a", "b"]);
    let StoreSettings { max_keys, state_file, save_interval } = section.store;
    assert!(max_keys == 20_000 && state_file.unwrap().is_absolute() && save_interval == Nanos::from_secs(10));
    assert_eq!(section.on_store_error, OnStoreError::Local);
}

#[test]
fn listeners_are_addresses_sockets_and_with_tls() {
    let file = file(section(&[
        "listen:",
        "  grpc: [127.0.0.1:8081, \"[::1]:8081\", \"unix:run/g.sock\"]",
        "  http: {address: 0.0.0.0:8443, tls: {cert: c.pem, key: /k.pem, client_ca: ca.pem}}",
    ]));
    let directory = file.path.parent().unwrap();
    let listen = config::load(&file.path).unwrap().application.unwrap().listen;
    let shown: Vec<String> = listen.grpc.iter().map(|listener| listener.address.to_string()).collect();
    let socket = format!("unix:{}", directory.join("run/g.sock").display());
    assert_eq!(shown, ["127.0.0.1:8081", "[::1]:8081", &socket]);
    let [ListenerSettings { address: ListenAddress::Tcp(address), tls: Some(tls) }] = &listen.http[..] else {
        panic!("{:?}", listen.http);
    };
    assert_eq!(address.to_string(), "0.0.0.0:8443");
    let (cert, ca) = (directory.join("c.pem"), directory.join("ca.pem"));
    assert_eq!((&tls.cert, &tls.key, &tls.client_ca), (&cert, &PathBuf::from("/k.pem"), &Some(ca)));
}

#[test]
fn mistakes_of_the_section() {
    let cases = [
        ("shadow_mode: yes", "2:16 application.shadow_mode: `yes` is not known; accepted: true, false"),
        ("near_limit_ratio: 1.5", "2:21 application.near_limit_ratio: `1.5` is not a number from 0 to 1"),
        ("near_limit_ratio: NaN", "2:21 application.near_limit_ratio: `NaN` is not a number from 0 to 1"),
        ("trusted_hops: -1", "2:17 application.trusted_hops: `-1` is not a number from 0 to 100"),
        ("trusted_hops: 101", "2:17 application.trusted_hops: `101` is not a number from 0 to 100"),
        ("headers: {x: true}", "2:13 application.headers.x: unknown key `x`"),
        ("auth: {domain: d}", "2:9 application.auth.descriptors: missing"),
        ("auth: {descriptors: [{a: b}]}", "2:9 application.auth.domain: missing"),
        (
            "auth: {domain: d, descriptors: [a]}",
            "2:35 application.auth.descriptors[0]: must be a mapping of keys",
        ),
        (
            "auth: {domain: d, descriptors: [{a: \"{way}\"}]}",
            "2:39 application.auth.descriptors[0].a: no such fact in braces; accepted: client_address, method",
        ),
        ("auth: {domain: '', descriptors: [{a: b}]}", "2:18 application.auth.domain: empty domain; name"),
        (
            "auth: {domain: d, descriptors: [{'': b}]}",
            "2:36 application.auth.descriptors[0].: empty key; every",
        ),
        (
            "auth: {domain: d, descriptors: [{a: \"{header:x y}\"}]}",
            "2:39 application.auth.descriptors[0].a: no header can have such a name: write",
        ),
        (
            "auth: {domain: d, descriptors: [{a: \"{cookie:x=y}\"}]}",
            "2:39 application.auth.descriptors[0].a: no cookie can have such a name: write",
        ),
        (
            "auth: {domain: d, descriptors: [{a: \"{client_address/24}\"}]}",
            "2:39 application.auth.descriptors[0].a: write the bits of IPv4 and of IPv6 addresses that count, 1 to 32",
        ),
        (
            "auth: {domain: d, descriptors: [{a: \"{client_address/33/64}\"}]}",
            "2:39 application.auth.descriptors[0].a: write the bits of IPv4 and of IPv6 addresses that count, 1 to 32",
        ),
        (
            "auth: {domain: d, descriptors: [{a: \"{path_template}\"}]}",
            "2:39 application.auth.descriptors[0].a: there are no templates of paths: add `path: {templates:",
        ),
        (
            "auth: {domain: d, descriptors: [{a: \"{path:id}\"}], path: {templates: [\"/a/{b}\"]}}",
            "2:39 application.auth.descriptors[0].a: no template under `path.templates` beside it has a parameter `id`",
        ),
        (
            "auth: {domain: d, descriptors: [{a: b}], path: {escaped_slashes: refuse}}",
            "2:68 application.auth.path.escaped_slashes: `refuse` is not known; accepted: keep, decode",
        ),
        (
            "auth: {domain: d, descriptors: [{a: \"{path\"}]}",
            "2:39 application.auth.descriptors[0].a: braces come in pairs",
        ),
        (
            "auth: {domain: d, descriptors: [{a: b}], deny_status: 200}",
            "2:57 application.auth.deny_status: `200` is not a number from 400 to 599",
        ),
        (
            "auth: {domain: d, descriptors: [{a: b}], client: {ipv4: 33}}",
            "2:59 application.auth.client.ipv4: `33` is not a number from 1 to 32",
        ),
        ("store: disk", "2:10 application.store: `disk` is not known; accepted: memory, redis"),
        (
            "auth: {domain: d, descriptors: [{a: b}], deny_body: busy}",
            "2:55 application.auth.deny_body: its name does not tell what it is; accepted endings: .html",
        ),
        (
            "store: {memory: {max_keys: 0}}",
            "2:30 application.store.memory.max_keys: `0` is not a number from 1",
        ),
        ("store: {memory: {state_file: ''}}", "2:32 application.store.memory.state_file: must be a path"),
        (
            "store: {memory: {state_file: s, save_interval: 30}}",
            "2:50 application.store.memory.save_interval: `30` is not a time",
        ),
        (
            "store: {memory: {state_file: s, save_interval: 2d}}",
            "2:50 application.store.memory.save_interval: at most 1 day",
        ),
        (
            "store: {memory: {save_interval: 30s}}",
            "2:35 application.store.memory.save_interval: there is no `state_file`",
        ),
        ("on_store_error: wait", "2:19 application.on_store_error: `wait` is not known; accepted: allow"),
        (
            "listen: {grpc: localhost:1}",
            "2:18 application.listen.grpc: `localhost:1` is not where one can listen",
        ),
        ("listen: {grpc: \"8081\"}", "2:18 application.listen.grpc: `8081` is not where one can listen"),
        (
            "listen: {grpc: 1.2.3.4:1, http: 1.2.3.4:1}",
            "2:35 application.listen.http: `1.2.3.4:1` is there twice",
        ),
        ("listen: {grpc: {tls: {cert: a, key: b}}}", "2:18 application.listen.grpc.address: missing"),
        (
            "listen: {http: {address: 1.2.3.4:1, tls: {cert: a}}}",
            "2:44 application.listen.http.tls.key: missing",
        ),
        ("listen: {http: \"unix:\"}", "2:18 application.listen.http: must be the path of a socket"),
        ("rules: nowhere.yaml", "1:1 : no such file"),
        ("rules: [no*.yaml]", "2:11 application.rules[0]: no file matches `no*.yaml`"),
        ("rules: 'a[.yaml'", "2:10 application.rules: `a[.yaml` is not a pattern"),
    ];
    for (line, expected) in cases {
        assert_errors(section(&[line]), &[expected]);
    }
    assert_errors(
        section(&["auth: {domain: d, descriptors: [{a: b}], path: {templates: [/a, b, /a/]}}"]),
        &[
            "2:67 application.auth.path.templates[1]: `b`: a template begins with a slash",
            "2:70 application.auth.path.templates[2]: `/a/`: is for the same paths as /a",
        ],
    );
    // Any port that the system chooses is another one.
    application(&["listen: {grpc: 127.0.0.1:0, http: 127.0.0.1:0}"]);
}

#[test]
fn a_body_for_denied_requests_is_read_and_bounded() {
    let content = "application: {auth: {domain: d, descriptors: [{a: b}], deny_body: busy.txt}}";
    let body = |text: &str| config::load(&files_beside(content, &[("busy.txt", text)]).path);
    let auth = body("Busy").unwrap().application.unwrap().auth.unwrap();
    let read = auth.deny_body.unwrap();
    assert_eq!((read.content_type, &*read.bytes), ("text/plain; charset=utf-8", &b"Busy"[..]));
    let error = body(&"x".repeat((1 << 20) + 1)).unwrap_err().to_string();
    assert!(error.contains("deny_body: ") && error.contains("larger than"), "{error}");
    let error = config::load(&file(content).path).unwrap_err().to_string();
    assert!(error.contains("busy.txt: no such file"), "{error}");
}

fn files_beside(content: &str, files: &[(&str, &str)]) -> File {
    let file = file(content);
    for (name, rules) in files {
        let path = file.path.with_file_name(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, rules).unwrap();
    }
    file
}

const A: &str = "domain: a\ndescriptors: [{key: x, rate_limit: {unit: day, requests_per_unit: 1}}]\n";

#[test]
fn files_of_rules_are_found_beside_the_configuration() {
    let b = A.replace("domain: a", "domain: b");
    let files = [("r/2.yaml", A), ("r/1.yaml", &*b), ("r/.hidden.yaml", "x: 1"), ("r/no.yml", "x: 1")];
    let file = files_beside("application: {rules: [r/*.yaml, r/2.yaml]}", &files);
    let section = config::load(&file.path).unwrap().application.unwrap();
    let names: Vec<_> = section.rules.domains().iter().map(|domain| domain.name.as_str()).collect();
    assert_eq!(names, ["b", "a"], "by name, each once");
    assert_eq!(section.sources.files.len(), 2);
    assert!(section.sources.patterns[0].ends_with("r/*.yaml"));
}

#[test]
fn the_directory_itself_is_no_pattern() {
    let directory = tempfile::tempdir().unwrap();
    let own = directory.path().join("a[1]*");
    fs::create_dir(&own).unwrap();
    fs::write(own.join("c.yaml"), "application: {rules: '*rules.yaml'}").unwrap();
    fs::write(own.join("rules.yaml"), A).unwrap();
    let section = config::load(&own.join("c.yaml")).unwrap().application.unwrap();
    assert_eq!(section.rules.limits(), 1);
}

#[test]
fn mistakes_in_files_of_rules_name_the_file() {
    let file = files_beside(
        "application:\n  rules: [one.yaml, two.yaml]\n  trusted_hops: x\n",
        &[("one.yaml", "domain: a\ndescriptors: [{ke: x}]\n"), ("two.yaml", "domain: a\ny: 1\n")],
    );
    let errors: Vec<_> = config::load(&file.path).unwrap_err().into_iter().collect();
    let found: Vec<_> =
        errors.iter().map(|e| format!("{} {}", e.file.rsplit('/').next().unwrap(), shown(e))).collect();
    let expected = [
        "c.yaml 3:17 application.trusted_hops: `x`",
        "one.yaml 2:16 descriptors[0].ke: unknown key `ke`, did you mean `key`?",
        "two.yaml 1:9 domain: duplicate domain `a`",
        "two.yaml 2:1 y: unknown key `y`",
    ];
    let begins = found.iter().zip(expected).all(|(found, expected)| found.starts_with(expected));
    assert!(found.len() == expected.len() && begins, "{found:#?}");
}

#[test]
fn domains_are_merged_if_the_configuration_says_so() {
    let b = A.replace("key: x", "key: y");
    let content = |merge: &str| format!("application: {{rules: [one.yaml, two.yaml]{merge}}}");
    let files = [("one.yaml", A), ("two.yaml", &*b)];
    let errors = config::load(&files_beside(&content(""), &files).path).unwrap_err().to_string();
    assert!(errors.contains("two.yaml:1:9: domain: duplicate domain `a`"), "{errors}");
    let merged = files_beside(&content(", merge_domains: true"), &files);
    assert_eq!(config::load(&merged.path).unwrap().application.unwrap().rules.limits(), 2);
}

#[test]
fn what_may_not_be_meant_is_a_warning() {
    let cases = [
        ("application: {}", "1:14 application: no rules: every request will pass"),
        (
            "application: {rules: domains/edge.yaml, auth: {domain: other, descriptors: [{a: b}]}}",
            "1:56 application.auth.domain: no file of rules is about this domain",
        ),
    ];
    for (content, expected) in cases {
        let warnings: Vec<String> = check(content).unwrap().warnings.iter().map(shown).collect();
        assert!(warnings.len() == 1 && warnings[0].starts_with(expected), "{warnings:?}");
    }
    assert_eq!(check("application: {rules: domains/edge.yaml}").unwrap().warnings, []);
}

#[test]
fn descriptors_that_can_not_mean_what_they_say_are_warned_about() {
    let found = |auth: &str| {
        let content = format!("application: {{rules: a.yaml, {auth}}}");
        let files = files_beside(&content, &[("a.yaml", A)]);
        let warnings = config::check(&files.path).unwrap().warnings;
        warnings.iter().map(|warning| warning.message[..20].to_owned()).collect::<Vec<_>>()
    };
    let client = r#"auth: {domain: a, descriptors: [{x: "{client_address}"}]}"#;
    assert_eq!(found(client), ["is the peer's addres"]);
    assert!(found(&format!("trusted_hops: 1, {client}")).is_empty());
    let other = "auth: {domain: a, descriptors: [{x: b}, {y: b}]}";
    assert_eq!(found(other), ["no rule of the domai"]);
}

#[test]
fn values_that_no_request_has_are_warned_about() {
    let rules = "domain: a\ndescriptors:\n\
        - {key: client, descriptors: [{key: path, value: '/a%3Ab', rate_limit: {unit: day, requests_per_unit: 1}}]}\n\
        - {key: path, value: '//%7Eb*', rate_limit: {unit: day, requests_per_unit: 1}}\n\
        - {key: path, value: /a/b, rate_limit: {unit: day, requests_per_unit: 1}}\n\
        - {key: host, value: 'Example.org:8443', rate_limit: {unit: day, requests_per_unit: 1}}\n";
    let found = |descriptors: &str| {
        let content =
            format!("application: {{rules: a.yaml, auth: {{domain: a, descriptors: {descriptors}}}}}");
        let warnings = config::check(&files_beside(&content, &[("a.yaml", rules)]).path).unwrap().warnings;
        warnings.iter().map(|warning| warning.message.clone()).collect::<Vec<_>>()
    };
    assert_eq!(
        found(r#"[{path: "{path}"}, {host: "{host}"}]"#),
        [
            "never has the value `/a%3Ab` that a rule is about: write `/a:b` there",
            "never has the value `Example.org:8443` that a rule is about: write `example.org` there",
        ]
    );
    assert!(found(r#"[{path: "x{path}"}, {host: "{header:host}"}, {client: all}]"#).is_empty());
}

#[test]
fn where_a_header_can_be_left_out_with_its_limit_a_warning_says_so() {
    let found = |descriptors: &str| {
        let auth = format!("auth: {{domain: a, descriptors: [{descriptors}]}}");
        let files = files_beside(
            &format!("application: {{rules: a.yaml, trusted_hops: 1, {auth}}}"),
            &[("a.yaml", A)],
        );
        let warnings = config::check(&files.path).unwrap().warnings;
        let found =
            warnings.iter().filter(|warning| warning.message.contains("clients choose what they send"));
        found.map(|warning| warning.field.clone()).collect::<Vec<_>>()
    };
    let user = "{x: '{header:x-user}'}";
    let first = "application.auth.descriptors[0].x";
    assert_eq!(found(user), [first]);
    assert_eq!(found("{x: '{path}-{query:page}'}"), [first]);
    let second = "application.auth.descriptors[1].x";
    assert_eq!(found(&format!("{user}, {{x: '{{method}}-{{header:a}}'}}")), [first, second]);
    // One that every request has limits those without the header, if a rule is about it.
    assert!(found(&format!("{user}, {{x: '{{client_address}}'}}")).is_empty());
    assert!(found(&format!("{user}, {{x: '{{client_address/24/56}}'}}")).is_empty());
    assert_eq!(found("{x: '{cookie:plan}'}"), [first]);
    assert!(found("{x: '{cookie:plan|free}'}").is_empty());
    assert_eq!(found(&format!("{user}, {{y: '{{client_address}}'}}")), [first]);
}

#[test]
fn on_a_unix_socket_clients_have_addresses_only_from_proxies() {
    let client = r#"auth: {domain: a, descriptors: [{x: "c-{client_address}"}]}"#;
    let found = |lines: &str| {
        let content = format!("application: {{rules: a.yaml, {lines}}}");
        config::check(&files_beside(&content, &[("a.yaml", A)]).path).map(drop)
    };
    for listen in ["http: 'unix:a.sock'", "http: ['127.0.0.1:0', 'unix:a.sock']"] {
        for hops in ["", "trusted_hops: 0, "] {
            let errors = found(&format!("{hops}listen: {{{listen}}}, {client}")).unwrap_err().to_string();
            assert!(errors.contains("clients have no address on a Unix socket"), "{errors}");
            assert!(errors.contains("trusted_hops") && errors.contains("descriptors[0].x"), "{errors}");
        }
        found(&format!("trusted_hops: 1, listen: {{{listen}}}, {client}")).unwrap();
        found(&format!("listen: {{{listen}}}, auth: {{domain: a, descriptors: [{{x: '{{path}}'}}]}}"))
            .unwrap();
    }
    found(&format!("listen: {{grpc: 'unix:a.sock', http: '127.0.0.1:0'}}, {client}")).unwrap();
}

#[test]
fn a_file_of_rules_is_no_configuration() {
    assert_errors(A, &["1:1 : this is a file of rules on requests; a configuration names it under"]);
}
