//! Banned sources: looked up for each packet, and made by rules whose sources go on exceeding them.

use core::{arch::asm, ptr};

use aya_ebpf::{
    bindings::{BPF_F_MMAPABLE, BPF_F_NO_PREALLOC},
    macros::map,
    maps::{Array, HashMap},
};
use ratelimit_common::{
    bans::{self, BanPrefix, BanRecord, BanRequest, BanTable, Lengths},
    limit::Limit,
    packet::Address,
    pipeline::PacketContext,
    table::{self, Home, Key, Position, SLOTS, Tag},
    time::{Nanos, Now},
    verifier::opaque,
    wire::SetWords,
};

use crate::{
    clock,
    globals::{self, globals},
    look_up::{FIRST, look_up},
    loops, stats,
    table::MapSet,
    verified::verified_once,
};

#[map]
static BANS: Array<SetWords> = Array::with_max_entries(bans::SETS, BPF_F_MMAPABLE);

/// The first 64 bits of prefixes that have more, for those who list them.
#[map]
static BAN_PREFIXES: Array<[u64; SLOTS]> = Array::with_max_entries(bans::SETS, BPF_F_MMAPABLE);

/// What is known of the ban of each slot.
#[map]
static BAN_RECORDS: Array<[BanRecord; SLOTS]> = Array::with_max_entries(bans::SETS, BPF_F_MMAPABLE);

/// What people have said of bans, by their slots. The program does not read it.
#[map]
static BAN_TEXTS: HashMap<u32, [u8; bans::TEXT_BYTES]> =
    HashMap::with_max_entries(bans::SETS * SLOTS as u32, BPF_F_NO_PREALLOC);

#[map]
static BAN_LENGTHS: Array<Lengths> = Array::with_max_entries(1, BPF_F_MMAPABLE);

/// The table. With the first 64 bits of the prefix that a new slot is for, and the record of its ban.
struct BanMap {
    high: u64,
    first: BanRecord,
}

/// The table, to look at.
const BANS_THAT_ARE: BanMap =
    BanMap { high: 0, first: BanRecord { state: 0, made: 0, maker: 0, multiple: 0 } };

#[inline(always)]
fn set(number: u64) -> Option<MapSet> {
    // SAFETY: a value of the map.
    BANS.get_ptr_mut(number as u32 % bans::SETS).map(|words| unsafe { MapSet::new(words) })
}

/// Two sets by their numbers; the stamp carries these along.
#[inline(always)]
fn home(first: u64, second: u64) -> Option<Home<MapSet>> {
    let stamp = first << 32 | second & 0xffff_ffff;
    Some(Home { first: set(first)?, second: set(second)?, stamp })
}

impl table::Table for BanMap {
    type Set = MapSet;

    #[inline(always)]
    fn home(&self, key: &Key) -> Option<Home<MapSet>> {
        home(key.first(), key.second())
    }

    /// All are alike, so that the one which ends soonest gives way.
    #[inline(always)]
    fn limit(&self, _tag: Tag) -> Option<&Limit> {
        None
    }

    #[inline(always)]
    fn on_place(&self, home: &Home<MapSet>, place: Position) {
        let (set, index) = slot_of(home, place);
        if let Some(prefixes) = BAN_PREFIXES.get_ptr_mut(set) {
            // SAFETY: the index is inside, and the slot is being taken by this processor alone.
            unsafe { prefixes.cast::<u64>().add(index).write_volatile(self.high) };
        }
        self.note(home, place, &self.first);
    }

    #[inline(always)]
    fn nearest_to_fresh(&self, home: &Home<MapSet>, now: Now) -> Option<Position> {
        soonest_to_end(home.stamp, now.0.0)
    }

    #[inline(always)]
    fn is_elsewhere(&self, home: &Home<MapSet>, word: u64, mine: Position) -> bool {
        is_ban_elsewhere(home.stamp, word, mine.rank() as u64)
    }

    #[inline(always)]
    fn on_live_eviction(&self) {
        stats::count_table(|counters| counters.bans_replaced += 1);
    }
}

impl BanTable for BanMap {
    #[inline(always)]
    fn record(&self, home: &Home<MapSet>, place: Position) -> BanRecord {
        match record_at(home, place) {
            // SAFETY: a value of the map, of which any bytes are one.
            Some(record) => unsafe { record.read() },
            None => BANS_THAT_ARE.first,
        }
    }

    #[inline(always)]
    fn note(&self, home: &Home<MapSet>, place: Position, record: &BanRecord) {
        if let Some(there) = record_at(home, place) {
            // SAFETY: as above, and the slot is busy by this processor alone.
            unsafe { there.write(*record) };
        }
    }
}

/// The number of a slot's set, and which of its slots it is.
#[inline(always)]
fn slot_of(home: &Home<MapSet>, place: Position) -> (u32, usize) {
    let rank = place.rank();
    let set = if rank < SLOTS { home.stamp >> 32 } else { home.stamp };
    (set as u32 % bans::SETS, opaque(rank as u64) as usize % SLOTS)
}

#[inline(always)]
fn record_at(home: &Home<MapSet>, place: Position) -> Option<*mut BanRecord> {
    let (set, index) = slot_of(home, place);
    // SAFETY: the index is inside.
    BAN_RECORDS.get_ptr_mut(set).map(|records| unsafe { records.cast::<BanRecord>().add(index) })
}

verified_once! {
    fn soonest_to_end(stamp: u64, now: u64) -> Option<Position> {
        let home = home(stamp >> 32, stamp)?;
        table::nearest_to_fresh(&BANS_THAT_ARE, &home, Now(Nanos(now)))
    } else None;
}

verified_once! {
    fn is_ban_elsewhere(stamp: u64, word: u64, rank: u64) -> bool {
        let Some(home) = home(stamp >> 32, stamp) else { return true };
        table::is_elsewhere(&home, word, Position::of_rank(rank as usize))
    } else true;
}

/// Whether everything of a source is to be dropped.
#[inline(always)]
pub fn contains(source: &Address) -> bool {
    // SAFETY: the map has such values, and is this program's own.
    let Some(lengths) =
        (unsafe { look_up::<Lengths>(ptr::from_ref(&BAN_LENGTHS).cast(), &FIRST).map(|lengths| &*lengths) })
    else {
        return false;
    };
    let [high, low] = source.bits;
    if source.family == 0 {
        return lengths[0] != 0 && is_banned(lengths[0], 0, high, low);
    }
    (lengths[1] != 0 && is_banned(lengths[1], 1, high, low))
        || (lengths[2] != 0 && is_banned(lengths[2], LONGER, high, low))
}

/// In the place of the family: IPv6, lengths beyond 64.
const LONGER: u64 = 2;

/// A walk over the lengths that have bans.
struct Search {
    bits: [u64; 2],
    /// The bits of the lengths to come.
    left: u64,
    /// As [`is_banned`] is told; [`FOUND`] at the end if there is a ban.
    kind: u64,
}

/// In the place of the kind: the source is banned.
const FOUND: u64 = 3;

verified_once! {
    fn is_banned(lengths: u64, kind: u64, high: u64, low: u64) -> bool {
        let mut search = Search { bits: [high, low], left: lengths, kind };
        // As a rule all bans have one length. Then there is no need of a loop, which takes as long as the search.
        if lengths & lengths.wrapping_sub(1) == 0 {
            search_turn(&mut search);
        } else {
            loops::repeat(u64::BITS, &mut search, search_turn);
        }
        search.kind == FOUND
    } else false;
}

#[inline(always)]
fn search_turn(search: &mut Search) -> bool {
    let bit = search.left & search.left.wrapping_neg();
    search.left ^= bit;
    let source = Address { bits: search.bits, family: (search.kind != 0).into() };
    let base = if search.kind == LONGER { 65 } else { 1 };
    let prefix = BanPrefix::of(&source, base + loops::index_of(bit));
    if bans::is_banned(&BANS_THAT_ARE, &prefix.key(&globals().secret), clock::now) {
        search.kind = FOUND;
        return false;
    }
    opaque(search.left) != 0
}

verified_once! {
    pub fn ban(context: &PacketContext, index: u64) -> () {
        let rule = globals::rule(index);
        let source = context.address();
        let bits = if source.family == 0 { rule.ban_bits[0] } else { rule.ban_bits[1] };
        let BanPrefix { address, length } = BanPrefix::of_banned(&source, bits);
        let [high, low] = address.bits;
        // No loop of the kernel's, which would take a place in the chain of calls.
        for _ in 0..TRIES {
            if make(high, low, length << 1 | address.family, context.now.0.0, index) {
                break;
            }
        }
    } else ();
}

#[inline(always)]
fn set_bits(word: *mut u64, bits: u64) {
    // SAFETY: changes an aligned word of the map.
    unsafe {
        asm!("lock *(u64 *)({word} + 0) |= {bits}", word = in(reg) word, bits = in(reg) bits, options(nostack))
    };
}

/// At most so many tries; one that fails leaves it to the next packet.
const TRIES: u32 = 8;

verified_once! {
    fn make(high: u64, low: u64, length_and_family: u64, now: u64, index: u64) -> bool {
        let rule = globals::rule(index);
        let now = Now(Nanos(now));
        let family = length_and_family & 1;
        let prefix = BanPrefix { address: Address { bits: [high, low], family }, length: length_and_family >> 1 };
        let key = prefix.key(&globals().secret);
        let (terms, maker) = (&rule.ban_terms, rule.ban_maker);
        let table = BanMap { high, first: BanRecord::first(terms, maker, now) };
        // Somebody may have banned it for longer while this packet was judged.
        let order = BanRequest { terms, maker, now, replaces: false };
        if !bans::make(&table, &key, &order, &table.first) {
            return false;
        }
        let (word, bit) = prefix.place();
        if let Some(lengths) = BAN_LENGTHS.get_ptr_mut(0) {
            let word = (opaque(word as u64) & 3).min(2);
            // SAFETY: one of three words of the map's own memory.
            set_bits(unsafe { lengths.cast::<u64>().add(word as usize) }, bit);
        }
        stats::count_ban(rule);
        true
    } else false;
}
