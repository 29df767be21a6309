//! Which limit applies to a descriptor.

use crate::{lab, request, shown, with_limit};
use ratelimit_limiter::application::TimeUnit;

const RULES: &str = "
domain: d
descriptors:
  - key: key1
    value: value1
    descriptors:
      - {key: sub, rate_limit: {unit: hour, requests_per_unit: 5}}
      - {key: sub, value: exact, rate_limit: {unit: hour, requests_per_unit: 10}}
  - {key: key2, rate_limit: {unit: hour, requests_per_unit: 20}}
  - {key: key2, value: value2, rate_limit: {unit: hour, requests_per_unit: 30}}
  - {key: key2, value: free}
  - key: key5
    value: value5
    rate_limit: {unit: hour, requests_per_unit: 15}
    descriptors: [{key: sub, value: v, rate_limit: {unit: hour, requests_per_unit: 25}}]
  - {key: wild, value: foo*, rate_limit: {unit: hour, requests_per_unit: 41}}
  - {key: wild, value: f*o*o, rate_limit: {unit: hour, requests_per_unit: 42}}
  - {key: wild, value: fooexact, rate_limit: {unit: hour, requests_per_unit: 43}}
  - {key: wild, rate_limit: {unit: hour, requests_per_unit: 44}}
  - {key: mid, value: bar*b, rate_limit: {unit: hour, requests_per_unit: 45}}
  - {key: x-*, rate_limit: {unit: hour, requests_per_unit: 46}}
  - {key: 'y-*-z', value: 'v*', rate_limit: {unit: hour, requests_per_unit: 47}}
  - {key: q, value: b_c, descriptors: [{key: d, rate_limit: {unit: hour, requests_per_unit: 48}}]}
  - {key: back, value: 'a*', descriptors: [{key: one, rate_limit: {unit: hour, requests_per_unit: 49}}]}
  - {key: back, descriptors: [{key: two, rate_limit: {unit: hour, requests_per_unit: 50}}]}
";

#[test]
fn entries_are_found_as_key_and_value_then_as_pattern_then_as_key() {
    let lab = lab(RULES);
    let cases = [
        ("key1=value1,sub=any", Some(5)),
        ("key1=value1,sub=exact", Some(10)),
        ("key1=value1,sub", Some(5)),
        ("key1=value2,sub=exact", None),
        ("key1=value1", None),
        ("key2=other", Some(20)),
        ("key2", Some(20)),
        ("key2=value2", Some(30)),
        ("key2=free", None),
        ("key5=value5", Some(15)),
        ("key5=value5,sub=v", Some(25)),
        // A limit stands for descriptors that end there.
        ("key5=value5,other=v", None),
        ("key2=value2,sub=v", None),
        ("wild=fooexact", Some(43)),
        ("wild=foobar", Some(41)),
        ("wild=foo", Some(41)),
        ("wild=fxoxo", Some(42)),
        ("wild=other", Some(44)),
        ("wild=foo*", Some(41)),
        ("mid=bar-b", Some(45)),
        ("mid=bar-c", None),
        ("x-anything=v", Some(46)),
        ("x-", Some(46)),
        ("y-1-z=value", Some(47)),
        ("y-1-z=other", None),
        ("q=b_c,d", Some(48)),
        // Found as the pattern, and no way back to the key alone.
        ("back=abc,one", Some(49)),
        ("back=abc,two", None),
        ("back=xyz,two", Some(50)),
        ("unknown=v", None),
    ];
    for (descriptor, expected) in cases {
        let limit = lab.one(descriptor).limit;
        assert_eq!(limit.map(|limit| limit.requests_per_unit), expected, "{descriptor}");
    }
}

#[test]
fn no_limit_and_an_unknown_domain_are_ok_and_have_no_limit() {
    let lab = lab(RULES);
    let mut unknown = request(&["key2=a"]);
    unknown.domain = "other".to_owned();
    for request in [unknown, request(&["nothing=a"])] {
        let response = lab.ask(&request);
        assert!(response.allowed() && response.deciding().is_none());
        let status = &response.statuses[0];
        assert!(status.limit.is_none() && status.rule.is_none() && status.duration_until_reset().is_none());
        assert_eq!(status.remaining, 0);
    }
    // A domain that is not known knows no limits of requests either.
    let mut own = with_limit("key2=a", 0, Some(TimeUnit::Day));
    own.domain = "other".to_owned();
    assert!(lab.ask(&own).allowed());
}

#[test]
fn each_value_has_a_bucket_and_a_shared_threshold_is_one_for_all() {
    let lab = lab("
domain: d
descriptors:
  - {key: own, value: 'a*', rate_limit: {unit: hour, requests_per_unit: 2}}
  - {key: all, value: 'a*', share_threshold: true, rate_limit: {unit: hour, requests_per_unit: 2}}
  - key: dir
    value: 'a*'
    share_threshold: true
    descriptors:
      - key: dir
        value: 'b*'
        descriptors: [{key: kind, rate_limit: {unit: hour, requests_per_unit: 2}}]
");
    for (first, second, is_shared) in [
        ("own=a1", "own=a2", false),
        ("all=a1", "all=a2", true),
        ("all=a1", "all=a*", true),
        ("dir=a1,dir=b1,kind=x", "dir=a2,dir=b1,kind=x", true),
        ("dir=a1,dir=b3,kind=y", "dir=a1,dir=b4,kind=y", false),
        ("dir=a1,dir=b1,kind=z", "dir=a1,dir=b1,kind=w", false),
    ] {
        let before = lab.one(second).remaining;
        assert!(lab.one(first).remaining < 2);
        let expected = if is_shared { "over 0".to_owned() } else { format!("ok {}", before - 1) };
        assert_eq!(shown(&lab.ask(&request(&[second]))), [expected], "{first} {second}");
        lab.advance(3600);
    }
}

#[test]
fn composite_keys_are_never_ambiguous() {
    let lab = lab("
domain: d
descriptors:
  - {key: a, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: a, value: b_c, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: a_b, value: c, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: a_b, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: a, value: b, descriptors: [{key: c, value: d, rate_limit: {unit: hour, requests_per_unit: 1}}]}
  - {key: a, value: b_c_d, rate_limit: {unit: hour, requests_per_unit: 1}}
");
    let ways = ["a=b_c", "a_b=c", "a=x", "a_b=x", "a=b,c=d", "a=b_c_d", "a_b=c_d", "a"];
    for way in ways {
        assert_eq!(shown(&lab.ask(&request(&[way]))), ["ok 0"], "{way}");
    }
    for way in ways {
        assert_eq!(shown(&lab.ask(&request(&[way]))), ["over 0"], "{way}");
    }
}

#[test]
fn a_domain_from_several_files_is_one() {
    let files = crate::files(&[
        "domain: d\ndescriptors: [{key: a, rate_limit: {unit: hour, requests_per_unit: 1}}]",
        "domain: d\ndescriptors: [{key: b, rate_limit: {unit: hour, requests_per_unit: 2}}]",
    ]);
    let rules = ratelimit_config::check_rules(&files.paths, true).unwrap().rules;
    let lab = crate::lab_of(&ratelimit_limiter::application::ServicePolicy::of_rules(rules));
    assert_eq!(shown(&lab.ask(&request(&["a=1", "b=1"]))), ["ok 0", "ok 1"]);
}
