//! Taking a charge back: right away it is as if it had never been, and later, with others in between, never more passes
//! than without it.
//!
//! Limits that count denied requests keep their charges, so nothing is taken back from them.

use ratelimit_common::limit::LimitSpec;

use super::{states::kind, *};

/// A step, and whether its charge is taken back after so many more steps.
type Tentative = (Step, Option<usize>);

/// A charge that is still to be taken back.
#[derive(Clone, Copy, Debug)]
struct Pending {
    charged: Nanos,
    cost: u32,
    due: usize,
}

fn steps() -> impl Strategy<Value = Vec<Tentative>> {
    let due = prop_oneof![1 => Just(None), 1 => (0_usize..4).prop_map(Some)];
    (walk::in_order(40, 40), prop::collection::vec(due, 40))
        .prop_map(|(steps, due)| steps.into_iter().zip(due).collect())
}

/// A limit that keeps no denied charges.
fn made() -> impl Strategy<Value = Made> {
    kind().prop_flat_map(limits::of).prop_map(|mut made| {
        made.spec.count_denied = false;
        made
    })
}

/// Takes every admitted request that is followed by an undo back at once, and compares with a bucket that never saw it.
fn at_once(made: &Made, range: Range, steps: &[Tentative]) -> TestCaseResult {
    let limit = made.limit();
    let mut bucket = Bucket::fresh(&limit, range.start);
    let mut twin = bucket.clone();
    let mut walk = Walk::new(made, range);
    for &(step, undone) in steps {
        let (now, cost) = walk.next(step);
        let answer = bucket.decide(&limit, now, cost);
        if undone.is_some() && answer.allowed {
            prop_assert_eq!(twin.ask(&limit, now, cost), answer);
            bucket.undo(&limit, now, now, cost);
            walk.got(0, answer);
        } else {
            prop_assert_eq!(twin.decide(&limit, now, cost), answer);
            walk.got(cost, answer);
        }
    }
    Ok(())
}

/// Takes charges back some steps later, and compares with a bucket that saw only those that stay. Where requests are
/// counted, and not time, nothing is left of the others.
fn later(made: &Made, range: Range, steps: &[Tentative]) -> TestCaseResult {
    let limit = made.limit();
    let mut bucket = Bucket::fresh(&limit, range.start);
    let mut twin = bucket.clone();
    let mut walk = Walk::new(made, range);
    let mut pending: Vec<Pending> = Vec::new();
    let counts = !limits::fills(&limit);
    for (index, &(step, undone)) in steps.iter().enumerate() {
        let (now, cost) = walk.next(step);
        for undo in pending.extract_if(.., |pending| pending.due <= index) {
            bucket.undo(&limit, undo.charged, now, undo.cost);
        }
        let answer = bucket.decide(&limit, now, cost);
        match undone {
            _ if !answer.allowed => {}
            Some(steps) => pending.push(Pending { charged: now, cost, due: index + 1 + steps }),
            None => {
                prop_assert!(twin.decide(&limit, now, cost).allowed, "cost {cost} at {now:?}, {bucket:?}")
            }
        }
        let (left, most) = (bucket.ask(&limit, now, 0).remaining, twin.ask(&limit, now, 0).remaining);
        let as_without = if counts && pending.is_empty() { left == most } else { left <= most };
        prop_assert!(as_without, "{left} left, {most} without, at {now:?}, {bucket:?}, {twin:?}");
        walk.got(if undone.is_none() { cost } else { 0 }, answer);
    }
    Ok(())
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_charge_taken_back_at_once_has_never_been(made in made(), start in start(), steps in steps()) {
        at_once(&made, plain(&made, start), &steps)?;
    }

    #[test]
    fn charges_taken_back_later_admit_nothing_extra(made in made(), start in start(), steps in steps()) {
        later(&made, plain(&made, start), &steps)?;
    }

    #[test]
    fn charges_taken_back_beyond_the_wrap_admit_nothing_extra(
        made in kind().prop_flat_map(limits::short), start in any::<u64>(), steps in steps(),
    ) {
        let made = Made { spec: LimitSpec { count_denied: false, ..made.spec }, ..made };
        at_once(&made, beyond(start), &steps)?;
        later(&made, beyond(start), &steps)?;
    }
}
