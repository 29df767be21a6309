// The table: an array of sets of eight slots, each a key and a state. The state is the lock: it is exchanged only for
// what was seen, together with the key, before; a slot that is being taken is BUSY.

#define SETS 131072
#define SLOTS 8
#define SECOND (1ull << 52)

struct slot {
	u64 key, state;
};

struct set {
	struct slot slots[SLOTS];
} __attribute__((aligned(128)));

MAP(buckets, ARRAY, SETS, struct set, MMAPABLE);

struct key {
	u64 number, word;
};

// A keyed permutation: the low bits pick the set, the others are kept.
INLINE struct key key_of(u64 identity, u64 whiten, u64 tag)
{
	u64 number = identity ^ whiten;
	number *= 0x9c6e6877736c46e3ull;
	number ^= number >> 32;
	number *= 0xd1b54a32d192ed03ull;
	number ^= number >> 32;
	return (struct key){ number, tag | number >> 12 };
}

INLINE struct set *set_of(u64 number)
{
	u32 index = number & (SETS - 1);
	return look_up(&buckets, &index);
}

INLINE u64 second_of(struct key key)
{
	return key.number ^ ((key.word * 0x9e3779b97f4a7c15ull >> 32) | 1);
}

// Where the slot of a key lies in its set, in bytes; of no slot, beyond the set. To the verifier it is one of eight
// whatever was compared, so that what follows is verified once.
INLINE u64 find(const struct set *set, u64 word)
{
#pragma unroll
	for (u64 index = 0; index < SLOTS; index++) {
		u64 seen = read_once(&set->slots[index].key);
		if (seen == word)
			return (index * sizeof(struct slot) ^ hidden(seen) ^ word) & (sizeof(struct set) - sizeof(struct slot));
	}
	return sizeof(struct set);
}

INLINE struct slot *slot_at(struct set *set, u64 offset)
{
	return (void *)set + (hidden(offset) & (sizeof(struct set) - sizeof(struct slot)));
}

INLINE int exchange(u64 *word, u64 before, u64 after)
{
	return __sync_val_compare_and_swap(word, before, after) == before;
}

enum { ALLOWED, LIMITED, AGAIN };

// Charges a slot if it is still that of the key, and nobody else is at it.
INLINE int charge_slot(struct slot *slot, u64 word, const struct rule *rule, u64 now, u64 cost)
{
	u64 before = read_once(&slot->state), after;
	if (read_once(&slot->key) != word || before == BUSY)
		return AGAIN;
	if (!charge(rule, before, now, cost, &after))
		return LIMITED;
	return exchange(&slot->state, before, after) ? ALLOWED : AGAIN;
}

// The slot that has been idle for longest, or is soonest fresh, as (state, place) in one word: the least of both sets.
INLINE u64 least(const struct set *set, u64 best, u64 from)
{
#pragma unroll
	for (u64 index = 0; index < SLOTS; index++) {
		u64 state = read_once(&set->slots[index].state) >> 1 & ~15ull;
		s64 less = (state | from | index) - best;
		best += less & less >> 63;
	}
	return best;
}
