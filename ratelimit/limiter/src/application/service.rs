//! The service: decides about requests, and takes other rules while it does.

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use arc_swap::ArcSwap;
use ratelimit_common::{algorithm::realign::ClockStep, limit::LimitError, time::Now};

use super::{
    counters::{DomainCounts, Label, Registry, RuleCounts},
    generation::Generation,
    request::{Request, RequestError},
    response::Response,
    saved::{self, SaveError},
    shared::{DEFAULT_EXHAUSTED_KEYS, SharedStore, SharedStoreStats},
    status::{self, DomainStatus, ServiceStatus, SharedStoreStatus, StoreStatus, Truncated},
};
use crate::{
    clock::{Clock, MonotonicClock},
    policy::{ServicePolicy, StoreSettings},
    store::{
        MemoryStore, Store as _, Zero,
        memory::{NoMemory, Saved},
        remote::RemoteStore,
    },
    text::Shown,
    transaction::Crossings,
    warnings,
};

use in_force::GenerationGuard;
pub use in_force::InForce;

mod in_force;

/// Times that a reload looks whether the old rules are still in use before it clamps what they charged.
const MOST_WAITS: usize = 10_000;

/// Why a service can't be made, or can't take rules.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServiceError {
    /// There is no memory for so many keys.
    #[error(transparent)]
    NoMemory(#[from] NoMemory),
    /// A limit that no bucket can hold.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// There is no place for what is counted.
    #[error("`state_file`: {}: {why}", Shown(.path.display()))]
    NoPlace {
        /// The state file.
        path: PathBuf,
        /// What is wrong with it, and what to do.
        why: String,
    },
    /// The store can't be changed while it is in use.
    #[error("`application.store` has changed, which takes a restart: stop the daemon and start it again")]
    StoreChanged,
}

/// Decides about requests.
pub struct Service {
    store: MemoryStore,
    /// What is asked instead; `store` is for the time in which it does not answer.
    shared: Option<SharedStore>,
    settings: StoreSettings,
    clock: Arc<dyn Clock + Send + Sync>,
    generation: ArcSwap<Generation>,
    crossings: Crossings,
    registry: Registry,
    errors: AtomicU64,
    /// Held while rules are replaced.
    reloading: Mutex<()>,
    /// Held while the state file is written.
    saving: Mutex<()>,
}

impl Service {
    /// A service with these rules, by the system's clock.
    ///
    /// # Errors
    /// As of [`Self::with_clock`].
    pub fn new(policy: &ServicePolicy) -> Result<Self, ServiceError> {
        Self::with_clock(policy, Arc::new(MonotonicClock::new()))
    }

    /// The same by another clock.
    ///
    /// # Errors
    /// No memory, a limit that no bucket can hold, or no place for the state file.
    pub fn with_clock(
        policy: &ServicePolicy,
        clock: Arc<dyn Clock + Send + Sync>,
    ) -> Result<Self, ServiceError> {
        let settings = policy.store.clone();
        if let Some(path) = &settings.state_file {
            saved::check_place(path)
                .map_err(|error| ServiceError::NoPlace { path: path.clone(), why: error.to_string() })?;
        }
        let (store, kept) = match read_state(&settings, &*clock) {
            Some(restored) => restored,
            None => (MemoryStore::new(settings.max_keys)?, Zero::before(&*clock)),
        };
        let registry = Registry::default();
        let zero = kept.aligned(&*clock);
        let generation = Generation::new(policy, &store, zero, &registry)?;
        store.realign(&generation.limits, kept, zero, zero.since(clock.now()));
        Ok(Self {
            store,
            shared: None,
            clock,
            generation: ArcSwap::from_pointee(generation),
            crossings: Crossings::new(settings.max_keys),
            settings,
            registry,
            errors: AtomicU64::new(0),
            reloading: Mutex::default(),
            saving: Mutex::default(),
        })
    }

    /// The same with its counts in a store that several processes share, which [`Self::decide_async`] asks. What is in
    /// memory counts while that does not answer.
    #[must_use]
    pub fn sharing(self, store: impl RemoteStore) -> Self {
        Self { shared: Some(SharedStore::new(store, DEFAULT_EXHAUSTED_KEYS)), ..self }
    }

    /// The same, but so many keys are remembered for a second that were exhausted. With none of them every request asks
    /// the store.
    #[must_use]
    pub fn remembering(mut self, exhausted_keys: usize) -> Self {
        if let Some(shared) = &mut self.shared {
            shared.remember(exhausted_keys);
        }
        self
    }

    /// Decides about a request, and counts it. With a store that several processes share it waits for that, and blocks
    /// the thread: whoever is asynchronous uses [`Self::decide_async`].
    ///
    /// # Errors
    /// It makes no sense, which is for whoever asks to mend: no client can bring it about by a value. Nothing was
    /// counted then.
    pub fn decide(&self, request: &Request) -> Result<Response, RequestError> {
        self.in_force().decide(request)
    }

    /// The same, without blocking. With counts in memory it is decided at once.
    ///
    /// # Errors
    /// As of [`Self::decide`].
    pub async fn decide_async(&self, request: &Request) -> Result<Response, RequestError> {
        self.in_force().decide_async(request).await
    }

    /// [`Self::report`], without blocking.
    ///
    /// # Errors
    /// As of [`Self::decide`].
    pub async fn report_async(&self, request: &Request) -> Result<Response, RequestError> {
        self.in_force().report_async(request).await
    }

    /// Charges what was not known before it was taken, to all limits of a request: those with `overrun` whole, others
    /// as far as they have room. Nothing is denied. What the answer says is left is so after that.
    ///
    /// ```
    /// # use ratelimit_limiter::application::{Descriptor, Request, RequestError, Service};
    /// # fn answer(service: &Service) -> Result<(), RequestError> {
    /// // Before: may this tenant go on? It takes nothing.
    /// let ask = Descriptor { hits_addend: Some(0), ..Descriptor::of([("tenant", "3")]) };
    /// let mut request = Request { domain: "models".to_owned(), descriptors: vec![ask], hits_addend: 1 };
    /// if service.decide(&request)?.allowed() {
    ///     // Afterwards: it took 1,741 tokens.
    ///     request.descriptors[0].hits_addend = Some(1_741);
    ///     service.report(&request)?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As of [`Self::decide`].
    pub fn report(&self, request: &Request) -> Result<Response, RequestError> {
        self.in_force().report(request)
    }

    /// What is in force now.
    #[must_use]
    pub fn in_force(&self) -> InForce<'_> {
        let generation = match self.shared {
            None => GenerationGuard::Briefly(self.generation.load()),
            Some(_) => GenerationGuard::Long(self.generation.load_full()),
        };
        InForce { service: self, generation }
    }

    /// Puts other rules in force, in one step: each request meets the old ones or the new ones. What is counted for
    /// domain, entries and window goes on, whatever the numbers are now.
    ///
    /// # Errors
    /// The rules need another store, or can't be put in force. The old ones stay in force then.
    pub fn reload(&self, policy: &ServicePolicy) -> Result<(), ServiceError> {
        if policy.store != self.settings {
            return Err(ServiceError::StoreChanged);
        }
        let _reloading = self.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = self.zero();
        let zero = kept.aligned(&*self.clock);
        let step = kept.step_to(zero);
        let generation = Arc::new(Generation::new(policy, &self.store, zero, &self.registry)?);
        let realign = || self.store.realign(&generation.limits, kept, zero, self.now());
        if step == Some(ClockStep::Back) {
            realign();
        }
        let old = self.generation.swap(Arc::clone(&generation));
        // A store that several processes share clamps states when it reads them, and has a clock of its own.
        if self.shared.is_none() && (generation.has_buckets || step.is_some()) {
            // What the old rules still charge is mended too, if they come to an end soon.
            let in_use = || Arc::strong_count(&old) > 1;
            (0..MOST_WAITS).take_while(|_| in_use()).for_each(|_| std::thread::yield_now());
        }
        match step {
            Some(ClockStep::Forward(_)) => realign(),
            Some(ClockStep::Back) => self.store.settle(&generation.limits, self.now()),
            None => {}
        }
        if generation.has_buckets {
            self.store.clamp(&generation.limits, self.now());
        }
        drop(old);
        self.registry.retain_used();
        Ok(())
    }

    /// Whether windows lie elsewhere by the wall clock now, because it was set: [`Self::reload`] moves them.
    #[must_use]
    pub fn has_moved_windows(&self) -> bool {
        let kept = self.zero();
        kept.aligned(&*self.clock) != kept
    }

    fn zero(&self) -> Zero {
        self.generation.load().zero
    }

    fn now(&self) -> Now {
        self.zero().since(self.clock.now())
    }

    /// Saves what is counted, if there is a file for it: the program calls it every [`StoreSettings::save_interval`],
    /// and for a clean stop after the last request. Decisions go on meanwhile.
    ///
    /// # Errors
    /// The file can't be written; the one from before is as it was.
    pub fn save(&self) -> Result<(), SaveError> {
        let Some(path) = &self.settings.state_file else { return Ok(()) };
        let _saving = self.saving.lock().unwrap_or_else(PoisonError::into_inner);
        saved::write(path, &self.saved())
    }

    /// What is counted. A reload, which may move windows, waits for it, and not for the file.
    fn saved(&self) -> Saved {
        let _reloading = self.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        let generation = self.generation.load();
        let now = generation.zero.since(self.clock.now());
        self.store.save(&generation.limits, now, generation.zero.wall_at(now))
    }

    /// Where and how often what is counted is to be saved.
    #[must_use]
    pub const fn settings(&self) -> &StoreSettings {
        &self.settings
    }

    /// What was counted under each label.
    #[must_use]
    pub fn rule_counts(&self) -> Vec<(Label, RuleCounts)> {
        self.registry.rules().into_iter().collect()
    }

    /// For each rule that tells values apart, hits that count under its own label because there may be no more.
    #[must_use]
    pub fn unlabelled_hits(&self) -> Vec<(Label, u64)> {
        self.registry.left_out().into_iter().collect()
    }

    /// What was counted for each domain that there are rules for.
    #[must_use]
    pub fn domain_counts(&self) -> Vec<(String, DomainCounts)> {
        self.registry.domains().into_iter().collect()
    }

    /// What was counted for all other domains together.
    #[must_use]
    pub fn unknown_domain_counts(&self) -> DomainCounts {
        self.registry.unknown.read()
    }

    /// How many requests could not be answered.
    #[must_use]
    pub fn request_errors(&self) -> u64 {
        self.errors.load(Relaxed)
    }

    /// How many requests were denied, or only shadowed, because they had more descriptors or entries than are judged.
    #[must_use]
    pub fn requests_too_much(&self) -> u64 {
        self.registry.too_much.load(Relaxed)
    }

    /// Whether counts are in a store that several processes share.
    #[must_use]
    pub const fn is_shared(&self) -> bool {
        self.shared.is_some()
    }

    /// What came of the questions to the store that several processes share; `None` if counts are in memory.
    #[must_use]
    pub fn shared_store(&self) -> Option<SharedStoreStats> {
        self.shared.as_ref().map(SharedStore::stats)
    }

    /// Sends that store what it is still to be charged. It is to be called now and then, and at the end.
    pub fn flush(&self) {
        if let Some(shared) = &self.shared {
            shared.flush();
        }
    }

    /// How many buckets are in use now. It looks at all of them.
    #[must_use]
    pub fn keys_in_use(&self) -> u64 {
        self.store.in_use(self.now())
    }

    /// What is in force and what it has done, with at most so many rules and as many domains.
    #[must_use]
    pub fn status(&self, most: usize) -> ServiceStatus {
        let generation = self.generation.load();
        let rules = status::rules(&generation, most);
        let domains = Truncated::of(self.domain_counts(), most, |(_, counts)| counts.allowed + counts.denied);
        let of_domain = |(domain, counts): (String, DomainCounts)| DomainStatus {
            domain: status::shown(&domain),
            counts,
        };
        ServiceStatus {
            shadow_mode: generation.shadow_mode,
            quota_mode: generation.quota_mode,
            domains_left_out: domains.left_out,
            domains: domains.shown.into_iter().map(of_domain).collect(),
            unknown_domains: self.unknown_domain_counts(),
            rules_left_out: rules.left_out,
            rules: rules.shown,
            request_errors: self.request_errors(),
            store: StoreStatus {
                shared: self.shared_store().as_ref().map(SharedStoreStatus::of),
                keys: self.keys_in_use(),
                max_keys: self.settings.max_keys,
                bytes: self.store.bytes(),
                live_evictions: self.store.live_evictions(),
                state_file: self.settings.state_file.as_ref().map(|path| path.display().to_string()),
            },
        }
    }

    /// The store.
    #[must_use]
    pub const fn store(&self) -> &MemoryStore {
        &self.store
    }
}

/// What was saved before. A file that can't be read must not keep the daemon from starting.
fn read_state(settings: &StoreSettings, clock: &(dyn Clock + Send + Sync)) -> Option<(MemoryStore, Zero)> {
    let path = settings.state_file.as_ref()?;
    saved::read(path, settings.max_keys, clock).unwrap_or_else(|error| {
        warnings::state_is_not_read(path, &error);
        None
    })
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service").field("settings", &self.settings).finish_non_exhaustive()
    }
}
