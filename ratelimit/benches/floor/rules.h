// The rules' constants, frozen like the product's: the verifier knows their values, the compiler does not.

#define R(number)                                                                                                \
	{ (number##ull) << 54, 0x428a2f98d728ae22ull ^ (number##ull) * 0xd6e8feb86659fd93ull, ~0ull, ~0ull, EACH, \
	  CAPACITY }
#define EIGHT R(1), R(2), R(3), R(4), R(5), R(6), R(7), R(8)

#ifdef LENGTHS
#undef EIGHT
#define EIGHT R(1), { 2ull << 54, 0x7137449123ef65cdull, ~0ull << 40, ~0ull << 16, EACH, CAPACITY }
#endif

#define MOST_RULES 64

const volatile struct rule rules[MOST_RULES] = { EIGHT, [MOST_RULES - 1] = R(9) };

INLINE const struct rule *rule_at(u64 index)
{
	const struct rule *rule = (const struct rule *)&rules[index & (MOST_RULES - 1)];
	asm volatile("" : "+r"(rule));
	return rule;
}

INLINE struct key key_for(const struct rule *rule, const struct packet *packet)
{
	u64 identity = packet->source;
#ifdef LENGTHS
	identity &= packet->is_v6 ? rule->mask_v6 : rule->mask_v4;
#else
	if (packet->is_v6)
		identity &= rule->mask_v6;
#endif
	return key_of(identity, rule->whiten, rule->tag | packet->is_v6 << 53);
}
