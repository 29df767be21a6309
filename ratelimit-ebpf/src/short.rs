//! The short way of a packet, see [`ratelimit_common::pipeline::short`], over the maps.

use core::mem::MaybeUninit;

use aya_ebpf::programs::XdpContext;
use ratelimit_common::pipeline::{Found, Outcome, Size, Way, short};

use crate::{frame::XdpFrame, globals::globals, program::Program};

/// Judges a packet, unless it has to go the long way: then what was found of it is in `found`. No calls, since one takes as
/// long as a third of all this.
#[inline(always)]
pub fn judge(ctx: &XdpContext, size: Size, found: &mut MaybeUninit<Found>) -> Outcome {
    // Frames that stand for several packets go the long way.
    let bytes = size.0;
    let outcome = match globals().way {
        SIMPLE => short::judge_simple(Program, &XdpFrame::<false>::of_length(ctx, bytes), found),
        ANY => short::judge(Program, &XdpFrame::<true>::of_length(ctx, bytes), found),
        _ => Outcome::UNUSUAL,
    };
    if outcome == Outcome::UNUSUAL {
        found.write(Found::of_size(size));
    }
    outcome
}

const SIMPLE: u32 = Way::Simple as u32;
const ANY: u32 = Way::Any as u32;
