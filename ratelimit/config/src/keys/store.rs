//! The keys of `application.store`, and of what is done about it.

use super::{
    ConfigKey,
    LeftOut::{Is, IsNumber, Required, Said},
    key, number,
};
use crate::policy::application::{MAX_KEYS, RedisSettings, StoreSettings};

/// In the order of the reference.
pub const KEYS: &[ConfigKey] = &[
    key(
        "application.store",
        "`memory`, or a mapping",
        Is("memory"),
        "Where counts are kept: in the daemon's memory, or in Redis or Valkey, where several daemons share them \
         (`docs/several-daemons.md`).",
        "store: {memory: {max_keys: 200k}}",
    ),
    key(
        "application.store.memory",
        "mapping",
        Said("a million keys, and nothing is saved"),
        "The store in memory. Beside `redis`, it keeps what is counted while Redis does not answer.",
        "store: {memory: {max_keys: 5M}}",
    ),
    number(
        "application.store.memory.max_keys",
        MAX_KEYS,
        IsNumber(StoreSettings::DEFAULT_MAX_KEYS),
        "How many keys there must be room for, counted once for each limit. When there are far more, those with the most left \
         are forgotten. Memory is used as keys come, up to 48 bytes a key. A `sliding_window_log` takes more: about 200 bytes a \
         key, and 8 bytes x `requests_per_unit` for the times of its requests. All logs together have room for 32 x `max_keys` \
         of those, and for 1,280,000 in any case. A `sliding_window_counter` for limits that are too large for 8 bytes takes \
         about 200 bytes a key as well.",
        "store: {memory: {max_keys: 5M}}",
    ),
    key(
        "application.store.memory.state_file",
        "path, relative to the file's directory",
        Said("nothing is saved"),
        "Where counts are saved, to be read at the next start, so that long quotas go on: on a clean stop, and every \
         `save_interval`.",
        "store: {memory: {state_file: /var/lib/ratelimit/state}}",
    ),
    key(
        "application.store.memory.save_interval",
        "time, at most 1 day",
        Is("1m"),
        "How often counts are saved to `state_file` while the daemon runs: if it is killed, it forgets at most what was \
         counted in this time. The file is replaced in one step, and no decision waits for it. Saving takes 24 bytes of \
         memory for each key in use.",
        "store: {memory: {state_file: /var/lib/ratelimit/state, save_interval: 10s}}",
    ),
    key(
        "application.store.redis",
        "mapping",
        Said("counts are kept in memory"),
        "Redis 7 or later, or Valkey 8 or later, with `maxmemory-policy volatile-ttl`. All daemons that name the same place and \
         prefix have the same limits, whatever their clocks say. `ratelimit validate --connect FILE` tries it.",
        "store: {redis: {url: \"redis://127.0.0.1:6379\"}}",
    ),
    key(
        "application.store.redis.url",
        "address or a list of them",
        Required,
        "Where it is: `redis://HOST:PORT`, with the number of a database behind it if wanted (`/1`), `rediss://` \
         for TLS, or `unix:PATH`. For a cluster, name some of its nodes; with `sentinel`, name the sentinels. \
         Passwords are not written here.",
        "store: {redis: {url: \"redis://127.0.0.1:6379\"}}",
    ),
    key(
        "application.store.redis.cluster",
        "`true` or `false`",
        Is("false"),
        "Whether it is a cluster.",
        "store: {redis: {url: [\"redis://10.0.0.1:7000\", \"redis://10.0.0.2:7000\"], cluster: true}}",
    ),
    key(
        "application.store.redis.sentinel",
        "text",
        Said("no sentinels are asked"),
        "The name of the master that the sentinels at `url` watch. They are asked again whenever the connection to \
         it is lost.",
        "store: {redis: {url: [\"redis://10.0.0.1:26379\", \"redis://10.0.0.2:26379\"], sentinel: mymaster}}",
    ),
    key(
        "application.store.redis.username",
        "text",
        Said("the store's default user"),
        "The user of the store's ACL. `docs/several-daemons.md` says what this user must be allowed to do.",
        "store: {redis: {url: \"redis://127.0.0.1:6379\", username: ratelimit, password_file: /etc/ratelimit/redis-password}}",
    ),
    key(
        "application.store.redis.password_file",
        "path, relative to the file's directory",
        Said("no password"),
        "The file whose first line is the password. It is read for each new connection.",
        "store: {redis: {url: \"redis://127.0.0.1:6379\", password_file: /etc/ratelimit/redis-password}}",
    ),
    key(
        "application.store.redis.sentinel_username",
        "text",
        Said("the sentinels' default user"),
        "The user of the sentinels' ACL.",
        "store: {redis: {url: \"redis://10.0.0.1\", sentinel: mymaster, sentinel_username: ratelimit}}",
    ),
    key(
        "application.store.redis.sentinel_password_file",
        "path, relative to the file's directory",
        Said("no password"),
        "The file whose first line is the sentinels' password.",
        "store: {redis: {url: \"redis://10.0.0.1\", sentinel: mymaster, sentinel_password_file: sentinel-password}}",
    ),
    key(
        "application.store.redis.tls",
        "mapping",
        Said("certificates are checked against the authorities that the system trusts"),
        "Certificates for addresses that begin with `rediss://`.",
        "store: {redis: {url: \"rediss://store.example:6380\", tls: {ca: ca.pem}}}",
    ),
    key(
        "application.store.redis.tls.ca",
        "path, relative to the file's directory",
        Said("those that the system trusts"),
        "The authority that must have signed the store's certificate, as PEM.",
        "store: {redis: {url: \"rediss://store.example:6380\", tls: {ca: ca.pem}}}",
    ),
    key(
        "application.store.redis.tls.cert",
        "path, relative to the file's directory",
        Said("none is shown"),
        "The daemon's own certificate and its chain, as PEM.",
        "store: {redis: {url: \"rediss://store.example:6380\", tls: {cert: cert.pem, key: key.pem}}}",
    ),
    key(
        "application.store.redis.tls.key",
        "path, relative to the file's directory",
        Said("none; with `cert` it must be given"),
        "Its key, PEM.",
        "store: {redis: {url: \"rediss://store.example:6380\", tls: {cert: cert.pem, key: key.pem}}}",
    ),
    key(
        "application.store.redis.prefix",
        "1 to 32 letters, digits, hyphens, underscores, points and colons",
        Is(RedisSettings::DEFAULT_PREFIX),
        "What all keys begin with. Daemons with different prefixes share nothing.",
        "store: {redis: {url: \"redis://127.0.0.1:6379\", prefix: edge}}",
    ),
    number(
        "application.store.redis.shards",
        RedisSettings::SHARDS,
        IsNumber(RedisSettings::DEFAULT_SHARDS as u64),
        "The number of hash tags that keys are spread over, and so the largest number of a cluster's nodes that hold them. Limits of one domain whose \
         descriptors begin with the same entry are always together. All daemons need the same number.",
        "store: {redis: {url: \"redis://10.0.0.1:7000\", cluster: true, shards: 128}}",
    ),
    key(
        "application.store.redis.timeout",
        "time from 1ms to 10s",
        Is("50ms"),
        "How long a request waits for an answer at most. Then `on_store_error` says what becomes of it.",
        "store: {redis: {url: \"redis://127.0.0.1:6379\", timeout: 20ms}}",
    ),
    number(
        "application.store.redis.local_share",
        RedisSettings::LOCAL_SHARES,
        IsNumber(1),
        "How many daemons share the store. With `on_store_error: local`, each has that share of every \
         limit, rounded up, while the store does not answer.",
        "store: {redis: {url: \"redis://127.0.0.1:6379\", local_share: 3}}",
    ),
    key(
        "application.on_store_error",
        "`allow`, `deny` or `local`",
        Is("allow"),
        "What becomes of requests while the store does not answer: they pass (`allow`), they are denied (`deny`), \
         or this daemon counts them by itself (`local`, see `local_share`). Only with `local` do answers have \
         figures then. A file of rules can set this for its domain. The store in memory never fails.",
        "on_store_error: deny",
    ),
    key(
        "application.consistency",
        "`strict`",
        Is("strict"),
        "How exactly daemons share limits over a store. `strict` asks the store about each request; only a key that \
         was exhausted less than a second ago is denied without asking. A file of rules can set this for its domain.",
        "consistency: strict",
    ),
];
