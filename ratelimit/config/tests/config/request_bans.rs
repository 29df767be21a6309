//! `ban` of rules on requests: what it says, and where nobody could be banned by it.

use std::fs;

use ratelimit_config as config;
use ratelimit_policy::application::RequestBan;

use super::{File, file};

/// A configuration with `network`, unless that is not to be, whose only rule bans.
fn beside(top: &str, ban: &str, application: &str) -> File {
    let file = file(format!("{top}\napplication: {{rules: r.yaml, {application}}}\n"));
    let limit = format!("rate_limit: {{unit: day, requests_per_unit: 5, ban: {ban}}}");
    fs::write(
        file.path.with_file_name("r.yaml"),
        format!("domain: d\ndescriptors: [{{key: client, {limit}}}]\n"),
    )
    .unwrap();
    file
}

const NETWORK: &str = "network: {rules: [{name: a, rate: 1/s}]}";
const BAN: &str = "{after: 3, within: 1m, for: 10m, source_entry: client}";
const LISTEN: &str = "listen: {http: '127.0.0.1:0'}";

fn ban_of(ban: &str) -> RequestBan {
    let checked = config::check(&beside(NETWORK, ban, LISTEN).path).unwrap();
    let rules = checked.policy.application.unwrap().rules;
    rules.domains()[0].descriptors[0].limit.clone().unwrap().ban.unwrap()
}

#[test]
fn a_ban_has_the_grammar_of_bans_on_packets_and_a_prefix() {
    let ban = ban_of(BAN);
    assert_eq!(
        (ban.terms.after.get(), ban.terms.within.0, ban.terms.length.nanos()),
        (3, 60_000_000_000, 600_000_000_000)
    );
    assert_eq!((ban.ipv4, ban.ipv6, ban.source_entry.as_deref()), (32, 64, Some("client")));
    let ban = ban_of("{after: 1, within: 1s, for: 1h, prefix: {ipv4: 24, ipv6: 48}, source_entry: client}");
    assert_eq!((ban.ipv4, ban.ipv6), (24, 48));
}

#[test]
fn a_shared_address_is_a_warning() {
    let warnings = config::check(&beside(NETWORK, BAN, LISTEN).path).unwrap().warnings;
    let found = warnings.iter().find(|warning| warning.message.contains("carrier-grade NAT"));
    assert_eq!(
        found.map(|warning| warning.field.as_str()),
        Some("descriptors[0].rate_limit.ban"),
        "{warnings:?}"
    );
}

#[test]
fn a_ban_that_can_ban_nobody_is_a_mistake() {
    let auth = |value: &str| {
        format!("trusted_hops: 1, {LISTEN}, auth: {{domain: d, descriptors: [{{client: '{value}'}}]}}")
    };
    let proxied = "{after: 3, within: 1m, for: 10m}";
    for (top, ban, application, expected) in [
        ("", BAN, LISTEN, "descriptors[0].rate_limit.ban: nothing drops packets here: add `network`"),
        (NETWORK, proxied, LISTEN, "only a proxy of this daemon sees who the client is, and none asks"),
        (
            NETWORK,
            BAN,
            "listen: {http: '192.0.2.1:80'}",
            "believed from a gateway on a Unix socket or a loopback address",
        ),
        (NETWORK, BAN, &auth("{header:x-ip}"), "clients can write `client` of `auth`"),
        (NETWORK, BAN, &auth("{client_address}{path}"), "clients can write `client` of `auth`"),
        (
            NETWORK,
            BAN,
            &auth("{client_address/24/64}"),
            "`client` of `auth` has too few bits of the address: write `{client_address/32/64}`",
        ),
        (NETWORK, "{after: 3, within: 1m}", LISTEN, "ban.for: missing; add `for: 10m`"),
        (
            NETWORK,
            "{after: 3, within: 1m, for: 366d, source_entry: client}",
            LISTEN,
            "ban.for: a ban lasts at most 365 days",
        ),
        (
            NETWORK,
            "{after: 3, within: 1m, for: 1m, prefix: {ipv4: 33}}",
            LISTEN,
            "prefix.ipv4: `33` is not a number from 1 to 32",
        ),
        (
            NETWORK,
            "{after: 3, within: 1m, for: 1m, prefix: {ipv5: 3}}",
            LISTEN,
            "prefix.ipv5: unknown key `ipv5`",
        ),
        (NETWORK, "{after: 3, within: 2y, for: 1m, source_entry: client}", LISTEN, "ban.within: "),
    ] {
        let errors = config::check(&beside(top, ban, application).path).unwrap_err().to_string();
        assert!(errors.contains(expected), "{ban} {application}: {errors}");
    }
    let proxy = |lines: &str| {
        let asks = "domain: d, descriptors: [{client: '{client_address}'}]";
        format!(
            "proxy: [{{listen: '127.0.0.1:0', {asks}, routes: [{{upstreams: ['http://127.0.0.1:1']}}]{lines}}}]"
        )
    };
    for lines in [", trusted_hops: 1", ", proxy_protocol: true"] {
        let errors = config::check(&beside(NETWORK, proxied, &proxy(lines)).path).unwrap_err().to_string();
        assert!(
            errors.contains("is not the client (`trusted_hops`), or can name any client"),
            "{lines}: {errors}"
        );
    }
    for lines in ["", ", proxy_protocol: [10.0.0.0/8]"] {
        config::check(&beside(NETWORK, proxied, &proxy(lines)).path).unwrap();
    }
    for application in
        ["listen: {http: 'unix:a.sock'}", &auth("{client_address}"), &auth("{client_address/32/128}")]
    {
        config::check(&beside(NETWORK, BAN, application).path).unwrap();
    }
}

#[test]
fn who_is_never_denied_is_never_banned() {
    for (descriptor, expected) in [
        (
            "shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 5, ban: {after: 1, within: 1s, for: 1s}}",
            "shadow mode bans nobody",
        ),
        (
            "rate_limit: {unlimited: true, ban: {after: 1, within: 1s, for: 1s}}",
            "ban given although unlimited",
        ),
    ] {
        let file = file(format!("domain: d\ndescriptors: [{{key: a, {descriptor}}}]\n"));
        let errors = config::check_rules(std::slice::from_ref(&file.path), false).unwrap_err().to_string();
        assert!(errors.contains(expected), "{errors}");
    }
}
