// What a BPF program needs of the kernel, so that no header has to be installed: types, helpers, maps.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long s64;

struct xdp_md {
	u32 data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex;
};

enum { XDP_DROP = 1, XDP_PASS = 2 };

static void *(*const look_up)(void *map, const u32 *index) = (void *)1;
static u64 (*const read_clock)(void) = (void *)5;
static u32 (*const draw)(void) = (void *)7;
static u64 (*const whole_length)(struct xdp_md *frame) = (void *)188;

#define SECTION(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
// Verified once, whatever calls it: takes and returns plain numbers.
#define APART __attribute__((noinline))

enum { ARRAY = 2, PER_CPU_ARRAY = 6 };
enum { NO_FLAGS = 0, MMAPABLE = 1 << 10 };

#define MAP(name, kind, count, entry, flags)                                                                     \
	struct {                                                                                                 \
		int (*type)[kind];                                                                               \
		int (*max_entries)[count];                                                                       \
		int (*map_flags)[flags];                                                                         \
		u32 *key;                                                                                        \
		entry *value;                                                                                    \
	} name SECTION(".maps")

// The same number, of which the compiler knows nothing any more.
INLINE u64 hidden(u64 number)
{
	asm volatile("" : "+r"(number));
	return number;
}

// Makes the compiler compute it, though nothing needs it on a low rung.
#define KEEP(number) asm volatile("" : : "r"(number))

INLINE u64 read_once(const u64 *word)
{
	return *(const volatile u64 *)word;
}

#define FROM_NETWORK_16(number) __builtin_bswap16(number)
#define FROM_NETWORK_32(number) __builtin_bswap32(number)
#define FROM_NETWORK_64(number) __builtin_bswap64(number)
