//! A look at buckets for people: how they are, without charging or counting anything, and new ones in their place.

use super::{
    decide::{DecisionContext, LimitChecks, MatchedRules, RequestKind, find_rules, statuses},
    request::{Descriptor, Request, RequestError},
    response::Statuses,
    service::{InForce, Service},
};
use crate::{
    store::{MemoryStore, State, WideRecord, change, remote::RemoteError},
    transaction::Part,
};

/// Why there is nothing to see.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InspectError {
    /// What was asked makes no sense.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// No rule is about the domain.
    #[error("no rules for the domain; `ratelimit rules` lists those that there are")]
    NoDomain,
    /// The store does not answer.
    #[error(transparent)]
    Store(#[from] RemoteError),
}

impl Service {
    /// How the buckets of descriptors are: what a request of cost 0 would be told.
    ///
    /// # Errors
    /// There is no such domain, the request makes no sense, or the store does not answer.
    pub async fn inspect(&self, domain: &str, descriptors: &[Descriptor]) -> Result<Statuses, InspectError> {
        self.in_force().inspect(&question(domain, descriptors)?).await
    }

    /// Puts new buckets in the place of those of descriptors, and says how they were.
    ///
    /// # Errors
    /// As of [`Self::inspect`].
    pub async fn reset(&self, domain: &str, descriptors: &[Descriptor]) -> Result<Statuses, InspectError> {
        let (question, in_force) = (question(domain, descriptors)?, self.in_force());
        let before = in_force.inspect(&question).await?;
        in_force.reset(&question).await?;
        Ok(before)
    }
}

/// What only asks.
fn question(domain: &str, descriptors: &[Descriptor]) -> Result<Request, RequestError> {
    let asking = |descriptor: &Descriptor| Descriptor { hits_addend: Some(0), ..descriptor.clone() };
    let descriptors = descriptors.iter().map(asking).collect();
    let request = Request { domain: domain.to_owned(), descriptors, hits_addend: 0 };
    request.check()?;
    Ok(request)
}

impl InForce<'_> {
    async fn inspect(&self, request: &Request) -> Result<Statuses, InspectError> {
        let (context, shared) = self.context();
        let (rules, mut checks) = checks(&context, request)?;
        Ok(match shared {
            Some(shared) => Box::pin(shared.inspect(&context, request, &rules, &mut checks)).await?,
            None => {
                let evaluated = context.evaluator().judge(&checks, || context.now());
                statuses(&rules, &checks, &evaluated.outcomes)
            }
        })
    }

    async fn reset(&self, request: &Request) -> Result<(), InspectError> {
        let (context, shared) = self.context();
        let (_, checks) = checks(&context, request)?;
        if let Some(shared) = shared {
            return Ok(Box::pin(shared.reset(request, &checks)).await?);
        }
        for part in &super::evaluator::parts(&checks) {
            renew(&context, part);
            context.crossings.forget(part.key());
        }
        Ok(())
    }
}

fn checks<'b>(
    context: &'b DecisionContext<'_>,
    request: &Request,
) -> Result<(MatchedRules<'b>, LimitChecks<'b>), InspectError> {
    let domain = context.generation.rules.domains.get(&*request.domain).ok_or(InspectError::NoDomain)?;
    let rules = find_rules(domain, request);
    let checks = context.checks(request, &rules, RequestKind::Ask);
    Ok((rules, checks))
}

/// Puts a new bucket in the place of one in memory.
fn renew(context: &DecisionContext<'_>, part: &Part<'_>) {
    let (store, limits, charge): (&MemoryStore, _, _) =
        (context.store, &context.generation.limits, part.charge(context.now()));
    change(store, limits, &charge, |before| match before {
        State::Word(_) => State::Word(ratelimit_common::algorithm::fresh(charge.now)),
        State::Wide(_) => State::wide(WideRecord::fresh(charge.limit)),
    });
}
