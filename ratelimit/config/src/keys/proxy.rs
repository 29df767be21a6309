//! The keys of the reverse proxy.

use super::{
    ConfigKey,
    LeftOut::{Is, IsNumber, Required, Said},
    key, number, prefix_length,
};
use crate::policy::{PrefixLengths, application::Application};

/// In the order of the reference.
pub const KEYS: &[ConfigKey] = &[
    key(
        "application.proxy",
        "list of mappings, at most 64",
        Said("nothing is passed on"),
        "A reverse proxy: where it listens, what it limits, and where it passes requests on to. `docs/proxy.md` is its guide.",
        "proxy:\n  - listen: 127.0.0.1:8000\n    domain: web\n    descriptors: [{client: \
         \"{client_address}\"}]\n    routes: [{upstreams: [\"http://127.0.0.1:3000\"]}]",
    ),
    key(
        "application.proxy[].listen",
        "address and port, or `unix:` and a path",
        Required,
        "Where the proxy listens. Ports below 1024 need the right to bind them, which the daemon gives \
         up afterwards.",
        "proxy: [{listen: \"0.0.0.0:80\", routes: [{upstreams: [\"http://127.0.0.1:3000\"]}]}]",
    ),
    key(
        "application.proxy[].tls",
        "mapping",
        Said("no TLS"),
        "Speak TLS with clients, and with it HTTP/2.",
        "proxy:\n  - listen: \"0.0.0.0:443\"\n    tls: {cert: cert.pem, key: key.pem}\n    routes: \
         [{upstreams: [\"http://127.0.0.1:3000\"]}]",
    ),
    key(
        "application.proxy[].tls.cert",
        "path, relative to the file's directory",
        Required,
        "The certificate and its chain, as PEM. It is read again when it changes.",
        "proxy:\n  - listen: \"0.0.0.0:443\"\n    tls: {cert: cert.pem, key: key.pem}\n    routes: \
         [{upstreams: [\"http://127.0.0.1:3000\"]}]",
    ),
    key(
        "application.proxy[].tls.key",
        "path, relative to the file's directory",
        Required,
        "The certificate's key, PEM.",
        "proxy:\n  - listen: \"0.0.0.0:443\"\n    tls: {cert: cert.pem, key: key.pem}\n    routes: \
         [{upstreams: [\"http://127.0.0.1:3000\"]}]",
    ),
    key(
        "application.proxy[].tls.client_ca",
        "path, relative to the file's directory",
        Said("clients need no certificate"),
        "The authority that must have signed each client's certificate, as PEM. Clients without one are refused.",
        "proxy:\n  - listen: \"0.0.0.0:443\"\n    tls: {cert: cert.pem, key: key.pem, client_ca: \
         ca.pem}\n    routes: [{upstreams: [\"http://127.0.0.1:3000\"]}]",
    ),
    number(
        "application.proxy[].trusted_hops",
        Application::TRUSTED_HOPS,
        IsNumber(0),
        "How many proxies stand in front of this listener. With 0, the client is the peer of the connection, and \
         what it says of itself in `X-Forwarded-For` and the like is removed. `application.trusted_hops` does not \
         apply here.",
        "proxy: [{listen: 127.0.0.1:8000, trusted_hops: 1, routes: [{upstreams: [\"http://127.0.0.1:3000\"]}]}]",
    ),
    key(
        "application.proxy[].proxy_protocol",
        "true, false, or a list of networks",
        Is("false"),
        "Whether each connection begins with the client's address, in HAProxy's PROXY protocol, version 1 or 2; one \
         that does not is closed. A list says from which networks connections are taken; those from elsewhere are \
         closed. With `true`, any peer can name any address.",
        "proxy:\n  - listen: 127.0.0.1:8000\n    proxy_protocol: [10.0.0.0/8]\n    routes: [{upstreams: \
         [\"http://127.0.0.1:3000\"]}]",
    ),
    key(
        "application.proxy[].domain",
        "text",
        Said("no request is limited; it goes with `descriptors`"),
        "The domain whose rules are asked.",
        "proxy:\n  - listen: 127.0.0.1:8000\n    domain: web\n    descriptors: [{path: \"{path}\"}]\n    \
         routes: \
         [{upstreams: [\"http://127.0.0.1:3000\"]}]",
    ),
    key(
        "application.proxy[].descriptors",
        "list of mappings",
        Said("no request is limited; it goes with `domain`"),
        "The descriptors of a request, as in `auth`. All facts are those of the request itself, as it is passed on.",
        "proxy:\n  - listen: 127.0.0.1:8000\n    domain: web\n    descriptors: [{client: \
         \"{client_address}\"}]\n    routes: [{upstreams: [\"http://127.0.0.1:3000\"]}]",
    ),
    key(
        "application.proxy[].deny_body",
        "path, relative to the file's directory",
        Said("problem details, as JSON"),
        "The body of the answer to a denied request, which has status 429: a file as in `auth`. Calls \
         over gRPC get none.",
        "proxy:\n  - listen: 127.0.0.1:8000\n    deny_body: busy.html\n    routes: [{upstreams: \
         [\"http://127.0.0.1:3000\"]}]",
    ),
    key(
        "application.proxy[].client",
        "mapping of prefix lengths",
        Said("32 bits of IPv4 and 64 of IPv6"),
        "How many bits of a client's address `{client_address}` has.",
        "proxy:\n  - listen: 127.0.0.1:8000\n    domain: web\n    descriptors: [{a: b}]\n    client: \
         {ipv6: 56}\n    routes: [{upstreams: [\"http://127.0.0.1:3000\"]}]",
    ),
    prefix_length(
        "application.proxy[].client.ipv4",
        PrefixLengths::MOST_IPV4,
        PrefixLengths::DEFAULT_IPV4,
        "Bits of an IPv4 address.",
        "proxy:\n  - listen: 127.0.0.1:8000\n    domain: web\n    descriptors: [{a: b}]\n    client: \
         {ipv4: 24}\n    routes: [{upstreams: [\"http://127.0.0.1:3000\"]}]",
    ),
    prefix_length(
        "application.proxy[].client.ipv6",
        PrefixLengths::MOST_IPV6,
        PrefixLengths::DEFAULT_IPV6,
        "Bits of an IPv6 address.",
        "proxy:\n  - listen: 127.0.0.1:8000\n    domain: web\n    descriptors: [{a: b}]\n    client: \
         {ipv6: 48}\n    routes: [{upstreams: [\"http://127.0.0.1:3000\"]}]",
    ),
    key(
        "application.proxy[].path",
        "mapping",
        Said("upper and lower case differ, and escaped slashes are refused"),
        "How paths are compared, and which are passed on.",
        "proxy:\n  - listen: 127.0.0.1:8000\n    path: {ignore_case: true}\n    routes: [{upstreams: \
         [\"http://127.0.0.1:3000\"]}]",
    ),
    key(
        "application.proxy[].path.templates",
        "text or list of texts",
        Said("none"),
        "Forms that paths can have, as in `auth`; for `descriptors`.",
        "proxy:\n  - listen: 127.0.0.1:8000\n    domain: web\n    path: {templates: [\"/users/{id}\"]}\n    descriptors: \
         [{path: \"{path_template|other}\"}]\n    routes: [{upstreams: \"http://127.0.0.1:3000\"}]",
    ),
    key(
        "application.proxy[].path.ignore_case",
        "`true` or `false`",
        Is("false"),
        "Whether the servers behind take `/Login` for `/login`. Paths are judged in lower case then, in rules and \
         templates too, and passed on as they are.",
        "proxy:\n  - listen: 127.0.0.1:8000\n    path: {ignore_case: true}\n    routes: [{upstreams: \
         [\"http://127.0.0.1:3000\"]}]",
    ),
    key(
        "application.proxy[].path.escaped_slashes",
        "`refuse`, `keep` or `decode`",
        Is("refuse"),
        "What becomes of `%2F`, `%5C` and `\\` in a path, which servers understand in different ways: `refuse` refuses the \
         request, `keep` takes them for parts of a name, and `decode` for slashes.",
        "proxy:\n  - listen: 127.0.0.1:8000\n    path: {escaped_slashes: keep}\n    routes: [{upstreams: \
         [\"http://127.0.0.1:3000\"]}]",
    ),
    key(
        "application.proxy[].routes",
        "list of mappings, at most 1000",
        Required,
        "Where requests go. Routes with a `host` come before those without, then the longest `path` counts. A request for which \
         there is no route gets 404.",
        "proxy:\n  - listen: 127.0.0.1:8000\n    routes: [{upstreams: [\"http://127.0.0.1:3000\"]}, \
         {path: /api/, upstreams: [\"http://127.0.0.1:4000\"]}]",
    ),
    key(
        "application.proxy[].routes[].host",
        "host, without port",
        Said("any"),
        "The host that requests are for.",
        "proxy:\n  - listen: 127.0.0.1:8000\n    routes: [{host: api.example.com, upstreams: \
         [\"http://127.0.0.1:3000\"]}]",
    ),
    key(
        "application.proxy[].routes[].path",
        "path",
        Is("/"),
        "What the paths of requests begin with, in whole segments: `/api` and `/api/` are both for `/api` and `/api/users`, and not \
         for `/apis`. Requests keep their path.",
        "proxy: [{listen: 127.0.0.1:8000, routes: [{path: /api/, upstreams: [\"http://127.0.0.1:3000\"]}]}]",
    ),
    key(
        "application.proxy[].routes[].upstreams",
        "URL or list of URLs, at most 100",
        Required,
        "The servers that answer. `http://HOST:PORT` means HTTP/1.1; `https://HOST:PORT` means HTTP/2 where the \
         server speaks it, else HTTP/1.1; `h2c://HOST:PORT` means HTTP/2 without TLS, as gRPC servers speak it. \
         Names are looked up every 30 seconds, and after a failure. One that can't be connected to is left alone \
         for 5 seconds, as long as others answer.",
        "proxy:\n  - listen: 127.0.0.1:8000\n    routes: [{upstreams: [\"http://10.0.0.1:3000\", \
         \"http://10.0.0.2:3000\"]}]",
    ),
    key(
        "application.proxy[].routes[].balance",
        "`round_robin` or `least_requests`",
        Is("round_robin"),
        "Which server is next: each in turn, or the one that has the fewest requests to answer.",
        "proxy:\n  - listen: 127.0.0.1:8000\n    routes: [{balance: least_requests, upstreams: \
         [\"http://127.0.0.1:3000\"]}]",
    ),
    key(
        "application.proxy[].routes[].host_header",
        "host, with or without port",
        Said("what the client asked for"),
        "The `Host` that servers get, for instance in calls to somebody else's API.",
        "proxy:\n  - listen: 127.0.0.1:8000\n    routes: [{host_header: api.example.com, upstreams: \
         [\"https://api.example.com\"]}]",
    ),
    key(
        "application.proxy[].routes[].tls",
        "mapping",
        Said(
            "certificates are checked for the host of the URL, against the authorities that the system \
            trusts",
        ),
        "How servers that speak TLS are trusted.",
        "proxy:\n  - listen: 127.0.0.1:8000\n    routes: [{tls: {ca: ca.pem}, upstreams: \
         [\"https://127.0.0.1:3000\"]}]",
    ),
    key(
        "application.proxy[].routes[].tls.ca",
        "path, relative to the file's directory",
        Said("those that the system trusts"),
        "The authorities that must have signed servers' certificates, as PEM. They are read at the start \
         and at a reload.",
        "proxy:\n  - listen: 127.0.0.1:8000\n    routes: [{tls: {ca: ca.pem}, upstreams: \
         [\"https://127.0.0.1:3000\"]}]",
    ),
    key(
        "application.proxy[].routes[].tls.server_name",
        "name",
        Said("the host of the URL"),
        "The name that servers are asked for in TLS (SNI), and that their certificates have to have.",
        "proxy:\n  - listen: 127.0.0.1:8000\n    routes: [{tls: {server_name: api.example.com}, \
         upstreams: [\"https://10.0.0.1\"]}]",
    ),
    key(
        "application.proxy[].routes[].timeouts",
        "mapping",
        Said("as below"),
        "How long connections, answers and pauses may take.",
        "proxy:\n  - listen: 127.0.0.1:8000\n    routes: [{timeouts: {response: 10s}, upstreams: \
         [\"http://127.0.0.1:3000\"]}]",
    ),
    key(
        "application.proxy[].routes[].timeouts.connect",
        "time, at most a day",
        Is("5s"),
        "How long connecting to a server may take, TLS included. After that the next server is tried; if \
         none is left, the client gets 504.",
        "proxy:\n  - listen: 127.0.0.1:8000\n    routes: [{timeouts: {connect: 1s}, upstreams: \
         [\"http://127.0.0.1:3000\"]}]",
    ),
    key(
        "application.proxy[].routes[].timeouts.response",
        "time, at most a day",
        Is("60s"),
        "How long a server may take to begin its answer, after the last piece of the request was passed \
         on. After that the client gets 504.",
        "proxy:\n  - listen: 127.0.0.1:8000\n    routes: [{timeouts: {response: 10s}, upstreams: \
         [\"http://127.0.0.1:3000\"]}]",
    ),
    key(
        "application.proxy[].routes[].timeouts.idle",
        "time, at most a day",
        Is("5m"),
        "How long an answer may pause while no more of the request comes either, and how long a \
         WebSocket may be silent. After that the connection ends.",
        "proxy:\n  - listen: 127.0.0.1:8000\n    routes: [{timeouts: {idle: 1h}, upstreams: \
         [\"http://127.0.0.1:3000\"]}]",
    ),
];
