//! The keys of a rule.

use super::{
    ConfigKey,
    LeftOut::{Is, IsNumber, Required, Said},
    key,
};
use crate::policy::PrefixLengths;

/// In the order of the reference.
pub const KEYS: &[ConfigKey] = &[
    key(
        "network.rules[].name",
        "any text without control characters, at most 63 bytes",
        Required,
        "Its name in all outputs. Under this name it keeps its buckets and counters over restarts.",
        "name: every-source",
    ),
    key(
        "network.rules[].rate",
        "number/time, or size/time",
        Required,
        "How much may pass in which time. A plain number counts packets, a size bytes on the wire (Ethernet header \
         included if there is one, checksum not). A frame that was joined from several packets counts as the packets that its \
         bytes make at the interface's MTU. The time is a unit, or a number of them: `s`, `m` (minute), `h`, `d`, `w`.",
        "rate: 256/15m",
    ),
    key(
        "network.rules[].burst",
        "number, or size if the rate is one",
        Said("the rate's amount"),
        "How much may come at once after a pause. For `token_bucket` and `leaky_bucket` alone. In bytes it \
         should hold a full-sized packet, 1514B.",
        "rate: 10MB/s\nburst: 1MB",
    ),
    key(
        "network.rules[].algorithm",
        "`token_bucket`, `leaky_bucket`, `fixed_window` or `sliding_window_counter`",
        Is("token_bucket"),
        "How it is counted; `docs/algorithms.md` compares them. `sliding_window_counter` counts packets only.",
        "algorithm: fixed_window",
    ),
    key(
        "network.rules[].refill",
        "`continuous` or `interval`",
        Is("continuous"),
        "For `token_bucket`: tokens come back one after the other, or the rate's amount at once at the end of each of its \
         times.",
        "refill: interval",
    ),
    key(
        "network.rules[].count_denied",
        "`true` or `false`",
        Is("false"),
        "Whether dropped packets count, too. Then a source that does not slow down stays locked out.",
        "count_denied: true",
    ),
    key(
        "network.rules[].action",
        "`drop` or `observe`",
        Is("drop"),
        "What happens above the limit: the packet is dropped, or it passes and is only counted.",
        "action: observe",
    ),
    key(
        "network.rules[].new_sources",
        "number/time",
        Said("no cap"),
        "How many keys without a bucket may get one in this time. Above that, packets of unknown keys \
         are over the limit, while known keys go on. This helps against floods from ever new, forged \
         sources. It does not go with `key: global`.",
        "new_sources: 5k/s",
    ),
    key(
        "network.rules[].ban",
        "mapping",
        Said("nobody is banned"),
        "Bans sources that go on exceeding the limit: all their packets are dropped until the ban ends, even if the \
         daemon has died. For rules whose key is `source`; the prefix that exceeded the limit is banned.",
        "ban: {after: 100, within: 10s, for: 10m}",
    ),
    key(
        "network.rules[].ban.after",
        "number",
        Required,
        "How many packets must be denied.",
        "ban: {after: 1, within: 1s, for: 1h}",
    ),
    key(
        "network.rules[].ban.within",
        "time",
        Required,
        "The time within which they must be denied, counted by a sliding window.",
        "ban: {after: 1000, within: 1m, for: 1h}",
    ),
    key(
        "network.rules[].ban.for",
        "time, at most 365 days, or `forever`",
        Required,
        "How long a ban lasts. One that lasts `forever` ends by `unban`, a reboot, or a stop that detaches. More than a day is \
         a warning: spoofed packets can ban anybody for so long.",
        "ban: {after: 100, within: 10s, for: 1h}",
    ),
    key(
        "network.rules[].ban.factor",
        "number, 2 to 1,000",
        Said("all bans have one length"),
        "Each ban of a prefix is this many times as long as the one before, whether a rule or a person made that. \
         Bans by rules without `factor` do not count, and after `unban` it begins anew.",
        "ban: {after: 100, within: 10s, for: 10m, factor: 4, up_to: 7d, forget: 1d}",
    ),
    key(
        "network.rules[].ban.up_to",
        "time, at most 365 days",
        Said("7d"),
        "How long the longest ban lasts.",
        "ban: {after: 100, within: 10s, for: 10m, factor: 4, up_to: 30d}",
    ),
    key(
        "network.rules[].ban.forget",
        "time, at most 365 days",
        Said("1d"),
        "A ban that ended longer ago than this does not lengthen the next one.",
        "ban: {after: 100, within: 10s, for: 10m, factor: 4, forget: 7d}",
    ),
    key(
        "network.rules[].match",
        "mapping of conditions",
        Said("every packet"),
        "Which packets the rule is about. All conditions must hold; in a list one item is enough. \
         Conditions that can never hold together are refused.",
        "match: {protocol: tcp, destination_port: [80, 443]}",
    ),
    key(
        "network.rules[].except",
        "mapping of conditions, or a list of them",
        Said("nothing"),
        "The packets that this rule never judges; other rules still do. It is written like `match`: all conditions must hold, \
         and one item of a list is enough. Several exceptions are a list of such mappings, of which one is enough; all rules \
         together have at most 64. A condition about something that a packet does not show, such as the port of a \
         later fragment, does not hold. A ban drops excepted packets, too.",
        "except: {source: [192.0.2.53], destination_port: 443}",
    ),
    key(
        "network.rules[].key",
        "`source`, `destination`, `source_destination`, `flow`, `global`, or a mapping of one of the first three",
        Is("source"),
        "What has a bucket of its own: each source, each destination, each pair of them, each flow (both addresses, both \
         ports and the protocol), or all packets together. The first bits of addresses count, by default 32 \
         for IPv4 and 64 for IPv6.",
        "key: source_destination",
    ),
    key(
        "network.rules[].key.source",
        "mapping of prefix lengths",
        Said("32 bits of IPv4 and 64 of IPv6"),
        "How many bits of the source make a key.",
        "key: {source: {ipv4: 24, ipv6: 56}}",
    ),
    key(
        "network.rules[].key.destination",
        "mapping of prefix lengths",
        Said("32 bits of IPv4 and 64 of IPv6"),
        "How many bits of the destination make a key; lengths as in `source`.",
        "key: {destination: {ipv6: 128}}",
    ),
    key(
        "network.rules[].key.source_destination",
        "mapping of prefix lengths",
        Said("32 bits of IPv4 and 64 of IPv6"),
        "How many bits of the source, and of the destination, make a key together; lengths as in `source`.",
        "key: {source_destination: {ipv4: 24}}",
    ),
    key(
        "network.rules[].key.source.ipv4",
        "1 to 32, or a mapping of such lengths with a factor each, 1 to 1000000",
        IsNumber(PrefixLengths::DEFAULT_IPV4 as u64),
        "Bits of an IPv4 address. With several lengths each has buckets of its own, in which the rate and the burst are \
         multiplied by its factor, and a packet passes if all of them have room: below, each address may send at the rate, \
         and each /24 at 32 times the rate. A shorter length can't have a smaller factor than a longer one.",
        "key: {source: {ipv4: {32: 1, 24: 32}}}",
    ),
    key(
        "network.rules[].key.source.ipv6",
        "1 to 128, or a mapping of such lengths with a factor each, 1 to 1000000",
        IsNumber(PrefixLengths::DEFAULT_IPV6 as u64),
        "Bits of an IPv6 address.",
        "key: {source: {ipv6: {64: 1, 56: 8, 48: 64}}}",
    ),
    key(
        "network.rules[].match.protocol",
        "name or number from 0 to 255, or a list",
        Said("any"),
        "The protocol that IP carries; in IPv6, what comes behind the extension headers.",
        "match: {protocol: [udp, 47]}",
    ),
    key(
        "network.rules[].match.source",
        "address, prefix or file, or a list of these",
        Said("any"),
        "Where the packet comes from; written as in `allow`.",
        "match: {source: [198.51.100.0/24, \"2001:db8::/32\"]}",
    ),
    key(
        "network.rules[].match.source[].file",
        "path, relative to the file's directory",
        Said("none"),
        "A file of prefixes, written and watched as those of `allow`. `destination` takes files too. \
         While the list is empty, the \
         rule matches no packet. All rules together may have 1048576 prefixes from files; `allow` and `deny` take more, \
         and look them up faster.",
        "match: {source: [{file: networks.txt}, 198.51.100.0/24]}",
    ),
    key(
        "network.rules[].match.source[].list",
        "name of a list",
        Said("none"),
        "The name of one of `lists`, which is taken whole. `destination` takes lists too.",
        "match: {source: [{list: office}]}",
    ),
    key(
        "network.rules[].match.destination",
        "address, prefix or file, or a list of these",
        Said("any"),
        "Where the packet goes to; written as in `allow`.",
        "match: {destination: 192.0.2.1}",
    ),
    key(
        "network.rules[].match.source_port",
        "0 to 65535, a range of ports, or a list",
        Said("any, and packets that have none"),
        "The source port of TCP, UDP, UDP-Lite, SCTP or DCCP. Packets without ports do not match, nor do later \
         fragments.",
        "match: {protocol: udp, source_port: 53}",
    ),
    key(
        "network.rules[].match.destination_port",
        "0 to 65535, a range of ports, or a list",
        Said("any, and packets that have none"),
        "The destination port, of the same protocols.",
        "match: {destination_port: [443, 8000-8999]}",
    ),
    key(
        "network.rules[].match.tcp_flags",
        "`fin`, `syn`, `rst`, `psh`, `ack`, `urg`, `ece` or `cwr`, a list of them, or a mapping",
        Said("any"),
        "Flags that a TCP packet must have set. With `syn` and without `ack`, `ack` must not be set: `syn` alone means \
         packets that open a connection. Nothing is required of the other flags.",
        "match: {tcp_flags: [syn]}",
    ),
    key(
        "network.rules[].match.tcp_flags.set",
        "`fin`, `syn`, `rst`, `psh`, `ack`, `urg`, `ece` or `cwr`, or a list",
        Said("none"),
        "Flags that must be set; nothing is required of the others.",
        "match: {tcp_flags: {set: [syn]}}",
    ),
    key(
        "network.rules[].match.tcp_flags.unset",
        "`fin`, `syn`, `rst`, `psh`, `ack`, `urg`, `ece` or `cwr`, or a list",
        Said("none"),
        "Flags that must not be set.",
        "match: {tcp_flags: {set: syn, unset: [ack, rst]}}",
    ),
    key(
        "network.rules[].match.icmp_type",
        "name or number from 0 to 255, or a list",
        Said("any, and packets that have none"),
        "The type of an ICMP or ICMPv6 message. A name means that type in each protocol that has it. A number means \
         something else in each of them, and matches both unless `protocol: icmp` or `protocol: icmpv6` stands \
         beside it.",
        "match: {icmp_type: [echo-request, echo-reply]}",
    ),
    key(
        "network.rules[].match.fragment",
        "`no`, `first` or `later`, or a list",
        Said("any"),
        "Whole packets, first fragments (which have ports) or later ones (which have none).",
        "match: {fragment: [first, later]}",
    ),
    key(
        "network.rules[].match.vlan",
        "0 to 4094, a range, or a list",
        Said("any, and packets that have none"),
        "The id of a VLAN tag. A packet can have two tags; it matches if either does. Most cards take tags off \
         before the program sees a packet: a start and `ratelimit status` warn of that, with the command that \
         leaves them on.",
        "match: {vlan: [10, 100-199]}",
    ),
    key(
        "network.rules[].match.length",
        "20 to 65535, a range, or a list",
        Said("any"),
        "Bytes on the wire, Ethernet header included, checksum not; on interfaces without Ethernet headers those of the IP \
         packet.",
        "match: {protocol: udp, length: 64-128}",
    ),
    key(
        "network.rules[].match.ip_version",
        "`4` or `6`",
        Said("both"),
        "The version of IP.",
        "match: {ip_version: 6}",
    ),
];
