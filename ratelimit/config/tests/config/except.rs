//! What rules except.

use std::fs;

use ratelimit_config as config;
use ratelimit_policy::{Match, match_text::format_except};

use super::{assert_error, check, file, rule};

fn excepted(lines: &[&str]) -> (Vec<Match>, Vec<String>) {
    let file = file(rule(lines));
    fs::write(file.path.with_file_name("list.txt"), "# nobody\n").unwrap();
    let checked = config::check(&file.path).unwrap_or_else(|errors| panic!("{errors}"));
    let warnings = checked.warnings.iter().map(|warning| format!("{} {}", warning.field, warning.message));
    let warnings = warnings.filter(|warning| warning.contains("except")).collect();
    (checked.policy.network.unwrap().rules.first().unwrap().except.clone(), warnings)
}

#[test]
fn an_exception_is_written_as_a_match() {
    let (except, warnings) =
        excepted(&["except: {source: [192.0.2.53, \"fd00::/8\"], destination_port: [53, 80-90]}"]);
    let text = format_except(&except).unwrap();
    assert_eq!(text, "source 192.0.2.53/32 fd00::/8, destination_port 53 80-90");
    assert!(warnings.is_empty(), "{warnings:?}");
    assert_eq!(excepted(&["match: {protocol: udp}"]).0, []);
}

#[test]
fn several_exceptions_are_a_list() {
    let (except, warnings) =
        excepted(&["except: [{source: 192.0.2.53}, {protocol: udp, destination_port: 53}]"]);
    let text = format_except(&except).unwrap();
    assert_eq!(text, "(source 192.0.2.53/32) or (protocol udp, destination_port 53)");
    assert!(warnings.is_empty(), "{warnings:?}");
    let (except, _) = excepted(&["except: [{source: 192.0.2.53}]"]);
    assert_eq!(format_except(&except).unwrap(), "source 192.0.2.53/32");
}

#[test]
fn exceptions_are_bounded() {
    let of = |count: u16| {
        let each: Vec<String> = (0..count).map(|last| format!("{{source: 10.0.0.{last}}}")).collect();
        format!("except: [{}]", each.join(", "))
    };
    // The first one of the rule counts for each of its three prefix lengths: /32, /24, and /64 of IPv6.
    let key = "key: {source: {ipv4: {32: 1, 24: 32}}}";
    assert_eq!(excepted(&[key, &of(62)]).0.len(), 62);
    assert_eq!(excepted(&[&of(64)]).0.len(), 64);
    let expected = "except[62]: 65 exceptions; at most 64 are supported";
    let mistake = |lines: &[&str]| check(rule(lines)).unwrap_err().to_string();
    assert!(mistake(&[key, &of(63)]).contains(expected), "{}", mistake(&[key, &of(63)]));
    assert!(mistake(&[&of(65)]).contains("except[64]: 65 exceptions"), "{}", mistake(&[&of(65)]));
}

#[test]
fn mistakes_in_an_exception_have_its_place() {
    for (line, expected) in [
        ("except: {}", "5:15 except: is empty, and would except every packet"),
        ("except: 192.0.2.53", "5:15 except: must be a mapping"),
        ("except: []", "5:15 except: an empty list"),
        ("except: [{}]", "5:16 except[0]: is empty, and would except every packet"),
        ("except: [{source: 192.0.2.53}, 7]", "5:38 except[1]: must be a mapping"),
        ("except: [{source: 192.0.2.5x}]", "5:25 except[0].source: "),
        ("except: {sourc: 192.0.2.53}", "5:16 except.sourc: unknown key `sourc`, did you mean `source`?"),
        ("except: {source: 192.0.2.5x}", "5:24 except.source: "),
        ("except: {protocol: icmp, destination_port: 53}", "5:26 except.protocol: `icmp` has no ports"),
        ("except: {source: {file: nowhere.txt}}", "5:31 except.source.file: "),
    ] {
        assert_error(rule(&[line]), "network.rules[0].", expected);
    }
}

#[test]
fn exceptions_that_change_nothing_or_everything_are_warned_of() {
    for (lines, expected) in [
        (
            &["match: {destination_port: [80, 443]}", "except: {destination_port: 22}"][..],
            Some("`destination_port` has"),
        ),
        (
            &["match: {source: 10.0.0.0/8}", "except: {source: [192.0.2.0/24, \"fd00::/8\"]}"],
            Some("`source` has"),
        ),
        (&["match: {protocol: tcp}", "except: {protocol: udp, source: 192.0.2.1}"], Some("`protocol` has")),
        (&["match: {source: 10.1.0.0/16}", "except: {source: 10.0.0.0/8}"], Some("excepts all that `match`")),
        (&["except: {source: [0.0.0.0/0, \"::/0\"]}"], Some("excepts all that `match`")),
        (&["match: {ip_version: 4}", "except: {source: 0.0.0.0/0}"], Some("excepts all that `match`")),
        (&["match: {destination_port: 80-90}", "except: {destination_port: [79-100]}"], Some("excepts all")),
        (&["except: {source: {file: list.txt}}"], Some("because its files are empty: nothing is excepted")),
        (
            &["except: [{source: 10.0.0.0/8}, {source: 10.1.0.0/16, protocol: udp}]"],
            Some("an exception before it"),
        ),
        (&["except: [{source: 10.1.0.0/16, protocol: udp}, {source: 10.0.0.0/8}]"], None),
        (&["match: {destination_port: 80-90}", "except: {destination_port: [81-100]}"], None),
        (&["match: {source: 10.0.0.0/8}", "except: {source: 10.1.0.0/16}"], None),
        (&["except: {source: 0.0.0.0/0}"], None),
        (&["except: {source: 0.0.0.0/0, protocol: tcp}"], None),
    ] {
        let (_, warnings) = excepted(lines);
        match expected {
            Some(expected) => {
                assert!(warnings.len() == 1 && warnings[0].contains(expected), "{lines:?}: {warnings:?}")
            }
            None => assert!(warnings.is_empty(), "{lines:?}: {warnings:?}"),
        }
    }
}
