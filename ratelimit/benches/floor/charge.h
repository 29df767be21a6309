// One rule, or several of which all must allow a packet before any is charged. The clock is read once the set's address
// is known, so that the set is fetched meanwhile.

INLINE u64 now_in_ticks(void)
{
	return TICKS(read_clock());
}

#if RULES == 1
// The place of a set's only bit: there is no instruction for it.
const volatile u8 places[64] = {
	0, 1, 2, 53, 3, 7, 54, 27, 4, 38, 41, 8, 34, 55, 48, 28, 62, 5, 39, 46, 44, 42, 22, 9, 24, 35, 59, 56, 49, 18, 29, 11,
	63, 52, 6, 26, 37, 40, 33, 47, 61, 45, 43, 21, 23, 58, 17, 10, 51, 25, 36, 32, 60, 20, 57, 16, 50, 31, 19, 15, 30, 14,
	13, 12,
};

INLINE u64 place_of(u64 bit)
{
	return places[bit * 0x022fdd63cc95386dull >> 58];
}

INLINE int is_limited(const struct packet *packet, u64 bytes)
{
	u64 index = 0;
#ifdef PORTS
	u64 bits = matching(packet);
	if (bits == 0 || bits & (bits - 1))
		return 0;
	index = place_of(bits);
#endif
	const struct rule *rule = rule_at(index);
	struct key key = key_for(rule, packet);
	struct set *set = set_of(key.number);
	if (!set)
		return 0;
	u64 now = now_in_ticks();
	KEEP(set);
	KEEP(key.word);
	int is_denied = 0;
#if RUNG >= SEARCH
	u64 offset = find(set, key.word);
	int answer = AGAIN;
	if (offset < sizeof(struct set)) {
		struct slot *slot = slot_at(set, offset);
		KEEP(slot);
		answer = ALLOWED;
#if RUNG >= CHARGE
		answer = now < PLAIN_UNTIL ? charge_slot(slot, key.word, rule, now, COST(bytes)) : AGAIN;
#endif
	}
	is_denied = answer == LIMITED;
	if (answer == AGAIN)
		is_denied = go_the_long_way(key.number, key.word, index, now, COST(bytes));
#endif
#if RUNG >= RULE
	count_rule(index, is_denied, bytes);
#endif
	return is_denied;
}
#else
// What was seen of a bucket, and what it becomes if all allow.
struct taken {
	u64 number, word, offset, before, after;
};

// Looks a bucket up and decides.
INLINE int prepare(u64 index, const struct packet *packet, u64 now, u64 cost, struct taken *taken)
{
	const struct rule *rule = rule_at(index);
	struct key key = key_for(rule, packet);
	struct set *set = set_of(key.number);
	if (!set)
		return AGAIN;
	u64 offset = find(set, key.word);
	if (offset == sizeof(struct set))
		return AGAIN;
	struct slot *slot = slot_at(set, offset);
	*taken = (struct taken){ key.number, key.word, offset, read_once(&slot->state), 0 };
	if (read_once(&slot->key) != key.word || taken->before == BUSY)
		return AGAIN;
	return charge(rule, taken->before, now, cost, &taken->after) ? ALLOWED : LIMITED;
}

// The slow path: a rule by itself, as it makes no difference once every bucket is there.
INLINE int charge_each(const struct packet *packet, u64 now, u64 cost)
{
	int is_denied = 0;
#pragma nounroll
	for (u64 index = 0; index < RULES; index++) {
		struct key key = key_for(rule_at(index), packet);
		is_denied |= go_the_long_way(key.number, key.word, index, now, cost);
	}
	return is_denied;
}

INLINE int is_limited(const struct packet *packet, u64 bytes)
{
	struct taken taken[RULES];
	u64 now = now_in_ticks(), index;
#pragma nounroll
	for (index = 0; index < RULES; index++) {
		int answer = prepare(index, packet, now, COST(bytes), &taken[index]);
		if (answer == AGAIN)
			return charge_each(packet, now, COST(bytes));
		if (answer == LIMITED) {
			count_rule(index, 1, bytes);
			return 1;
		}
	}
#pragma nounroll
	for (index = 0; index < RULES; index++) {
		struct set *set = set_of(taken[index].number);
		if (!set || !exchange(&slot_at(set, taken[index].offset)->state, taken[index].before, taken[index].after))
			return charge_each(packet, now, COST(bytes));
		count_rule(index, 0, bytes);
	}
	return 0;
}
#endif
