//! What comes of a question by the states that a store has read: for stores that keep a request's buckets on several
//! servers, and for tests that a store decides as the limiter does.

use ratelimit_common::limit::Limit;
use smallvec::SmallVec;

use super::{Found, Question, Reading};
use crate::transaction::{Decided, Over, Part, Snapshot, Terms, decide, time_left};

/// What comes of a question.
#[derive(Clone, Debug)]
pub struct Outcomes {
    /// Whether the request passes.
    pub admitted: bool,
    /// For each part whether it is charged.
    pub charged: Vec<bool>,
    /// The buckets afterwards.
    pub after: Vec<Found>,
    said: Vec<String>,
}

impl Outcomes {
    /// From the states before; `None` if there are not as many as the question has buckets, or if one is another
    /// limit's.
    #[must_use]
    pub fn of(question: &Question<'_>, reading: &Reading) -> Option<Self> {
        let limits: SmallVec<[Limit; 4]> =
            question.parts.iter().map(|part| reading.zero.align(*part.limit)).collect();
        let parts: SmallVec<[Part<'_>; 4]> =
            question.parts.iter().zip(&limits).map(|(part, limit)| Part { limit, ..*part }).collect();
        let Question { passes_all, has_open_quota, .. } = *question;
        let terms = Terms { now: reading.now, passes_all, has_open_quota };
        let mut snapshot = Snapshot::of(&parts);
        if snapshot.buckets.len() != reading.buckets.len() {
            return None;
        }
        for (held, found) in snapshot.buckets.iter_mut().zip(&reading.buckets) {
            let limit = limits[held.reader()];
            held.state = found.state.clone().under(&limit, reading.now)?;
            held.above_since = found.above_since;
        }
        let mut decided = Decided::none(&terms);
        decide(&terms, &parts, &snapshot, &mut decided);
        let after = decided.buckets.iter();
        Some(Self {
            admitted: decided.admitted,
            charged: decided.outcomes.iter().map(|outcome| outcome.charged).collect(),
            after: after
                .map(|held| Found { state: held.state.clone(), above_since: held.above_since })
                .collect(),
            said: said(&terms, &parts, &decided),
        })
    }

    /// Every number that an answer can be made of, for each part, to be compared.
    #[doc(hidden)]
    #[must_use]
    pub fn said(&self) -> &[String] {
        &self.said
    }
}

fn said(terms: &Terms, parts: &[Part<'_>], decided: &Decided<'_>) -> Vec<String> {
    let before = decided.taken_before(parts);
    let of = |(index, part): (usize, &Part<'_>)| {
        let outcome = &decided.outcomes[index];
        let numbers = outcome.answer.map(|answer| {
            let decision = answer.decision();
            let left = [decision.remaining(), decision.used(), decision.owed(), decision.cut()];
            let times = [decision.reset_after(), decision.next_after()];
            (decision.allowed, decision.never(), left, times, decision.retry_after(), decision.leaves_after())
        });
        let mut said = format!(
            "over {}, charged {}, {:?}, {numbers:?}",
            outcome.over, outcome.charged, outcome.soft_state
        );
        if !decided.admitted && part.over != Over::Closed {
            let limit = part.limit.forgiving();
            let again = decided.ask_after(index, &limit, before[index], part.cost.max(1)).decision();
            said += &format!(", again {:?} {:?}", again.allowed, again.retry_after());
            if let Some(soft) = part.soft {
                let above = limit.capacity().saturating_sub(soft.limit.get());
                let above = u32::try_from(above).unwrap_or(u32::MAX);
                let below = decided.ask_after(index, &limit, above, 1).decision().retry_after();
                let held = decided.bucket(index);
                let used = held.ask(&limit, terms.now, 0).decision().used();
                let left = time_left(held.above_since, soft, used, terms.now);
                said += &format!(", below {below:?}, above for {left:?}");
            }
        }
        said
    };
    parts.iter().enumerate().map(of).collect()
}
