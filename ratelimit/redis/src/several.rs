//! Requests whose buckets lie in several shards. No server can decide about them alone: each decides about its own at
//! the same time, and what those that admitted have charged is taken back if the request is denied after all. So
//! across shards a request may be denied by what others charge in vain; none is admitted more.

use std::time::Instant;

use ratelimit_limiter::store::remote::{Act, Found, Outcomes, Part, Question, Reading, RemoteError, Say};

use crate::{
    call::{
        number::Micros,
        reading::Epoch,
        request::{Doing, OfShard, ShardRequest},
    },
    queue::DecidedRequest,
    store::{SharedBuckets, error},
    transport::Transport,
};

/// A question about several shards.
pub(crate) struct Several<'s, T> {
    pub(crate) store: &'s SharedBuckets<T>,
    pub(crate) question: &'s Question<'s>,
    pub(crate) deadline: Instant,
}

/// What a shard decided, with the places of its buckets and parts in the question.
struct Answered {
    decided: DecidedRequest,
    buckets: Vec<usize>,
    parts: Vec<usize>,
}

impl<T: Transport> Several<'_, T> {
    pub(crate) async fn decide(&self, request: &ShardRequest) -> Result<Reading, RemoteError> {
        let mut pending = Vec::new();
        for (_, of_shard) in request.split() {
            let OfShard { request, buckets, parts } = of_shard;
            let receiver = self.store.ask(tentative(request), self.deadline, self.not_after());
            pending.push((receiver, buckets, parts));
        }
        let (mut answered, mut failed) = (Vec::new(), None);
        for (receiver, buckets, parts) in pending {
            let Some(receiver) = receiver else { continue };
            match self.store.until(self.deadline, receiver).await {
                Some(Ok(Ok(decided))) => answered.push(Answered { decided, buckets, parts }),
                Some(Ok(Err(trouble))) => failed = Some(error(trouble)),
                Some(Err(_)) => failed = Some(RemoteError::Unavailable("it is stopping".to_owned())),
                None => failed = Some(RemoteError::TimedOut),
            }
        }
        if let Some(error) = failed {
            self.undo(&answered);
            return Err(error);
        }
        self.settle(request, &answered)
    }

    /// Decides on all states together, and has the shards agree with that.
    fn settle(&self, request: &ShardRequest, answered: &[Answered]) -> Result<Reading, RemoteError> {
        let foreign = || RemoteError::Foreign("a state that can't be read".to_owned());
        // By the clock of a server that denied, its limits deny.
        let denied = answered.iter().find(|answered| !answered.decided.admitted);
        let now = denied.or(answered.first()).map_or(Micros(0), |answered| answered.decided.now);
        let Some(mut reading) = merged(self.store.epoch(now), now, request, answered) else {
            self.undo(answered);
            return Err(foreign());
        };
        let Some(outcomes) = Outcomes::of(self.question, &reading) else {
            self.undo(answered);
            return Err(foreign());
        };
        reading.admitted = denied.is_none() && outcomes.admitted;
        if reading.admitted {
            self.refund(request);
        } else {
            self.undo(answered);
        }
        Ok(reading)
    }

    /// Has shards take back what they have charged and would not have if they had known of the others. What became of
    /// each part follows from the states that its shard decided on.
    fn undo(&self, answered: &[Answered]) {
        for answered in answered.iter().filter(|answered| answered.decided.admitted) {
            let Some(charged) = self.charged(answered) else { continue };
            let decided = &answered.decided;
            let mut request = ShardRequest::clone(&decided.request);
            let mut charged = charged.into_iter();
            request.parts.retain(|part| {
                let was_charged = charged.next().unwrap_or(false);
                was_charged && part.act == Doing::Act(Act::ChargeIfAdmitted)
            });
            for part in &mut request.parts {
                part.act = Doing::Undo(decided.now);
                part.soft = None;
            }
            self.charge(request);
        }
    }

    /// For each part of a shard whether that has charged it.
    fn charged(&self, answered: &Answered) -> Option<Vec<bool>> {
        let decided = &answered.decided;
        let epoch = self.store.epoch(decided.now);
        let reading = epoch.reading(decided.now, &decided.request, true, &decided.states)?;
        let parts: Vec<_> = answered.parts.iter().map(|&part| self.question.parts[part]).collect();
        let parts: Vec<_> = parts
            .iter()
            .zip(&decided.request.parts)
            .map(|(part, asked)| match asked.act {
                Doing::Act(act) => Part { act, say: asked.say, ..*part },
                Doing::Tentative => Part { act: Act::Ask, say: asked.say, ..*part },
                Doing::Undo(_) => *part,
            })
            .collect();
        let buckets: Vec<_> = answered.buckets.iter().map(|&bucket| self.question.buckets[bucket]).collect();
        let of_part: Vec<_> = decided.request.parts.iter().map(|part| part.bucket).collect();
        let question = Question {
            buckets: &buckets,
            parts: &parts,
            of_part: &of_part,
            has_open_quota: decided.request.has_open_quota,
            ..*self.question
        };
        Some(Outcomes::of(&question, &reading)?.charged)
    }

    /// Gives back what the request gives back if it passes.
    fn refund(&self, request: &ShardRequest) {
        let is_tentative = |act| act == Doing::Act(Act::RefundIfAdmitted);
        for (_, OfShard { mut request, .. }) in request.split() {
            request.parts.retain(|part| is_tentative(part.act));
            for part in &mut request.parts {
                part.act = Doing::Act(Act::Refund);
            }
            self.charge(request);
        }
    }

    fn charge(&self, mut request: ShardRequest) {
        request = request.without_unused_buckets();
        if !request.parts.is_empty() {
            self.store.tell(request);
        }
    }

    fn not_after(&self) -> Option<Micros> {
        self.question.not_after.map(Micros::down)
    }
}

/// A shard's request while nobody knows what others say: nothing is given back yet, and quotas elsewhere may be open.
fn tentative(mut request: ShardRequest) -> ShardRequest {
    for part in &mut request.parts {
        if part.act == Doing::Act(Act::RefundIfAdmitted) {
            part.act = Doing::Tentative;
            part.say = Say::Observes;
        }
    }
    request.has_open_quota = true;
    request
}

/// The states of all shards as of one moment of one of the clocks.
fn merged(epoch: Epoch, now: Micros, request: &ShardRequest, answered: &[Answered]) -> Option<Reading> {
    let mut found: Vec<Option<Found>> = vec![None; request.buckets.len()];
    let mut reading = None;
    for Answered { decided, buckets, .. } in answered {
        let of_shard = epoch.moved(decided.now, now, &decided.request, &decided.states)?;
        for (&bucket, of_bucket) in buckets.iter().zip(&of_shard.buckets) {
            *found.get_mut(bucket)? = Some(of_bucket.clone());
        }
        reading.get_or_insert(of_shard);
    }
    let mut reading = reading?;
    reading.buckets = found.into_iter().collect::<Option<_>>()?;
    Some(reading)
}
