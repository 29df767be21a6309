//! The XDP program. It drops packets above their rules' rates, per source, before the kernel spends anything on them.
//!
//! Each stage is a file: [`pipeline`] puts them in order and gives a reason, the exit below counts it and makes it the
//! verdict. There is no other exit, so the counters add up to all packets seen.
#![no_std]
#![expect(missing_docs, reason = "the macro makes a function of its own beside the documented one")]
#![no_main]
#![feature(asm_experimental_arch)]

mod bans;
mod bench;
mod bucket;
mod classify;
mod clock;
mod dry_run;
mod fast_path;
mod frame;
mod globals;
mod lists;
mod look_up;
mod loops;
mod meta;
mod pipeline;
mod program;
mod routes;
mod sampling;
mod size;
mod sketch;
mod stats;
mod table;
mod trial;
mod verified;

use aya_ebpf::{
    bindings::xdp_action::{XDP_DROP, XDP_PASS},
    macros::xdp,
    programs::XdpContext,
};
use aya_log_ebpf::debug;

/// Judges one packet.
#[xdp(frags)]
#[inline(always)]
pub fn ratelimit(ctx: XdpContext) -> u32 {
    let size = size::of(ctx.ctx);
    let (reason, outcome) = pipeline::judge(&ctx, size);
    let is_sample = stats::count(reason, size);
    sampling::sample(&ctx, outcome, size, is_sample);
    dry_run::note_reason(reason);
    debug!(&ctx, "{} bytes: {}", size.bytes(), reason.name());
    // Without a branch.
    XDP_PASS - (XDP_PASS - XDP_DROP) * u32::from(reason.is_drop())
}

#[panic_handler]
fn panic(_info: &core::panic::PanicInfo<'_>) -> ! {
    // Never reached: the verifier refuses a program that could come here and not end.
    loop {}
}

#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
