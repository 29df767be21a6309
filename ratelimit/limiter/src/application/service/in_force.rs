//! What is in force at a moment, and decisions by it.

use std::{
    any::Any,
    ops::Deref,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use arc_swap::Guard;

use super::{
    super::{
        decide::{self, RequestKind},
        generation::Generation,
        request::{Request, RequestError},
        response::Response,
        shared::SharedStore,
    },
    Service,
};

/// What was in force at a moment, for requests that are read, judged and answered by one configuration. A reload waits
/// for it to be dropped.
#[derive(Debug)]
pub struct InForce<'s> {
    pub(super) service: &'s Service,
    pub(super) generation: GenerationGuard,
}

/// A generation in use.
#[derive(Debug)]
pub(super) enum GenerationGuard {
    /// For as long as a decision takes in memory.
    Briefly(Guard<Arc<Generation>>),
    /// For as long as a store may take to answer.
    Long(Arc<Generation>),
}

impl Deref for GenerationGuard {
    type Target = Generation;

    #[inline]
    fn deref(&self) -> &Generation {
        match self {
            Self::Briefly(generation) => generation,
            Self::Long(generation) => generation,
        }
    }
}

impl InForce<'_> {
    /// What the program has put beside the rules that are in force, see
    /// [`ServicePolicy::extension`](crate::application::ServicePolicy::extension); `None` if that is nothing, or of
    /// another type.
    #[must_use]
    pub fn extension<T: Any>(&self) -> Option<&T> {
        self.generation.extension.as_ref()?.downcast_ref()
    }

    /// Whether all requests pass, whatever limits say.
    #[must_use]
    pub fn shadow_mode(&self) -> bool {
        self.generation.shadow_mode
    }

    /// Decides about a request, and counts it.
    ///
    /// # Errors
    /// As of [`Service::decide`].
    pub fn decide(&self, request: &Request) -> Result<Response, RequestError> {
        self.judge(request, RequestKind::Ask)
    }

    /// Charges what a request has taken.
    ///
    /// # Errors
    /// As of [`Service::report`].
    pub fn report(&self, request: &Request) -> Result<Response, RequestError> {
        self.judge(request, RequestKind::Report)
    }

    /// [`Self::decide`], without blocking.
    ///
    /// # Errors
    /// As of [`Service::decide`].
    pub async fn decide_async(&self, request: &Request) -> Result<Response, RequestError> {
        self.judge_async(request, RequestKind::Ask).await
    }

    /// [`Self::report`], without blocking.
    ///
    /// # Errors
    /// As of [`Service::report`].
    pub async fn report_async(&self, request: &Request) -> Result<Response, RequestError> {
        self.judge_async(request, RequestKind::Report).await
    }

    fn judge(&self, request: &Request, kind: RequestKind) -> Result<Response, RequestError> {
        self.check(request)?;
        Ok(match self.context() {
            (context, None) => decide::decide(&context, request, kind),
            (context, Some(shared)) => shared.decide_blocking(&context, request, kind),
        })
    }

    async fn judge_async(&self, request: &Request, kind: RequestKind) -> Result<Response, RequestError> {
        let (context, Some(shared)) = self.context() else { return self.judge(request, kind) };
        self.check(request)?;
        // In a box, so that those whose counts are in memory do not carry all that waiting takes.
        Ok(Box::pin(shared.decide(&context, request, kind)).await)
    }

    fn check(&self, request: &Request) -> Result<(), RequestError> {
        request.check().inspect_err(|_| {
            self.service.errors.fetch_add(1, Relaxed);
        })
    }

    /// What a decision takes, and the store to be asked if it is not the one in memory.
    pub(in crate::application) fn context(&self) -> (decide::DecisionContext<'_>, Option<&SharedStore>) {
        let service = self.service;
        let context = decide::DecisionContext {
            generation: &self.generation,
            store: &service.store,
            crossings: &service.crossings,
            registry: &service.registry,
            clock: &*service.clock,
        };
        (context, service.shared.as_ref())
    }
}
