//! The short way of a packet, see [`ratelimit_common::pipeline::short`], over the maps.

use core::mem::MaybeUninit;

use aya_ebpf::{bindings::xdp_md, programs::XdpContext};
use ratelimit_common::pipeline::{Found, Outcome, Size, Subject, Way, short};

use crate::{frame::XdpFrame, globals::globals, program::Program, verified::verified_once};

/// Judges a packet, unless it has to go the long way: then what was found of it is in `found`.
#[inline(always)]
pub fn judge(ctx: &XdpContext, size: Size, found: &mut MaybeUninit<Found>) -> Outcome {
    let bytes = size.bytes();
    if globals().way == SIMPLE_BY_ARRIVAL {
        // No call, since that takes as long as a third of all this. There is no stack for more of them.
        let frame = XdpFrame::<false>::of_length(ctx, bytes);
        let outcome = short::judge_simple::<true, _, _>(Program, &frame, |_, _| Outcome::UNUSUAL);
        if outcome == Outcome::UNUSUAL {
            found.write(Found::of_size(size));
        }
        return outcome;
    }
    let found = found.write(Found::of_size(size));
    match globals().way {
        SIMPLE => judge_simple(ctx.ctx, found, bytes),
        ANY_BY_ARRIVAL => judge_by_arrival(ctx.ctx, found, bytes),
        ANY => judge_any(ctx.ctx, found, bytes),
        _ => Outcome::UNUSUAL,
    }
}

const SIMPLE_BY_ARRIVAL: u32 = Way::SimpleByArrival as u32;
const SIMPLE: u32 = Way::Simple as u32;
const ANY_BY_ARRIVAL: u32 = Way::AnyByArrival as u32;
const ANY: u32 = Way::Any as u32;

/// Notes a packet that the rules have to be asked about.
#[inline(always)]
fn note(found: &mut Found) -> impl FnOnce(Subject, u64) -> Outcome {
    |subject, left| {
        (found.subject, found.left) = (subject, left);
        Outcome::ask_rules(0)
    }
}

verified_once! {
    fn judge_simple(context: *mut xdp_md, found: &mut Found, bytes: u64) -> Outcome {
        let frame = XdpFrame::<false>::of_length(&XdpContext::new(context), bytes);
        short::judge_simple::<false, _, _>(Program, &frame, note(found))
    } else Outcome::UNUSUAL;
}

verified_once! {
    fn judge_by_arrival(context: *mut xdp_md, found: &mut Found, bytes: u64) -> Outcome {
        let frame = XdpFrame::<true>::of_length(&XdpContext::new(context), bytes);
        short::judge::<true, _, _>(Program, &frame, note(found))
    } else Outcome::UNUSUAL;
}

verified_once! {
    fn judge_any(context: *mut xdp_md, found: &mut Found, bytes: u64) -> Outcome {
        let frame = XdpFrame::<true>::of_length(&XdpContext::new(context), bytes);
        short::judge::<false, _, _>(Program, &frame, note(found))
    } else Outcome::UNUSUAL;
}
