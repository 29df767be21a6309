// The floor: what a packet must cost in an XDP rate limiter with this project's guarantees. It does what the product
// does for the commonest packets and nothing else; of the slow path for all others only what benchmarks meet is there.
//
// A rung is the program up to one stage, with all before it: -DRUNG=n. With -DSOURCES=n the source of each packet is
// drawn at random from as many. The other definitions make the floor of one configuration: DENIED, BYTES, WINDOW,
// LISTS, BANS, PORTS=n (the n-th of 64 rules matches), RULES=n (n rules that all match), LENGTHS (two prefix lengths,
// with RULES=2), NO_RULES. -DDROP is for wires: whatever is decided, the packet is dropped.

#define CLOCK 0
#define PARSE 1
#define REASON 2
#define KEY 3
#define SEARCH 4
#define CHARGE 5
#define RULE 6
#define LISTED 7
#define ALL 8

#ifndef RUNG
#define RUNG ALL
#endif
#ifndef RULES
#define RULES 1
#endif

#include "kernel.h"
#include "frame.h"
#include "limit.h"
#include "table.h"
#include "rules.h"
#include "claim.h"
#include "stages.h"
#include "charge.h"

enum { PASSED, DENIED_BY_RULE, ON_LIST = 3, BANNED = 8 };

INLINE int judge(const struct packet *packet, u64 bytes)
{
#if RUNG >= LISTED
	if (is_listed(packet->source))
		return ON_LIST;
	if (may_be_banned(packet->source))
		return BANNED;
#endif
#ifdef NO_RULES
	return PASSED;
#elif RUNG >= KEY
	return is_limited(packet, bytes) ? DENIED_BY_RULE : PASSED;
#else
	KEEP(read_clock());
	return PASSED;
#endif
}

INLINE int verdict(int reason)
{
#ifdef DROP
	return XDP_DROP;
#else
	return reason == DENIED_BY_RULE || reason == BANNED ? XDP_DROP : XDP_PASS;
#endif
}

SECTION("xdp.frags")
int least_limiter(struct xdp_md *frame)
{
	int reason = PASSED;
#if RUNG == CLOCK
	KEEP(read_clock());
#else
	struct packet packet = {};
	u64 bytes = 64;
	if (!parse(frame, &packet))
		return XDP_PASS;
#ifdef SOURCES
	packet.source = (u64)draw() * SOURCES >> 32 << 32;
#endif
	KEEP(packet.source);
#if RUNG >= ALL
	bytes = whole_length(frame);
#endif
	reason = judge(&packet, bytes);
#if RUNG >= REASON
	count_reason(reason, bytes);
#endif
#endif
	return verdict(reason);
}

char licence[] SECTION("license") = "Dual MIT/GPL";
