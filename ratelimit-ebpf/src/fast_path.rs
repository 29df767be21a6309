//! The fast path of a packet, see [`ratelimit_common::pipeline::fast_path`], over the maps.

use core::mem::MaybeUninit;

use aya_ebpf::programs::XdpContext;
use ratelimit_common::pipeline::{Evaluation, FastPath, FrameSize, StageOutcome, fast_path};

use crate::{frame::XdpFrame, globals::globals, program::Program};

/// Judges a packet, unless it has to take the slow path: then what was found of it is in `evaluation`. No calls, since
/// one takes as long as a third of all this.
#[inline(always)]
pub fn judge(ctx: &XdpContext, size: FrameSize, evaluation: &mut MaybeUninit<Evaluation>) -> StageOutcome {
    // Frames that stand for several packets take the slow path.
    let bytes = size.0;
    let source = XdpFrame::<false>::of_length(ctx, bytes);
    let outcome = match globals().fast_path {
        SIMPLE => fast_path::judge_simple(Program, &source, evaluation),
        ANY => fast_path::judge(Program, &XdpFrame::<true>::of_length(ctx, bytes), evaluation),
        PORTS => fast_path::judge_ports(Program, &XdpFrame::<true>::of_length(ctx, bytes), evaluation),
        SOURCES => fast_path::judge_source(Program, &source, evaluation),
        _ => StageOutcome::UNUSUAL,
    };
    if outcome == StageOutcome::UNUSUAL {
        evaluation.write(Evaluation::of_size(size));
    }
    outcome
}

const SIMPLE: u32 = FastPath::Simple as u32;
const ANY: u32 = FastPath::Any as u32;
const SOURCES: u32 = FastPath::Sources as u32;
const PORTS: u32 = FastPath::Ports as u32;
