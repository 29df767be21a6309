// Parsing: up to two VLAN tags, the source address, and the destination port where rules ask for it. Whatever is out of
// the ordinary (options, extension headers, fragments) is left out: it would take no time of those that have none.

struct packet {
	u64 source;
	u64 is_v6;
	u64 port;
};

enum { ETHERNET = 14, TAG = 4, IPV4 = 20, IPV6 = 40, TCP = 6, UDP = 17 };

INLINE int is_tag(u16 kind)
{
	return kind == FROM_NETWORK_16(0x8100) || kind == FROM_NETWORK_16(0x88a8);
}

INLINE int has_ports(u8 protocol)
{
	return protocol == UDP || protocol == TCP;
}

INLINE int read_v4(const u8 *at, const u8 *end, struct packet *packet)
{
	if (at + IPV4 > end || at[0] != 0x45)
		return 0;
	u64 length = FROM_NETWORK_16(*(const u16 *)(at + 2));
	if (length < IPV4 + 8)
		return 0;
#ifdef PORTS
	int is_fragment = *(const u16 *)(at + 6) & FROM_NETWORK_16(0x3fff);
	if (is_fragment || !has_ports(at[9]) || at + IPV4 + 4 > end)
		return 0;
	packet->port = FROM_NETWORK_16(*(const u16 *)(at + IPV4 + 2));
#endif
	packet->source = (u64)FROM_NETWORK_32(*(const u32 *)(at + 12)) << 32;
	packet->is_v6 = 0;
	return 1;
}

INLINE int read_v6(const u8 *at, const u8 *end, struct packet *packet)
{
	if (at + IPV6 > end || at[0] >> 4 != 6 || !has_ports(at[6]))
		return 0;
#ifdef PORTS
	if (at + IPV6 + 4 > end)
		return 0;
	packet->port = FROM_NETWORK_16(*(const u16 *)(at + IPV6 + 2));
#endif
	packet->source = FROM_NETWORK_64(*(const u64 *)(at + 8));
	packet->is_v6 = 1;
	return 1;
}

INLINE int parse(struct xdp_md *frame, struct packet *packet)
{
	const u8 *at = (const u8 *)(u64)frame->data, *end = (const u8 *)(u64)frame->data_end;
	if (at + ETHERNET > end)
		return 0;
	u16 kind = *(const u16 *)(at + 12);
	at += ETHERNET;
#pragma unroll
	for (int tag = 0; tag < 2 && is_tag(kind); tag++) {
		if (at + TAG > end)
			return 0;
		kind = *(const u16 *)(at + 2);
		at += TAG;
	}
	if (kind == FROM_NETWORK_16(0x0800))
		return read_v4(at, end, packet);
	return kind == FROM_NETWORK_16(0x86dd) && read_v6(at, end, packet);
}
