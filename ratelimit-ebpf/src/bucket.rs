//! Tries at a rule's bucket, as functions of their own: see [`ratelimit_common::pipeline::bucket`].

use ratelimit_common::pipeline::{
    Subject,
    bucket::{self, Answer, Try},
};

use crate::{program::Program, table::Buckets, verified::verified_once};

/// One try.
#[inline(always)]
pub fn attempt(what: Try, subject: &Subject, index: u64) -> Answer {
    match what {
        Try::Charge => try_charge(subject, index),
        Try::ChargeKnown => try_charge_known(subject, index),
        Try::Ask => try_ask(subject, index),
        Try::GiveBack => try_undo(subject, index),
    }
}

verified_once! {
    fn try_charge(subject: &Subject, index: u64) -> Answer {
        bucket::attempt(Program, &Buckets(index), Try::Charge, subject, index)
    } else Answer::DISTURBED;
}

verified_once! {
    fn try_charge_known(subject: &Subject, index: u64) -> Answer {
        bucket::attempt(Program, &Buckets(index), Try::ChargeKnown, subject, index)
    } else Answer::DISTURBED;
}

verified_once! {
    fn try_ask(subject: &Subject, index: u64) -> Answer {
        bucket::attempt(Program, &Buckets(index), Try::Ask, subject, index)
    } else Answer::DISTURBED;
}

verified_once! {
    fn try_undo(subject: &Subject, index: u64) -> Answer {
        bucket::attempt(Program, &Buckets(index), Try::GiveBack, subject, index)
    } else Answer::DISTURBED;
}
