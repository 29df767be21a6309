//! Which files of rules load, and what is said of those that do not: written here in small, and those of Envoy's
//! service where this machine has them.

use std::path::{Path, PathBuf};

use ratelimit_common::limit::Algorithm;
use ratelimit_config::{self as config, ConfigError};
use ratelimit_limiter::application::{Quantity, RequestRate, RuleSet, TimeUnit};

use crate::{files, read_rules, rules};

/// The folder of Envoy's files, if this machine has it.
fn shared_files() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/envoy-config");
    if folder.join("README.md").exists() {
        return Some(folder);
    }
    println!("not run: {} is not there", folder.display());
    None
}

/// Files, whether domains are merged, and how the only error goes on behind its place; `None` if they load.
type Case<'c> = (&'c [&'c str], bool, Option<&'c str>);

const SHARED: [Case<'static>; 23] = [
    (&["basic_config"], false, None),
    (&["wildcard"], false, None),
    (&["share_threshold"], false, None),
    (&["shadowmode_config"], false, None),
    (&["metadata"], false, None),
    (&["config"], false, None),
    (&["example"], false, None),
    (&["merge_domain_key1", "merge_domain_key2"], true, None),
    (&["merge_domain_key1", "merge_domain_key2"], false, Some("duplicate domain `test-domain`")),
    (&["basic_config", "duplicate_domain"], false, Some("duplicate domain `test-domain`")),
    (
        &["merge_domain_key1", "merge_domain_key1"],
        true,
        Some("duplicate composite key `test-domain.key1_value1`"),
    ),
    (&["empty_domain"], false, Some("empty domain")),
    (&["empty_key"], false, Some("empty key")),
    (&["duplicate_key"], false, Some("duplicate composite key `test-domain.key1_value1`")),
    (&["bad_limit_unit"], false, Some("unit `foo`")),
    (&["replaces_self"], false, Some("replaces names its own descriptor")),
    (&["replaces_empty"], false, Some("empty replaces entry")),
    (&["bad_yaml"], false, Some("not YAML")),
    (&["misspelled_key"], false, Some("unknown key `ratelimit`, did you mean `rate_limit`?")),
    (&["misspelled_key2"], false, Some("unknown key `requestsperunit`, did you mean `requests_per_unit`?")),
    (&["non_string_key"], false, Some("key 0.25 is not a string")),
    (&["non_map_list"], false, Some("list item `a` is not a map")),
    (&["unlimited_with_unit"], false, Some("unit given although unlimited")),
];

#[test]
fn the_files_of_envoys_service_load_or_fail_for_the_reason_given() {
    let Some(folder) = shared_files() else { return };
    for (names, merge, expected) in SHARED {
        let paths: Vec<PathBuf> = names.iter().map(|name| folder.join(format!("{name}.yaml"))).collect();
        let result = config::check_rules(&paths, merge);
        match (result, expected) {
            (Ok(checked), None) => {
                assert_eq!(checked.warnings, [], "{names:?}");
                assert!(checked.rules.limits() > 0);
            }
            (Err(errors), Some(expected)) => {
                let errors: Vec<ConfigError> = errors.into_iter().collect();
                assert!(errors.iter().any(|error| error.message.contains(expected)), "{names:?}: {errors:?}");
                assert!(errors.iter().all(|error| error.file.ends_with(".yaml") && error.line > 0));
                assert!(
                    errors.len() == 1 || names[0] == "non_map_list" || names[0] == "non_string_key",
                    "{errors:?}"
                );
            }
            (result, expected) => panic!("{names:?}: {result:?}, expected {expected:?}"),
        }
    }
}

/// Every kind of mistake, with its line, column and field.
#[test]
fn mistakes_are_reported_with_their_places() {
    let limit = |text: &str| format!("domain: d\ndescriptors:\n- key: a\n  rate_limit: {{{text}}}\n");
    let top = |text: &str| format!("domain: d\ndescriptors:\n{text}\n");
    let unit = "unit: second, requests_per_unit: 5";
    let cases = [
        ("domain:\ndescriptors: []".to_owned(), "1:1 domain: empty domain"),
        ("descriptors: []".to_owned(), "1:1 : empty domain"),
        (top("- value: v"), "3:3 descriptors[0].key: empty key"),
        (top("- key: ''"), "3:3 descriptors[0].key: empty key"),
        (
            top("- {key: a, value: v}\n- {key: a, value: v}"),
            "4:3 descriptors[1]: duplicate composite key `d.a_v`",
        ),
        (
            top("- key: a\n  descriptors: [{key: b}, {key: b}]"),
            "4:27 descriptors[0].descriptors[1]: duplicate composite key `d.a.b`",
        ),
        (top("- a"), "3:3 descriptors[0]: list item `a` is not a map"),
        (top("- [a]"), "3:3 descriptors[0]: must be a mapping (of key,"),
        (top("- {key: a, rate_limit: [minute, 1]}"), "3:24 descriptors[0].rate_limit: must be a mapping (of"),
        (
            "[d, []]".to_owned(),
            "1:1 : must be a mapping (of domain, on_store_error, consistency, descriptors), not a list",
        ),
        (top("  {key: a}"), "3:3 descriptors: must be a list"),
        (top("- {key: a, 7: b}"), "3:12 descriptors[0].7: key 7 is not a string"),
        (top("- {key: a, true: b}"), "3:12 descriptors[0].true: key true is not a string"),
        (top("- {key: a, 'x': b}"), "3:12 descriptors[0].x: unknown key `x`; accepted: key, value"),
        (top("- {key: a, shadow: yes}"), "3:12 descriptors[0].shadow: unknown key `shadow`"),
        (
            top("- {key: a, shadow_mode: maybe}"),
            "3:25 descriptors[0].shadow_mode: `maybe` is not a yes or no",
        ),
        (
            top("- {key: a, share_threshold: true}"),
            "3:12 descriptors[0].share_threshold: share_threshold is for patterns",
        ),
        (top("- {key: a, metadata: [1]}"), "3:12 descriptors[0].metadata: must be a mapping"),
        (limit("unit: foo, requests_per_unit: 5"), "4:22 .unit: unit `foo` is not a unit of time"),
        (limit("unit: unknown, requests_per_unit: 5"), "4:22 .unit: unit `unknown` is not a unit"),
        (limit("requests_per_unit: 5"), "4:15 .unit: no unit"),
        (
            limit("unit: day, requests_per_unit: -1"),
            "4:46 .requests_per_unit: `-1` is not a whole number from 0",
        ),
        (limit("unit: day, requests_per_unit: 4294967296"), "4:46 .requests_per_unit: `4294967296` is not"),
        (limit("unit: day, requests_per_unit: 1.5"), "4:46 .requests_per_unit: `1.5` is not"),
        (limit("unlimited: true, unit: day"), "4:33 .unit: unit given although unlimited"),
        (
            limit("unlimited: true, algorithm: token_bucket"),
            "4:33 .algorithm: algorithm given although unlimited",
        ),
        (limit(&format!("{unit}, per: 15m")), "4:57 .per: unit and per are both given"),
        (limit("per: 0s, requests_per_unit: 5"), "4:21 .per: a time of 0"),
        (limit("per: 53w, requests_per_unit: 5"), "4:16 .per: the time of a rate must be"),
        (limit(&format!("{unit}, algorithm: token")), "4:63 .algorithm: `token` is not known"),
        (limit(&format!("{unit}, burst: 9")), "4:52 .burst: is for buckets; add `algorithm: token_bucket`"),
        (
            limit(&format!("{unit}, algorithm: fixed_window, burst: 9")),
            "4:77 .burst: fixed_window has no burst",
        ),
        (
            limit(&format!("{unit}, algorithm: token_bucket, burst: 0")),
            "4:84 .burst: a burst of 0 would deny",
        ),
        (
            limit(&format!("{unit}, algorithm: token_bucket, burst: 1MB")),
            "4:84 .burst: sizes are for packets",
        ),
        (
            limit("unit: day, requests_per_unit: 10001, algorithm: sliding_window_log"),
            "4:27 .requests_per_unit: a log keeps 10000",
        ),
        (limit(&format!("{unit}, overrun: maybe")), "4:61 .overrun: `maybe` is not a yes or no"),
        (
            limit(&format!("{unit}, overrun: true, count_denied: true")),
            "4:67 .count_denied: overrun charges denied costs already",
        ),
        (
            limit("unit: year, requests_per_unit: 5, overrun: true"),
            "4:50 .overrun: with overrun, ten windows can be owed: the time of the rate can be 33 days at most",
        ),
        (
            limit("unit: day, requests_per_unit: 10, overrun: true, algorithm: token_bucket, burst: 331"),
            "4:50 .overrun: with overrun, ten times the burst can be owed, and an empty bucket would take more",
        ),
        (
            limit("per: 34d, requests_per_unit: 1, overrun: true, algorithm: leaky_bucket"),
            "4:48 .overrun: with overrun, ten times the burst can be owed, and one unit would take more than 33 days",
        ),
        (limit("unlimited: true, overrun: true"), "4:33 .overrun: overrun given although unlimited"),
        (limit(&format!("{unit}, on_limit: delay")), "4:62 .on_limit: `delay` is not supported yet"),
        (limit(&format!("{unit}, on_limit: queue")), "4:62 .on_limit: `queue` is not supported yet"),
        (limit(&format!("{unit}, on_limit: wait")), "4:62 .on_limit: `wait` is not known"),
        (limit(&format!("{unit}, queue_size: 5")), "4:64 .queue_size: `queue_size` is not supported yet"),
        (limit(&format!("{unit}, soft_limit: 3")), "4:52 .soft_limit: say for how long"),
        (limit(&format!("{unit}, soft_for: 3s")), "4:52 .soft_for: is for a `soft_limit`"),
        (
            limit(&format!("{unit}, soft_limit: 5, soft_for: 3s")),
            "4:52 .soft_limit: a soft limit of 5 is never",
        ),
        (limit(&format!("{unit}, soft_limit: 0, soft_for: 3s")), "4:64 .soft_limit: must be at least 1"),
        (limit(&format!("{unit}, replaces: [{{name: }}]")), "4:64 .replaces[0].name: empty replaces entry"),
        (
            limit(&format!("{unit}, name: x, replaces: [{{name: x}}]")),
            "4:79 .replaces[0].name: replaces names its own",
        ),
        (limit(&format!("{unit}, requests: 5")), "4:52 .requests: unknown key `requests`"),
    ];
    let mut wrong = Vec::new();
    for (content, expected) in cases {
        let expected = expected.replacen(" .", " descriptors[0].rate_limit.", 1);
        let errors = read_rules(&[&content], false).expect_err(&content);
        let found: Vec<String> = errors
            .into_iter()
            .map(|error| format!("{}:{} {}: {}", error.line, error.column, error.field, error.message))
            .collect();
        if found.len() != 1 || !found[0].starts_with(&expected) {
            wrong.push(format!("{content}expected {expected}\nfound {found:#?}\n"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn all_mistakes_of_all_files_are_reported_at_once() {
    let bad = "domain: d\ndescriptors:\n- key: a\n  rate_limit: {unit: foo}\n- {ke: b}\n";
    let errors = read_rules(&[bad, "domain: e\nx: 1\n", bad], false).unwrap_err();
    let found: Vec<_> = errors.into_iter().map(|error| (error.file, error.line, error.field)).collect();
    let lines: Vec<usize> = found.iter().map(|(_, line, _)| *line).collect();
    assert_eq!(lines, [4, 5, 2, 1, 4, 5], "{found:?}");
    assert!(found[2].0.ends_with("1.yaml") && found[3].0.ends_with("2.yaml"));
}

#[test]
fn a_known_key_at_a_wrong_level_is_a_warning() {
    let content = "domain: d\nunit: day\ndescriptors:\n- key: a\n  unit: day\n  rate_limit: {unit: day, \
                   requests_per_unit: 1, shadow_mode: true, replaces: [{name: x, value: y}]}\n\
                   - {key: b, rate_limit: {name: x, unlimited: true}}\n";
    let files = files(&[content]);
    let checked = config::check_rules(&files.paths, false).unwrap();
    let found: Vec<_> = checked
        .warnings
        .iter()
        .map(|w| format!("{}:{} {}: {}", w.line, w.column, w.field, w.message))
        .collect();
    let expected = [
        "2:1 unit: `unit` does nothing here: it belongs to `rate_limit`",
        "5:3 descriptors[0].unit: `unit` does nothing here: it belongs to `rate_limit`",
        "6:49 descriptors[0].rate_limit.shadow_mode: `shadow_mode` does nothing here: it belongs to a descriptor",
        "6:89 descriptors[0].rate_limit.replaces[0].value: `value` does nothing here: it belongs to a descriptor",
    ];
    assert_eq!(found, expected);
    // And it does nothing: the limit is not in shadow mode.
    assert!(!checked.rules.domains()[0].descriptors[0].shadow_mode);
}

#[test]
fn no_number_of_requests_denies_all_with_a_warning() {
    let files = files(&["domain: d\ndescriptors: [{key: a, rate_limit: {unit: day}}]\n"]);
    let checked = config::check_rules(&files.paths, false).unwrap();
    assert!(checked.warnings.len() == 1 && checked.warnings[0].message.contains("all requests are denied"));
    assert!(rate(&checked.rules).denies_all());
}

#[test]
fn a_number_of_requests_beside_unlimited_does_nothing_with_a_warning() {
    let files =
        files(&["domain: d\ndescriptors: [{key: a, rate_limit: {unlimited: true, requests_per_unit: 5}}]\n"]);
    let checked = config::check_rules(&files.paths, false).unwrap();
    let found: Vec<_> =
        checked.warnings.iter().map(|w| (w.column, w.field.as_str(), w.message.as_str())).collect();
    let field = "descriptors[0].rate_limit.requests_per_unit";
    assert_eq!(found, [(54, field, "does nothing, since the limit is unlimited: leave one of them out")]);
    assert_eq!(
        checked.rules.domains()[0].descriptors[0].limit.as_ref().unwrap().quantity,
        Quantity::Unlimited
    );
}

fn rate(rules: &RuleSet) -> RequestRate {
    match rules.domains()[0].descriptors[0].limit.as_ref().unwrap().quantity {
        Quantity::Limited(rate) => rate,
        Quantity::Unlimited => panic!("unlimited"),
    }
}

#[test]
fn scalars_are_taken_as_written() {
    let content = "domain: 7\ndescriptors:\n- {key: 404, value: 0x10}\n- {key: on, value: true}\n- {key: a, value: null}\n\
                   - {key: a, value: 'null'}\n- {key: b, value: 1.50}\n- {key: c, value: ''}\n";
    let rules = rules(content);
    let domain = &rules.domains()[0];
    let found: Vec<_> =
        domain.descriptors.iter().map(|rule| (rule.key.as_str(), rule.value.as_deref())).collect();
    let expected = [
        ("404", Some("0x10")),
        ("on", Some("true")),
        ("a", None),
        ("a", Some("null")),
        ("b", Some("1.50")),
        ("c", None),
    ];
    assert_eq!((domain.name.as_str(), found), ("7", expected.to_vec()));
}

#[test]
fn units_are_of_any_case_and_months_have_thirty_days() {
    for (text, seconds) in
        [("SECOND", 1), ("Minute", 60), ("week", 604_800), ("MONTH", 2_592_000), ("year", 31_536_000)]
    {
        let rules = rules(&format!(
            "domain: d\ndescriptors: [{{key: a, rate_limit: {{unit: {text}, requests_per_unit: 5}}}}]"
        ));
        let rate = rate(&rules);
        assert_eq!(rate.spec().rate.per.0, seconds * 1_000_000_000, "{text}");
        assert_eq!(rate.unit(), text.parse::<TimeUnit>().ok());
    }
}

#[test]
fn a_rule_without_our_keys_counts_what_is_denied_and_one_with_an_algorithm_does_not() {
    let of = |text: &str| {
        let limit = format!("{{unit: minute, requests_per_unit: 5, {text}}}");
        *rate(&rules(&format!("domain: d\ndescriptors: [{{key: a, rate_limit: {limit}}}]"))).spec()
    };
    assert_eq!((of("").algorithm, of("").count_denied), (Algorithm::FixedWindow, true));
    assert!(!of("count_denied: false").count_denied);
    for algorithm in Algorithm::ALL {
        let name = algorithm.name();
        assert_eq!(
            (of(&format!("algorithm: {name}")).algorithm, of(&format!("algorithm: {name}")).count_denied),
            (algorithm, false)
        );
        assert!(of(&format!("algorithm: {name}, count_denied: true")).count_denied);
    }
}

#[test]
fn metadata_is_kept_as_it_is() {
    let rules = rules(
        "domain: d\ndescriptors: [{key: a, metadata: {tier: gold, n: 5, x: [1.5, yes, true, '7', null]}}]",
    );
    let metadata = rules.domains()[0].descriptors[0].metadata.clone().unwrap();
    assert_eq!(metadata, serde_json::json!({"tier": "gold", "n": 5, "x": [1.5, "yes", true, "7", null]}));
}
