// Limits: what a state and a packet come to. One unit of time is 1/128 ns.

#define TICKS(nanoseconds) ((u64)(nanoseconds) << 7)
#define BUSY (~0ull << 7)

struct rule {
	u64 tag;      // the high bits of the key's word
	u64 whiten;   // what the identity is mixed with
	u64 mask_v4;  // the bits of a source that make the identity
	u64 mask_v6;
	u64 each;     // ticks that one packet or one byte takes
	u64 capacity; // ticks that can be taken at once; of a window, how much it counts
};

#ifdef DENIED
#define EACH TICKS(86400000000000)
#define CAPACITY EACH
#else
#define EACH TICKS(10)
#define CAPACITY TICKS(1000000000)
#endif

#ifdef BYTES
#define COST(bytes) (bytes)
#else
#define COST(bytes) 1
#endif

// Until when ticks do not wrap, whatever a bucket holds: set beforehand, as it is a constant of the limit. After that
// the slow path would be taken.
#define PLAIN_UNTIL (1ull << 56)

#ifdef WINDOW
// The high bits are the window's end, the low ones the count. A state whose end lies ahead is that of the present
// window, so nothing is divided until it has ended.
#define COUNT_BITS 27
#define WINDOW_LENGTH TICKS(1000000000)

INLINE u64 fresh(const struct rule *rule, u64 now)
{
	u64 into = now % WINDOW_LENGTH;
	return (now - into + WINDOW_LENGTH + (1ull << COUNT_BITS) - 1) >> COUNT_BITS << COUNT_BITS;
}

INLINE int charge(const struct rule *rule, u64 before, u64 now, u64 cost, u64 *after)
{
	u64 low = (1ull << COUNT_BITS) - 1;
	if ((before & ~low) < now + low)
		before = fresh(rule, now);
	*after = before + cost;
	return (before & low) + cost <= rule->capacity >> 10;
}
#else
INLINE u64 fresh(const struct rule *rule, u64 now)
{
	return now;
}

// The state is when the bucket is full again (GCRA).
INLINE int charge(const struct rule *rule, u64 before, u64 now, u64 cost, u64 *after)
{
	u64 from = before > now ? before : now;
	u64 taken = cost * rule->each;
	*after = from + taken;
	return from - now <= rule->capacity - taken;
}
#endif
