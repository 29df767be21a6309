// The traffic: gives each packet a source, and of a mix a size and a port too, and puts it on a wire. -DMIX: of twelve
// packets seven have 64 bytes, four 594, one 1,514.
#include "kernel.h"

// From how many sources packets come, at most 65,536, and the wire: set before it is loaded.
const volatile u32 sources = 1;
const volatile u32 interface = 0;

static long (*const redirect)(u32 to, u64 flags) = (void *)23;
static long (*const adjust_tail)(struct xdp_md *frame, int by) = (void *)65;

enum { LENGTH = 16, CHECKSUM = 24, SOURCE_END = 28, SOURCE_PORT = 34, UDP_LENGTH = 38, HEADERS = 42 };

// As the frame comes.
#define LARGEST 1514

INLINE u16 *word_at(u8 *packet, int offset)
{
	return (u16 *)(packet + offset);
}

INLINE int size_of(u32 random)
{
	u32 kind = (u64)random * 12 >> 32;
	return kind < 7 ? 64 : kind < 11 ? 594 : LARGEST;
}

INLINE void write_checksum(u8 *packet)
{
	u32 sum = 0;
	*word_at(packet, CHECKSUM) = 0;
#pragma unroll
	for (int offset = 14; offset < 34; offset += 2)
		sum += *word_at(packet, offset);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	*word_at(packet, CHECKSUM) = ~sum;
}

SECTION("xdp")
int sender(struct xdp_md *frame)
{
	u32 random = draw();
#ifdef MIX
	int size = size_of(draw());
	if (adjust_tail(frame, size - LARGEST))
		return XDP_DROP;
#endif
	u8 *packet = (u8 *)(u64)frame->data;
	if (packet + HEADERS > (u8 *)(u64)frame->data_end)
		return XDP_DROP;
#ifdef MIX
	*word_at(packet, LENGTH) = FROM_NETWORK_16(size - 14);
	*word_at(packet, UDP_LENGTH) = FROM_NETWORK_16(size - 34);
	*word_at(packet, SOURCE_PORT) = random;
#endif
	*word_at(packet, SOURCE_END) = FROM_NETWORK_16((u64)random * sources >> 32);
	write_checksum(packet);
	return redirect(interface, 0);
}

char licence[] SECTION("license") = "Dual MIT/GPL";
