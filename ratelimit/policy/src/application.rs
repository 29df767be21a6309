//! What the daemon answers about requests, and where: the validated `application` section with the rules that its files
//! hold.

mod asking;
mod cookies;
mod deny_body;
mod facts;
mod listen;
mod proxy;
mod store;
pub mod target;
mod template;

use std::{num::NonZeroU32, path::PathBuf, sync::Arc};

use crate::{Prefix, Range};

pub use asking::{Auth, ClientBits, DescriptorTemplate, RequestTemplate};
pub use deny_body::DenyBody;
pub use facts::{FactValue, Facts, SEVERAL_VALUES, UNKNOWN_CLIENT};
pub use listen::{Listen, ListenAddress, ListenerSettings, Tls};
pub use proxy::{
    Balance, ProxyListener, ProxyProtocol, ProxyRoute, Scheme, Timeouts, UpstreamTls, UpstreamUrl,
    UpstreamUrlError, route_host,
};
pub use ratelimit_limiter::{
    AnswerHeaders,
    application::{
        DescriptorRule, Domain, LIMITS_OF_REQUESTS, NearLimitRatio, Networks, NoTimeUnit, OnStoreError,
        Quantity, RateOptions, RequestBan, RequestLimit, RequestLimitError, RequestRate, RuleSet,
        RuleSetError, ServicePolicy, SoftLimit, StoreSettings, TimeUnit, composite_key, metric_label,
    },
};
pub use store::{AddressError, Login, RedisAddress, RedisSettings, RedisTls, Topology};
pub use template::{Fact, Template, TemplateError};

/// What is answered about requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Application {
    /// The rules of all files.
    pub rules: RuleSet,
    /// Where they came from.
    pub sources: RuleSources,
    /// Whether a request is let through whatever the limits say; they still count.
    pub shadow_mode: bool,
    /// Whether every limit is in quota mode.
    pub quota_mode: bool,
    /// Above which share of a limit use counts as near it.
    pub near_limit_ratio: NearLimitRatio,
    /// How many proxies in front add the address of who speaks to them.
    pub trusted_hops: u8,
    /// Which headers answers have.
    pub headers: AnswerHeaders,
    /// What is asked about a request that a proxy shows.
    pub auth: Option<Auth>,
    /// Where counts are kept, if in memory.
    pub store: StoreSettings,
    /// Where they are kept instead, if several daemons share them.
    pub redis: Option<RedisSettings>,
    /// What is answered while that store fails.
    pub on_store_error: OnStoreError,
    /// Where questions come in.
    pub listen: Listen,
    /// Where requests come in that are limited and passed on.
    pub proxy: Vec<ProxyListener>,
}

/// Files of rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleSources {
    /// The paths as configured that have a `*` or the like in them, relative ones put below the configuration's
    /// directory.
    pub patterns: Vec<PathBuf>,
    /// What they and the other paths are, in the order in which it was read.
    pub files: Vec<PathBuf>,
    /// The files of networks that these name.
    pub networks: Vec<NetworkFile>,
    /// Whether several files may be about one domain.
    pub merge_domains: bool,
}

/// A file of networks that rules on requests name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkFile {
    /// The file.
    pub file: PathBuf,
    /// What it has.
    pub prefixes: Arc<[Prefix]>,
    /// Whether it has become empty, so that these are from before.
    pub is_kept: bool,
}

/// How many keys a store can have room for: twelve gigabytes at worst.
pub const MAX_KEYS: Range = Range::new(1, 100_000_000);

/// What those need that answer, with the rules in force.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AnswerSettings {
    /// Which headers answers have.
    pub headers: AnswerHeaders,
    /// How many proxies in front add the address of who speaks to them.
    pub trusted_hops: u8,
    /// What is asked about a request that a proxy shows.
    pub auth: Option<Auth>,
    /// What becomes of requests that nobody can decide about.
    pub on_store_error: OnStoreError,
}

impl Application {
    /// How many proxies there can be in front: more addresses in a header than anybody has proxies.
    pub const TRUSTED_HOPS: Range = Range::new(0, 100);

    /// An application layer with these rules and everything else at its default, for programs that bring their own
    /// rules.
    #[must_use]
    pub fn of_rules(rules: RuleSet) -> Self {
        Self {
            rules,
            sources: RuleSources::default(),
            shadow_mode: false,
            quota_mode: false,
            near_limit_ratio: NearLimitRatio::default(),
            trusted_hops: 0,
            headers: AnswerHeaders::default(),
            auth: None,
            store: StoreSettings::default(),
            redis: None,
            on_store_error: OnStoreError::default(),
            listen: Listen::default(),
            proxy: Vec::new(),
        }
    }

    /// All sockets that it names: those for questions, and those of the proxy.
    pub fn listeners(&self) -> impl Iterator<Item = &ListenerSettings> {
        let proxies = self.proxy.iter().map(|proxy| &proxy.listener);
        self.listen.grpc.iter().chain(&self.listen.http).chain(proxies)
    }

    /// What a service decides by, with the [`AnswerSettings`] of those who ask it.
    #[must_use]
    pub fn service_policy(&self) -> ServicePolicy {
        let answering = AnswerSettings {
            headers: self.headers,
            trusted_hops: self.trusted_hops,
            auth: self.auth.clone(),
            on_store_error: self.on_store_error,
        };
        ServicePolicy {
            rules: self.rules.clone(),
            shadow_mode: self.shadow_mode,
            quota_mode: self.quota_mode,
            near_limit_ratio: self.near_limit_ratio,
            store: self.store.clone(),
            on_store_error: self.on_store_error,
            local_share: self.redis.as_ref().map_or(NonZeroU32::MIN, |redis| redis.local_share),
            extension: Some(Arc::new(answering)),
        }
    }
}
