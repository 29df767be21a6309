//! A remote store of any type. A box for each question is nothing beside a round trip over a network.

use std::{fmt, pin::Pin, sync::Arc, time::Duration};

use super::{BucketKey, Question, Reading, RemoteError, RemoteHealth, RemoteStore};

type Boxed<'q, T> = Pin<Box<dyn Future<Output = Result<T, RemoteError>> + Send + 'q>>;

/// A remote store.
#[derive(Clone)]
pub(crate) struct ErasedStore(Arc<dyn Erased>);

trait Erased: Send + Sync {
    fn decide<'q>(&'q self, question: Question<'q>) -> Boxed<'q, Reading>;
    fn charge_later(&self, question: Question<'_>);
    fn reset<'q>(&'q self, buckets: &'q [BucketKey<'q>]) -> Boxed<'q, u64>;
    fn answers_within(&self) -> Duration;
    fn health(&self) -> RemoteHealth;
}

impl<R: RemoteStore> Erased for R {
    fn decide<'q>(&'q self, question: Question<'q>) -> Boxed<'q, Reading> {
        Box::pin(RemoteStore::decide(self, question))
    }

    fn charge_later(&self, question: Question<'_>) {
        RemoteStore::charge_later(self, question);
    }

    fn reset<'q>(&'q self, buckets: &'q [BucketKey<'q>]) -> Boxed<'q, u64> {
        Box::pin(RemoteStore::reset(self, buckets))
    }

    fn answers_within(&self) -> Duration {
        RemoteStore::answers_within(self)
    }

    fn health(&self) -> RemoteHealth {
        RemoteStore::health(self)
    }
}

impl ErasedStore {
    pub(crate) fn new(store: impl RemoteStore) -> Self {
        Self(Arc::new(store))
    }

    pub(crate) fn decide<'q>(&'q self, question: Question<'q>) -> Boxed<'q, Reading> {
        self.0.decide(question)
    }

    pub(crate) fn charge_later(&self, question: Question<'_>) {
        self.0.charge_later(question);
    }

    pub(crate) fn reset<'q>(&'q self, buckets: &'q [BucketKey<'q>]) -> Boxed<'q, u64> {
        self.0.reset(buckets)
    }

    pub(crate) fn answers_within(&self) -> Duration {
        self.0.answers_within()
    }

    pub(crate) fn health(&self) -> RemoteHealth {
        self.0.health()
    }
}

impl fmt::Debug for ErasedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Shared").field(&self.health().name).finish()
    }
}
