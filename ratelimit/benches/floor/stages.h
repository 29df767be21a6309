// What a packet meets besides its buckets: lists, bans, the tables of rules, counters, samples.

struct count {
	u64 packets, bytes;
};

struct reason_count {
	struct count count;
	u64 next_sample;
};

struct rule_count {
	struct count passed, dropped;
};

MAP(reasons, PER_CPU_ARRAY, 10, struct reason_count, NO_FLAGS);
MAP(rule_counts, PER_CPU_ARRAY, 512, struct rule_count, NO_FLAGS);
MAP(ban_lengths, ARRAY, 1, u64, MMAPABLE);

INLINE void add(struct count *count, u64 bytes)
{
	count->packets++;
	count->bytes += bytes;
}

INLINE void count_rule(u32 number, int is_limited, u64 bytes)
{
	struct rule_count *counts = look_up(&rule_counts, &number);
	if (counts)
		add(is_limited ? &counts->dropped : &counts->passed, bytes);
}

APART int sample(u32 reason)
{
	struct reason_count *counts = look_up(&reasons, &reason);
	if (counts)
		counts->next_sample = counts->count.packets + 256 + (draw() & 255);
	return 0;
}

INLINE void count_reason(u32 reason, u64 bytes)
{
	struct reason_count *counts = look_up(&reasons, &reason);
	if (!counts)
		return;
	add(&counts->count, bytes);
#if RUNG >= ALL
	if (counts->count.packets >= counts->next_sample)
		sample(reason);
#endif
}

#ifdef LISTS
// A bit for each /24 of IPv4: no list of prefixes can be looked up in fewer steps than one.
MAP(listed, ARRAY, 1 << 18, u64, MMAPABLE);

INLINE int is_listed(u64 source)
{
	u32 index = source >> 46;
	u64 *word = look_up(&listed, &index);
	return word && *word >> (source >> 40 & 63) & 1;
}
#else
const volatile u64 list_root = 0;

INLINE int is_listed(u64 source)
{
	return list_root != 0;
}
#endif

#ifdef BANS
MAP(bans, ARRAY, 16384, struct set, MMAPABLE);

INLINE struct set *bans_of(u64 number)
{
	u32 index = number & 16383;
	return look_up(&bans, &index);
}

// One length that has bans, and none of this source: neither of its two sets has it.
APART int is_banned(u64 source)
{
	struct key key = key_of(source, 0x510e527fade682d1ull, 65ull << 53);
	struct set *first = bans_of(key.number), *second = bans_of(second_of(key));
	if (!first || !second)
		return 0;
	u64 offset = find(first, key.word);
	if (offset < sizeof(struct set))
		return slot_at(first, offset)->state > TICKS(read_clock());
	offset = find(second, key.word | SECOND);
	return offset < sizeof(struct set) && slot_at(second, offset)->state > TICKS(read_clock());
}
#endif

INLINE int may_be_banned(u64 source)
{
	u32 zero = 0;
	u64 *lengths = look_up(&ban_lengths, &zero);
#ifdef BANS
	// The runner sets no length: as it is, the word is one that has to be read first.
	return lengths && (*lengths | BANS) && is_banned(source);
#else
	return lengths && *lengths != 0;
#endif
}

#ifdef PORTS
MAP(ports, ARRAY, 65538, u64, MMAPABLE);

// The rules that match, as bits: those of the port's row.
INLINE u64 matching(const struct packet *packet)
{
	u32 row = packet->port;
	u64 *rules = look_up(&ports, &row);
	// The runner fills no rows: as it is, each is one that has to be read first.
	return rules ? *rules | 1ull << (PORTS - 1) : 0;
}
#endif
