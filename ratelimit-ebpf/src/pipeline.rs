//! The stages of a packet, in their order: trial, parse, lists, bans, neighbour discovery, classify, rules.

use aya_ebpf::{bindings::xdp_md, programs::XdpContext};
use ratelimit_common::{
    classify::{matching, matching_source},
    lists::Listed,
    packet::{self, Address, Flag, Link, Packet},
    wire::Reason,
};

use crate::{
    bans, bench,
    bucket::Subject,
    classify::Maps,
    dry_run,
    frame::{self, XdpFrame},
    globals::globals,
    lists, routes, rules,
    size::Size,
    trial,
};

/// What is known of a packet. In one place, because the kernel has little stack.
#[repr(C)]
pub struct Found {
    subject: Subject,
    /// The bits of the rules that match; once it is judged, of those that denied it, whether they drop or observe.
    rules: u64,
}

impl Found {
    /// Nothing.
    pub const NOTHING: Self = Self { subject: Subject::EMPTY, rules: 0 };

    /// How large it is.
    #[inline(always)]
    pub fn size(&self) -> Size {
        self.subject.size
    }

    /// The bits of the rules that denied it.
    #[inline(always)]
    pub fn denied(&self) -> u64 {
        self.rules
    }
}

/// Judges a packet.
#[inline(always)]
pub fn judge(ctx: &XdpContext, found: &mut Found) -> Reason {
    found.subject.size = Size::of(ctx.ctx);
    let reads_source = globals().reads_whole == 0 && globals().link == Link::Ethernet as u32;
    // Two functions side by side, so that neither has the other's stack.
    let early = match reads_source && globals().dry_run == 0 {
        true => match examine_source(ctx.ctx, found) {
            // Whether it is asks for its destination, too.
            NEIGHBOURS => examine(ctx.ctx, found),
            early => early,
        },
        false => examine(ctx.ctx, found),
    };
    match Reason::of(early) {
        Some(reason) => reason,
        None => match rules::denying(&mut found.subject, &mut found.rules) {
            rules::NONE if early == WHOLE_HEADERS => Reason::Passed,
            rules::NONE if globals().drop_malformed == 0 => Reason::Malformed,
            rules::NONE => Reason::MalformedDropped,
            rule => {
                bans::after_denial(&found.subject, rule);
                Reason::Limited
            }
        },
    }
}

const NEIGHBOURS: u64 = Reason::NeighbourDiscovery as u64;

/// No reason yet, and no broken header; one less if there is one.
const WHOLE_HEADERS: u64 = u64::MAX;

// All stages before the rules. Functions of their own, so that the rules have their stack; and with symbols, so that what
// comes after them is not verified again for each way through them, nor for each way through the headers.

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn examine(context: *mut xdp_md, found: *mut Found) -> u64 {
    // SAFETY: the caller's, or null, which it never is.
    let Some(found) = (unsafe { found.as_mut() }) else { return Reason::NotIp as u64 };
    if trial::has_failed() {
        return Reason::Reverted as u64;
    }
    let mut packet = Packet::EMPTY;
    match frame::parse_whole(context, &mut packet) {
        Ok(()) => {
            // What goes through this host to somebody else is no neighbour's word to it: who is over a limit could send
            // any number of such packets to anybody.
            if packet.is_neighbour_discovery != 0 && globals().dry_run == 0 {
                packet.is_neighbour_discovery = Flag::from(routes::forwards(context, &packet) == 0);
            }
            examine_packet(&packet, found)
        }
        Err(hides) => {
            dry_run::note_not_ip(&packet);
            Reason::of_not_ip(hides) as u64
        }
    }
}

/// Of a packet of which nobody wants more than the source.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn examine_source(context: *mut xdp_md, found: *mut Found) -> u64 {
    // SAFETY: as above.
    let Some(found) = (unsafe { found.as_mut() }) else { return Reason::NotIp as u64 };
    if trial::has_failed() {
        return Reason::Reverted as u64;
    }
    let bytes = found.subject.size.bytes();
    match packet::parse(&XdpFrame::<false>::new(&XdpContext::new(context))) {
        Ok(packet) => examine_parsed(&packet, found, || match packet.source {
            _ if globals().classifies == 0 => globals().rules,
            Address { bits: [high, low], family } => classify_source(high, low, family, bytes),
        }),
        Err(not_ip) => Reason::of_not_ip(not_ip.hides) as u64,
    }
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn examine_packet(packet: *const Packet, found: *mut Found) -> u64 {
    // SAFETY: the caller's, or null, which they never are.
    match unsafe { (packet.as_ref(), found.as_mut()) } {
        (Some(packet), Some(found)) => {
            let bytes = found.subject.size.bytes();
            examine_parsed(packet, found, || match globals().classifies {
                0 => globals().rules,
                _ => classify(packet, bytes),
            })
        }
        _ => Reason::NotIp as u64,
    }
}

#[inline(always)]
fn examine_parsed(packet: &Packet, found: &mut Found, matching: impl Fn() -> u64) -> u64 {
    if globals().dry_run != 0 {
        dry_run::note_packet(packet, matching());
    }
    let source = Address { bits: bench::source(packet.source.bits), family: packet.source.family };
    match lists::find(&source) {
        Listed::Allowed => return Reason::Allowed as u64,
        Listed::Denied => return Reason::Denied as u64,
        Listed::No if bans::contains(&source) => return Reason::Banned as u64,
        Listed::No => {}
    }
    // A flood must not cut the host off its own link.
    if packet.is_neighbour_discovery != 0 {
        return NEIGHBOURS;
    }
    found.rules = matching();
    found.subject.describe(packet);
    WHOLE_HEADERS - packet.malformed
}

// The bits of the rules that it matches. Of their own, because the keys of the tries need stack.

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn classify(packet: *const Packet, bytes: u64) -> u64 {
    // SAFETY: as above.
    unsafe { packet.as_ref() }.map_or(0, |packet| matching(&Maps, packet, bytes))
}

/// Of rules that ask for nothing but the source and the length.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn classify_source(high: u64, low: u64, family: u64, bytes: u64) -> u64 {
    matching_source(&Maps, &Address { bits: [high, low], family }, bytes)
}
