//! Tries at a rule's bucket, as functions of their own: see [`ratelimit_common::pipeline::bucket`].

use ratelimit_common::pipeline::{
    PacketContext,
    bucket::{self, BucketOp, BucketResult},
};

use crate::{program::Program, table::BucketMap, verified::verified_once};

/// One try.
#[inline(always)]
pub fn attempt(what: BucketOp, context: &PacketContext, index: u64) -> BucketResult {
    match what {
        BucketOp::Charge => try_charge(context, index),
        BucketOp::ChargeKnown => try_charge_known(context, index),
        BucketOp::Ask => try_ask(context, index),
        BucketOp::GiveBack => try_undo(context, index),
    }
}

verified_once! {
    fn try_charge(context: &PacketContext, index: u64) -> BucketResult {
        bucket::attempt(Program, &BucketMap(index), BucketOp::Charge, context, index)
    } else BucketResult::DISTURBED;
}

verified_once! {
    fn try_charge_known(context: &PacketContext, index: u64) -> BucketResult {
        bucket::attempt(Program, &BucketMap(index), BucketOp::ChargeKnown, context, index)
    } else BucketResult::DISTURBED;
}

verified_once! {
    fn try_ask(context: &PacketContext, index: u64) -> BucketResult {
        bucket::attempt(Program, &BucketMap(index), BucketOp::Ask, context, index)
    } else BucketResult::DISTURBED;
}

verified_once! {
    fn try_undo(context: &PacketContext, index: u64) -> BucketResult {
        bucket::attempt(Program, &BucketMap(index), BucketOp::GiveBack, context, index)
    } else BucketResult::DISTURBED;
}
