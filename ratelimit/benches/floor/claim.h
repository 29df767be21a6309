// The slow path of a key that is not in its first set, or that another processor is at: in its second set, or in a slot
// that it takes from another key.

// Takes a slot: BUSY first, so that nobody charges it; then the key; the search tells whether another processor has
// taken one for the same key meanwhile; then the state.
INLINE int take(struct set *sets[2], u64 place, const u64 words[2], const struct rule *rule, u64 now, u64 cost)
{
	u64 which = place >> 3 & 1, after;
	struct slot *slot = slot_at(which ? sets[1] : sets[0], place * sizeof(struct slot));
	u64 before = read_once(&slot->state), word = which ? words[1] : words[0];
	if (before == BUSY || !exchange(&slot->state, before, BUSY))
		return AGAIN;
	*(volatile u64 *)&slot->key = 0;
	if (find(sets[0], words[0]) < sizeof(struct set) || find(sets[1], words[1]) < sizeof(struct set)) {
		*(volatile u64 *)&slot->state = 0;
		return AGAIN;
	}
	int is_allowed = charge(rule, fresh(rule, now), now, cost, &after);
	*(volatile u64 *)&slot->key = word;
	*(volatile u64 *)&slot->state = is_allowed ? after : now;
	return is_allowed ? ALLOWED : LIMITED;
}

APART int claim(u64 number, u64 word, u64 rule_index, u64 now, u64 cost)
{
	const struct rule *rule = rule_at(rule_index);
	const struct key key = { number, word };
	const u64 words[2] = { word, word | SECOND };
	struct set *sets[2] = { set_of(number), set_of(second_of(key)) };
	if (!sets[0] || !sets[1])
		return ALLOWED;
	u64 offset = find(sets[0], words[0]);
	if (offset < sizeof(struct set))
		return charge_slot(slot_at(sets[0], offset), words[0], rule, now, cost);
	offset = find(sets[1], words[1]);
	if (offset < sizeof(struct set))
		return charge_slot(slot_at(sets[1], offset), words[1], rule, now, cost);
	u64 place = least(sets[1], least(sets[0], ~0ull >> 1, 0), SLOTS);
	return take(sets, place, words, rule, now, cost);
}

#define TRIES 8

// Out of tries means denied.
APART int go_the_long_way(u64 number, u64 word, u64 rule_index, u64 now, u64 cost)
{
#pragma nounroll
	for (int tries = 0; tries < TRIES; tries++) {
		int answer = claim(number, word, rule_index, now, cost);
		if (answer != AGAIN)
			return answer == LIMITED;
	}
	return LIMITED;
}
