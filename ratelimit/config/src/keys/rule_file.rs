//! The keys of files of rules on requests.

use super::{
    ConfigKey,
    LeftOut::{Is, Required, Said},
    key, prefix_length,
};
use crate::policy::PrefixLengths;

/// In the order of the reference.
pub const KEYS: &[ConfigKey] = &[
    key("domain", "text", Required, "The domain that the rules are for. Requests name it.", "domain: edge"),
    key(
        "on_store_error",
        "`allow`, `deny` or `local`",
        Said("what `application.on_store_error` says"),
        "What is answered about the domain's requests while the store of several daemons does not answer.",
        "on_store_error: deny",
    ),
    key(
        "consistency",
        "`strict`",
        Is("strict"),
        "How exactly daemons share the domain's limits over such a store: `application.consistency` for this domain.",
        "consistency: strict",
    ),
    key(
        "descriptors",
        "list of mappings",
        Said("none"),
        "What the first entry of a request's descriptor may be. It is looked up as exact key and value, then among those with \
         a `*` in file order, then as an address of `value_in`, then as the key alone. What is found is final, and a limit applies only to descriptors that end \
         there.",
        "descriptors:\n  - key: user\n    rate_limit: {unit: minute, requests_per_unit: 100}",
    ),
    key("descriptors[].key", "text", Required, "The entry's key. `*` stands for any text.", "key: us*r"),
    key(
        "descriptors[].value",
        "text",
        Said("any value"),
        "The entry's value, as written: `404` is the text. `*` stands for any text, wherever it is, and several times.",
        "value: /api/*/v1",
    ),
    key(
        "descriptors[].value_in",
        "address, prefix, mapping with a file, or a list of them",
        Said("none"),
        "Networks that contain the entry's value, which is an address or a network; not beside `value`. \
         Among all `value_in` for one key, the longest prefix that contains the whole value counts. Each \
         address has a bucket of its own; with `share_threshold`, all networks of the rule share one. An \
         IPv4-mapped IPv6 address counts as the IPv4 address.",
        "value_in: [10.0.0.0/8, \"2001:db8::/32\"]",
    ),
    key(
        "descriptors[].value_in[].file",
        "path, relative to the directory of the file of rules",
        Said("none"),
        "A file of prefixes, as for `network.allow`, read again when it changes.",
        "value_in: [{file: office.txt}]",
    ),
    key(
        "descriptors[].value_in[].list",
        "name of a list",
        Said("none"),
        "The name of one of the configuration's `lists`, which is taken whole. If a file of rules is \
         validated without its configuration, the name can't be looked up, and `validate` says so.",
        "value_in: [{list: office}]",
    ),
    key(
        "descriptors[].descriptors",
        "list of mappings",
        Said("none"),
        "What the next entry may be.",
        "descriptors: [{key: path, rate_limit: {unit: second, requests_per_unit: 5}}]",
    ),
    key(
        "descriptors[].shadow_mode",
        "`true` or `false`",
        Is("false"),
        "Whether the limit counts, but never denies.",
        "shadow_mode: true",
    ),
    key(
        "descriptors[].quota_mode",
        "`true` or `false`",
        Is("false"),
        "Whether the limit denies only if all others of the request in this mode are over too.",
        "quota_mode: true",
    ),
    key(
        "descriptors[].share_threshold",
        "`true` or `false`",
        Is("false"),
        "Whether all that a `*` matches, or all networks of `value_in`, share one bucket, instead of having one for each value.",
        "value: files/*\nshare_threshold: true",
    ),
    key(
        "descriptors[].detailed_metric",
        "`true` or `false`",
        Is("false"),
        "Whether metrics have the keys and values of the whole descriptor as label. There are at most \
         1,000 of these labels, or the rule's share of 10,000; further ones count under the rule's own \
         label.",
        "detailed_metric: true",
    ),
    key(
        "descriptors[].value_to_metric",
        "`true` or `false`",
        Is("false"),
        "Whether metrics have the entry's value in the label, with the same bounds.",
        "value_to_metric: true",
    ),
    key(
        "descriptors[].metadata",
        "mapping of anything",
        Said("none"),
        "Data that answers bring to the program that asked.",
        "metadata: {tier: gold}",
    ),
    key(
        "descriptors[].rate_limit",
        "mapping",
        Said("none: what ends here is not limited"),
        "The limit of descriptors that end here.",
        "rate_limit: {unit: hour, requests_per_unit: 5}",
    ),
    key(
        "descriptors[].rate_limit.requests_per_unit",
        "number from 0 to 4294967295",
        Said("0, with a warning"),
        "How many requests there may be; 0 denies all.",
        "rate_limit: {unit: hour, requests_per_unit: 50}",
    ),
    key(
        "descriptors[].rate_limit.unit",
        "`second`, `minute`, `hour`, `day`, `week`, `month` (30 days) or `year` (365 days)",
        Said("none; this or `per` must be given"),
        "The time that the limit is for. Windows are aligned to the Unix epoch, in UTC.",
        "rate_limit: {unit: week, requests_per_unit: 5}",
    ),
    key(
        "descriptors[].rate_limit.per",
        "time",
        Said("none; this or `unit` must be given"),
        "The time that the limit is for, if it is not a unit.",
        "rate_limit: {per: 15m, requests_per_unit: 256}",
    ),
    key(
        "descriptors[].rate_limit.unlimited",
        "`true` or `false`",
        Is("false"),
        "Whether there is no limit; such a rule can still replace others.",
        "rate_limit: {unlimited: true}",
    ),
    key(
        "descriptors[].rate_limit.name",
        "text",
        Said("none"),
        "The limit's name, by which others replace it.",
        "rate_limit: {name: slow, unit: hour, requests_per_unit: 5}",
    ),
    key(
        "descriptors[].rate_limit.replaces",
        "list of mappings",
        Said("none"),
        "Limits that do not apply to a request if this one does. Limits that replace each other are a \
         warning, since neither applies to a request with both; so are names that no limit of the domain \
         has.",
        "rate_limit: {replaces: [{name: fast}], unit: hour, requests_per_unit: 5}",
    ),
    key(
        "descriptors[].rate_limit.replaces[].name",
        "text",
        Required,
        "The limit's name.",
        "rate_limit: {replaces: [{name: fast}], unit: hour, requests_per_unit: 5}",
    ),
    key(
        "descriptors[].rate_limit.algorithm",
        "`token_bucket`, `leaky_bucket`, `fixed_window`, `sliding_window_log` or `sliding_window_counter`",
        Said("`fixed_window`, which also counts what is denied"),
        "How requests are counted. A `sliding_window_log` keeps the time of each: 8 bytes x `requests_per_unit` a key, which \
         may be 10,000 at most.",
        "rate_limit: {algorithm: token_bucket, unit: second, requests_per_unit: 5}",
    ),
    key(
        "descriptors[].rate_limit.burst",
        "number",
        Said("`requests_per_unit`"),
        "How many may come at once after a pause, for `token_bucket` and `leaky_bucket`.",
        "rate_limit: {algorithm: token_bucket, burst: 20, unit: second, requests_per_unit: 5}",
    ),
    key(
        "descriptors[].rate_limit.count_denied",
        "`true` or `false`",
        Said("`true` without `algorithm` and `overrun`, `false` with one of them"),
        "Whether denied requests count too, whichever limit denied them. If not, a request takes from all of its \
         limits or from none, and a refund (`is_negative_hits`) that is denied gives nothing back.",
        "rate_limit: {unit: minute, requests_per_unit: 5, count_denied: false}",
    ),
    key(
        "descriptors[].rate_limit.overrun",
        "`true` or `false`",
        Is("false"),
        "For costs that are known only when the answer is done, such as tokens of a language model or bytes sent. A \
         request that asks with `hits_addend: 0` is let through while one unit is left; the cost that is reported \
         later is charged whole, however large it is and whoever denies it. What goes beyond the limit is owed, up \
         to ten times the limit (anything more is only counted in metrics), and requests are denied until it is \
         paid at the limit's rate. It does not go with `count_denied: true`, and the whole limit must come back \
         within 33 days.",
        "rate_limit: {algorithm: token_bucket, unit: minute, requests_per_unit: 5000, overrun: true}",
    ),
    key(
        "descriptors[].rate_limit.ban",
        "mapping",
        Said("nobody is banned"),
        "Drops all packets of a client that goes on exceeding the limit, in the XDP program, before the kernel or a gateway spends \
         anything on them; see `docs/lists-and-bans.md`. It needs `network` in the configuration. What `network.allow` names, loopback \
         addresses, and networks with a server of the proxy are never banned.",
        "rate_limit: {unit: minute, requests_per_unit: 60, ban: {after: 100, within: 1m, for: 10m, source_entry: client}}",
    ),
    key(
        "descriptors[].rate_limit.ban.after",
        "number",
        Required,
        "How many requests the limit must deny.",
        "rate_limit: {unit: minute, requests_per_unit: 60, ban: {after: 100, within: 1m, for: 10m}}",
    ),
    key(
        "descriptors[].rate_limit.ban.within",
        "time",
        Required,
        "The time within which it must deny them.",
        "rate_limit: {unit: minute, requests_per_unit: 60, ban: {after: 100, within: 1m, for: 10m}}",
    ),
    key(
        "descriptors[].rate_limit.ban.for",
        "time, at most 365 days, or `forever`",
        Required,
        "How long the ban lasts.",
        "rate_limit: {unit: minute, requests_per_unit: 60, ban: {after: 100, within: 1m, for: 10m}}",
    ),
    key(
        "descriptors[].rate_limit.ban.factor",
        "number, 2 to 1,000",
        Said("all bans have one length"),
        "Each ban of a prefix is this many times as long as the one before, as in `network.rules[].ban.factor`.",
        "rate_limit: {unit: minute, requests_per_unit: 60, ban: {after: 100, within: 1m, for: 10m, factor: 4}}",
    ),
    key(
        "descriptors[].rate_limit.ban.up_to",
        "time, at most 365 days",
        Said("7d"),
        "How long the longest ban lasts.",
        "rate_limit: {unit: minute, requests_per_unit: 60, ban: {after: 100, within: 1m, for: 10m, factor: 4, up_to: 30d}}",
    ),
    key(
        "descriptors[].rate_limit.ban.forget",
        "time, at most 365 days",
        Said("1d"),
        "A ban that ended longer ago than this does not lengthen the next one.",
        "rate_limit: {unit: minute, requests_per_unit: 60, ban: {after: 100, within: 1m, for: 10m, factor: 4, forget: 7d}}",
    ),
    key(
        "descriptors[].rate_limit.ban.prefix",
        "mapping of prefix lengths",
        Said("32 bits of IPv4 and 64 of IPv6"),
        "How much of the client's address is banned.",
        "rate_limit: {unit: minute, requests_per_unit: 60, ban: {after: 9, within: 1m, for: 10m, prefix: {ipv6: 56}}}",
    ),
    prefix_length(
        "descriptors[].rate_limit.ban.prefix.ipv4",
        PrefixLengths::MOST_IPV4,
        PrefixLengths::DEFAULT_IPV4,
        "Bits of an IPv4 address.",
        "rate_limit: {unit: minute, requests_per_unit: 60, ban: {after: 9, within: 1m, for: 10m, prefix: {ipv4: 24}}}",
    ),
    prefix_length(
        "descriptors[].rate_limit.ban.prefix.ipv6",
        PrefixLengths::MOST_IPV6,
        PrefixLengths::DEFAULT_IPV6,
        "Bits of an IPv6 address.",
        "rate_limit: {unit: minute, requests_per_unit: 60, ban: {after: 9, within: 1m, for: 10m, prefix: {ipv6: 48}}}",
    ),
    key(
        "descriptors[].rate_limit.ban.source_entry",
        "key of an entry of the descriptor",
        Said("the client that is connected to this daemon's own proxy"),
        "The key of the entry that has the client's address, if a gateway on this host asks: it is believed only \
         over a Unix socket or a loopback address. Clients must not be able to choose its value.",
        "rate_limit: {unit: minute, requests_per_unit: 60, ban: {after: 9, within: 1m, for: 10m, source_entry: client}}",
    ),
    key(
        "descriptors[].rate_limit.on_limit",
        "`reject`",
        Is("reject"),
        "What happens to a request above the limit.",
        "rate_limit: {unit: minute, requests_per_unit: 5, on_limit: reject}",
    ),
    key(
        "descriptors[].rate_limit.soft_limit",
        "number below the limit",
        Said("none"),
        "The limit above which requests are flagged. They pass for as long as `soft_for` says; after \
         that, this is the limit until use has fallen below it.",
        "rate_limit: {unit: minute, requests_per_unit: 100, soft_limit: 80, soft_for: 10s}",
    ),
    key(
        "descriptors[].rate_limit.soft_for",
        "time",
        Said("none; with `soft_limit` it must be given"),
        "How long requests above the soft limit pass, counted from the first one.",
        "rate_limit: {unit: minute, requests_per_unit: 100, soft_limit: 80, soft_for: 10s}",
    ),
];
