//! The keys of the application layer.

use super::{
    ConfigKey,
    LeftOut::{Is, IsNumber, Required, Said},
    key, number, prefix_length,
};
use crate::policy::{
    PrefixLengths,
    application::{Application, Auth},
};

/// In the order of the reference.
pub const KEYS: &[ConfigKey] = &[
    key(
        "application.rules",
        "path or list of paths, relative to the file's directory",
        Said("none: every request passes, with a warning"),
        "Files of rules, in the form of Envoy's rate limit service; \"Files of rules\" below has their keys. `*` \
         stands for any part of a name. A file whose name begins with a dot is read only if it is named.",
        "rules: [domains/*.yaml]",
    ),
    key(
        "application.merge_domains",
        "`true` or `false`",
        Is("false"),
        "Whether several files may be about one domain.",
        "merge_domains: true",
    ),
    key(
        "application.shadow_mode",
        "`true` or `false`",
        Is("false"),
        "Whether all requests pass, while limits go on counting.",
        "shadow_mode: true",
    ),
    key(
        "application.quota_mode",
        "`true` or `false`",
        Is("false"),
        "Whether all limits are in quota mode: a request is denied only if all limits that apply to it \
         are over; an unlimited one never is.",
        "quota_mode: true",
    ),
    key(
        "application.near_limit_ratio",
        "number from 0 to 1",
        Is("0.8"),
        "The share of a limit above which metrics count a request as near it.",
        "near_limit_ratio: 0.9",
    ),
    number(
        "application.trusted_hops",
        Application::TRUSTED_HOPS,
        IsNumber(0),
        "The number of proxies that a request passes before it reaches the server that asks over HTTP. Each proxy adds its \
         peer's address to `X-Forwarded-For`, so the client's address is counted from the right; anybody could have \
         written what stands further left. From 1 on, all clients whose address the proxies do not name share the value \
         `unknown`.",
        "trusted_hops: 1",
    ),
    key(
        "application.headers",
        "mapping",
        Said("all of them are sent"),
        "Which headers answers over HTTP have.",
        "headers: {ietf: false}",
    ),
    key(
        "application.headers.x_ratelimit",
        "`true` or `false`",
        Is("true"),
        "`X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Retry-After`.",
        "headers: {x_ratelimit: false}",
    ),
    key(
        "application.headers.retry_after",
        "`true` or `false`",
        Is("true"),
        "`Retry-After`, in whole seconds, rounded up.",
        "headers: {retry_after: false}",
    ),
    key(
        "application.headers.ietf",
        "`true` or `false`",
        Is("true"),
        "`RateLimit` and `RateLimit-Policy`, as the IETF drafts them.",
        "headers: {ietf: false}",
    ),
    key(
        "application.headers.grpc",
        "`true` or `false`",
        Is("false"),
        "Whether answers over gRPC bring those headers too, for Envoy to add to what its client gets.",
        "headers: {grpc: true}",
    ),
    key(
        "application.auth",
        "mapping",
        Said("`/v1/auth` answers that it is not configured"),
        "What `/v1/auth` asks about a request that nginx, Traefik or Caddy shows it.",
        "auth: {domain: edge, descriptors: [{client: \"{client_address}\"}]}",
    ),
    key(
        "application.auth.domain",
        "text",
        Required,
        "The domain whose rules are asked.",
        "auth: {domain: edge, descriptors: [{path: \"{path}\"}]}",
    ),
    key(
        "application.auth.descriptors",
        "list of mappings",
        Required,
        "The descriptors of a request: entries in order, whose values may name what the request shows: \
         `{client_address}`, `{client_address/24/56}` (its first 24 bits for IPv4, 56 for IPv6), `{method}`, \
         `{path}` (without query), `{path_template}` and `{path:NAME}` (see `path.templates`), `{host}`, \
         `{header:NAME}`, `{cookie:NAME}` and `{query:NAME}`. The text behind a `|` is used if a request does not \
         have the value, or has an empty one: `{header:x-plan|free}`. A descriptor that names what a request does \
         not have is left out, with a warning if no other descriptor limits such requests. If a request has \
         different values under one name, or one that only some servers would find, the value is `(several)`; see \
         `docs/request-rules.md`. On a Unix socket `{client_address}` needs `trusted_hops`. A brace that is meant \
         as text is written twice.",
        "auth: {domain: edge, descriptors: [{client: \"{client_address}\"}, {user: \"{header:x-user}\", method: \"{method}\"}]}",
    ),
    number(
        "application.auth.deny_status",
        Auth::DENY_STATUSES,
        IsNumber(Auth::DEFAULT_DENY_STATUS as u64),
        "The status of a denied request. nginx's `auth_request` knows only 401 and 403; Traefik and Caddy pass \
         on any.",
        "auth: {domain: edge, descriptors: [{path: \"{path}\"}], deny_status: 429}",
    ),
    key(
        "application.auth.deny_body",
        "path, relative to the file's directory",
        Said("problem details, as JSON"),
        "The body of the answer to a denied request: a file that ends in `.html`, `.htm`, `.txt`, `.json` or \
         `.xml`, has at most 1 MiB, and is read again when it changes. Traefik and Caddy pass it on; nginx's \
         `auth_request` does not.",
        "auth: {domain: edge, descriptors: [{path: \"{path}\"}], deny_body: busy.html}",
    ),
    key(
        "application.auth.client",
        "mapping of prefix lengths",
        Said("32 bits of IPv4 and 64 of IPv6"),
        "How many bits of a client's address `{client_address}` has.",
        "auth: {domain: edge, descriptors: [{path: \"{path}\"}], client: {ipv6: 56}}",
    ),
    prefix_length(
        "application.auth.client.ipv4",
        PrefixLengths::MOST_IPV4,
        PrefixLengths::DEFAULT_IPV4,
        "Bits of an IPv4 address. With all of them the value is the address, with fewer the network.",
        "auth: {domain: edge, descriptors: [{path: \"{path}\"}], client: {ipv4: 24}}",
    ),
    prefix_length(
        "application.auth.client.ipv6",
        PrefixLengths::MOST_IPV6,
        PrefixLengths::DEFAULT_IPV6,
        "Bits of an IPv6 address. One client usually has a whole /64 to itself.",
        "auth: {domain: edge, descriptors: [{path: \"{path}\"}], client: {ipv6: 48}}",
    ),
    key(
        "application.auth.path",
        "mapping",
        Said("upper and lower case differ, and `%2F` is part of a name"),
        "How paths are compared. They are always brought into one form first, which `docs/request-rules.md` \
         describes.",
        "auth: {domain: edge, descriptors: [{path: \"{path}\"}], path: {ignore_case: true}}",
    ),
    key(
        "application.auth.path.templates",
        "text or list of texts",
        Said("none"),
        "Forms that paths can have: `/users/{id}` stands for any one segment behind `/users/`, \
         `/files/{*rest}` for one or more. `{path_template}` is then the template as written, and \
         `{path:id}` the value of its parameter. Literal segments come before parameters, and a slash at \
         the end of a path is ignored. A path that fits no template has neither.",
        "auth:\n  domain: edge\n  path: {templates: [\"/users/{id}\", \"/files/{*rest}\"]}\n  descriptors: \
         [{path: \"{path_template|other}\"}]",
    ),
    key(
        "application.auth.path.ignore_case",
        "`true` or `false`",
        Is("false"),
        "Whether the server behind takes `/Login` for `/login`. Paths are in lower case then, in rules and templates too.",
        "auth: {domain: edge, descriptors: [{path: \"{path}\"}], path: {ignore_case: true}}",
    ),
    key(
        "application.auth.path.escaped_slashes",
        "`keep` or `decode`",
        Is("keep"),
        "What the server behind takes `%2F`, `%5C` and `\\` for: part of a name (`keep`), or a slash (`decode`).",
        "auth: {domain: edge, descriptors: [{path: \"{path}\"}], path: {escaped_slashes: decode}}",
    ),
    key(
        "application.listen",
        "mapping",
        Said("nowhere: name them on the command line"),
        "Where questions come in.",
        "listen: {grpc: 127.0.0.1:8081, http: 127.0.0.1:8080}",
    ),
    key(
        "application.listen.grpc",
        "address, mapping, or a list of them",
        Said("nowhere"),
        "Where Envoy's protocol is spoken: address and port, or `unix:` and the path of a socket.",
        "listen: {grpc: [127.0.0.1:8081, \"[::1]:8081\", \"unix:/run/ratelimit/grpc.sock\"]}",
    ),
    key(
        "application.listen.grpc[].address",
        "address and port, or `unix:` and a path",
        Required,
        "The address.",
        "listen: {grpc: {address: \"0.0.0.0:8081\"}}",
    ),
    key(
        "application.listen.grpc[].tls",
        "mapping",
        Said("no TLS"),
        "Speak TLS at this address.",
        "listen: {grpc: {address: \"0.0.0.0:8081\", tls: {cert: cert.pem, key: key.pem}}}",
    ),
    key(
        "application.listen.grpc[].tls.cert",
        "path, relative to the file's directory",
        Required,
        "The certificate and its chain, as PEM. It is read again when it changes; one that can't be used \
         leaves the old one in force.",
        "listen: {grpc: {address: \"0.0.0.0:8081\", tls: {cert: cert.pem, key: key.pem}}}",
    ),
    key(
        "application.listen.grpc[].tls.key",
        "path, relative to the file's directory",
        Required,
        "The certificate's key, PEM.",
        "listen: {grpc: {address: \"0.0.0.0:8081\", tls: {cert: cert.pem, key: key.pem}}}",
    ),
    key(
        "application.listen.grpc[].tls.client_ca",
        "path, relative to the file's directory",
        Said("clients need no certificate"),
        "The authority that must have signed each client's certificate, as PEM. Clients without one are refused.",
        "listen: {grpc: {address: \"0.0.0.0:8081\", tls: {cert: cert.pem, key: key.pem, client_ca: ca.pem}}}",
    ),
    key(
        "application.listen.http",
        "address, mapping, or a list of them",
        Said("nowhere"),
        "Where HTTP is spoken; written as for `grpc`.",
        "listen: {http: {address: \"0.0.0.0:8443\", tls: {cert: cert.pem, key: key.pem}}}",
    ),
];
