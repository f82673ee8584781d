/*
 * armed.c: fills armed entries with the blocks freed since the last fill.
 *
 * Where all blocks of a bin may be armed, the bin's entry and the armed entry swap contents, arrays
 * included; else the smaller of the two parts moves. Where too few blocks were freed, the blocks of
 * a refill go straight to the armed entry. A class with many requests gets more blocks, so that it
 * is armed less often.
 *
 * Owner: the thread the cache belongs to. Design: docs/design/profiler.md
 */
#include "core/armed.h"

#include "base/bits.h"
#include "core/depot.h"

enum {
    ARMED_BLOCKS = 120,          /* arm once the bin has more than this many blocks, */
    ARMED_BYTES = 2 * 1024,      /* or more than this many bytes of them, */
    ARMED_LEAST = 3,             /* and always more than this many blocks */
    ARMED_BLOCKS_MAX = 240,      /* a class that was drawn for gets up to this many blocks */
    ARMED_BYTES_MAX = 60 * 1024, /* and bytes, where its array has room */
};

void armed_drop(struct cache *cache)
{
    for (unsigned row = used_row(cache, 0); row < ROW_LIMIT; row = used_row(cache, row + 1))
        for (uint64_t bins = cache->rows[row].used_bins; bins != 0; bins &= bins - 1)
            if (bin_is_armed(row * CLASS_LIMIT + bit_lowest(bins)))
                cache_close_bin(cache, row * CLASS_LIMIT + bit_lowest(bins));
}

/* Keeps the clock hand from shrinking the bin and its armed entry: neither is idle. */
ALWAYS_INLINE void note_arming(struct cache *cache, unsigned armed, unsigned own)
{
    uint64_t bit = (uint64_t)1 << bin_class(own);
    struct cache_row *row = &cache->rows[bin_row(own)];
    cache->rows[bin_row(armed)].recent_bins |= bit;
    row->recent_bins |= bit;
    if (row->flushes[bin_class(own)] != 0)
        row->flushes[bin_class(own)] = 0;
}

/* Moves the newest blocks of an entry, in order, to an empty entry whose array has room. */
static void move_newest(struct cache *cache, struct cache_entry *empty, struct cache_entry *from,
                        size_t count)
{
    uint32_t top = load(&from->top, RELAXED), left = top - (uint32_t)count * SLOT_BYTES;
    void *_Atomic *slot = cache_slot(cache, left + SLOT_BYTES);
    uint32_t start = load(&empty->top, RELAXED);
    void *_Atomic *to = cache_slot(cache, start + SLOT_BYTES); /* slot 1, which stays NULL */
    edit_begin(cache);
    UNROLLED
    for (size_t i = 1; i < count; i++)
        store(&to[i], load(&slot[i], RELAXED), RELAXED);
    store(&empty->top, start + (uint32_t)count * SLOT_BYTES, RELEASE);
    store(&empty->first, load(&from->first, RELAXED), RELEASE);
    store(&from->first, load(slot, RELAXED), RELEASE);
    store(&from->top, left, RELEASE);
    edit_end(cache);
}

/* Swaps an empty entry with another entry of its class, arrays included. */
static void swap_entries(struct cache *cache, struct cache_entry *empty, struct cache_entry *full)
{
    uint32_t limit = empty->limit, top = load(&empty->top, RELAXED);
    edit_begin(cache);
    empty->limit = full->limit;
    store(&empty->top, load(&full->top, RELAXED), RELEASE);
    store(&empty->first, load(&full->first, RELAXED), RELEASE);
    full->limit = limit;
    store(&full->first, NULL, RELEASE);
    store(&full->top, top, RELEASE);
    edit_end(cache);
}

NOINLINE void *armed_swap(struct cache *cache, size_t entry_offset, size_t own_offset)
{
    struct cache_entry *to = cache_entry_at(cache, entry_offset);
    struct cache_entry *from = cache_entry_at(cache, own_offset);
    uint32_t limit = to->limit, start = load(&to->top, RELAXED);
    size_t top = load(&from->top, RELAXED);
    void *block = load(&from->first, RELAXED);
    uint32_t edits = edit_begin_once(cache);
    to->limit = from->limit;
    store(&to->top, (uint32_t)top - SLOT_BYTES, RELEASE);
    store(&to->first, load(cache_slot(cache, top), RELAXED), RELEASE);
    from->limit = limit;
    store(&from->first, NULL, RELEASE);
    store(&from->top, start, RELEASE);
    edit_end_once(cache, edits);
    if (unlikely(!block_unmark(block)))
        return cache_replace(block, entry_offset);
    return block;
}

static size_t count_of(struct cache_entry *entry)
{
    return entry->limit == 0 ? 0 : entry_count(entry);
}

/* Moves blocks of `own` to the empty entry `armed`, at most `most`. Returns how many. */
static size_t arm(struct cache *cache, unsigned armed, unsigned own, size_t most)
{
    struct cache_entry *to = &cache->entries[armed], *from = &cache->entries[own];
    size_t count = count_of(from);
    if (unlikely(to->limit == 0))
        cache_try_grow(cache, armed);
    if (count == 0 || to->limit == 0)
        return 0;
    size_t room = array_of(to->limit).blocks, rest = count - size_min(count, most);
    if (rest > size_min(room, count / 2)) {
        count = size_min(most, room);
        move_newest(cache, to, from, count);
        return count;
    }
    swap_entries(cache, to, from);
    if (rest > 0)
        move_newest(cache, from, to, rest);
    return count - rest;
}

/* Arm an entry only with more blocks than this. Grows the bin's array if that is too small; if it
 * cannot grow, half the array is enough. */
static size_t worth(struct cache *cache, unsigned own, size_t count)
{
    size_t wanted = size_max(size_min(ARMED_BYTES / bin_bytes(own), ARMED_BLOCKS), ARMED_LEAST);
    size_t room = array_of(cache->entries[own].limit).blocks;
    if (likely(count > wanted || count <= room / 2))
        return wanted;
    cache_try_grow(cache, own);
    return array_of(cache->entries[own].limit).blocks > room ? wanted : size_min(wanted, room / 2);
}

/* How many blocks a bin's entry lacks of a full array, which may grow first. REFILL_MAX: none, and
 * the class wants no more from now on. */
static size_t count_missing(struct cache *cache, unsigned own)
{
    size_t wanted = size_min(ARMED_BYTES_MAX / bin_bytes(own), ARMED_BLOCKS_MAX);
    struct cache_entry *entry = &cache->entries[own];
    size_t count = count_of(entry);
    if (count < wanted)
        cache_try_grow(cache, own);
    size_t room = size_min(array_of(entry->limit).blocks, wanted);
    if (count < room)
        return room - count;
    cache->armed_more &= ~((uint64_t)1 << bin_class(own));
    return REFILL_MAX;
}

/* Whether a refill may go straight to an armed entry: enough requests come before the next sample,
 * and the entry's array is no smaller than the bin's. */
static bool may_refill_armed(struct cache *cache, unsigned armed, unsigned own, uint64_t left)
{
    struct cache_entry *to = &cache->entries[armed], *from = &cache->entries[own];
    if (left < REFILL_MAX || from->limit == 0)
        return false;
    if (array_of(to->limit).blocks < array_of(from->limit).blocks)
        cache_try_grow(cache, armed);
    return array_of(to->limit).blocks >= array_of(from->limit).blocks;
}

/* Lets armed_counts_quick() serve the next requests while the bin's entry has more than `worth`
 * blocks. */
static void enable_quick(struct cache *cache, unsigned armed, unsigned own, size_t worth)
{
    struct cache_entry *to = &cache->entries[armed], *from = &cache->entries[own];
    struct armed_class *class = &cache->armed[bin_class(own)];
    if (to->limit == 0 || from->limit == 0)
        return;
    class->starts = array_of(to->limit).start + array_of(from->limit).start;
    class->worth = (int32_t)worth * SLOT_BYTES;
}

/* Whether a miss left the thread its cache, and the profiler the start it had. Functions called for
 * a purge (os/os.h, os_is_telling()) may begin another start; they may also arm an entry. */
static bool is_as_before(const struct cache *cache, uint32_t start)
{
    return cache_own() == cache && cache->armed_start == start;
}

/* Serves a request that the bin has too few blocks for, and arms the entry. */
static void *refill(struct cache *cache, unsigned armed, unsigned own, size_t most)
{
    uint32_t start = cache->armed_start;
    uint64_t *left = &cache->armed[bin_class(own)].unarmed;
    if (!may_refill_armed(cache, armed, own, *left)) {
        void *block = cache_alloc_slow(own * ENTRY_BYTES);
        if (*left > 0 && likely(is_as_before(cache, start)) &&
            count_of(&cache->entries[armed]) == 0)
            *left -= arm(cache, armed, own, *left);
        return block;
    }
    return cache_refill_armed(cache, own, armed, most);
}

void *armed_refill(struct cache *cache, size_t entry_offset, size_t own_offset)
{
    struct armed_class *class = &cache->armed[own_offset / ENTRY_BYTES % CLASS_LIMIT];
    struct cache_entry *to = cache_entry_at(cache, entry_offset);
    struct cache_entry *from = cache_entry_at(cache, own_offset);
    uint32_t used = load(&from->top, RELAXED) + load(&to->top, RELAXED) - class->starts;
    bool is_set = class->worth != ARMED_NEVER && to->limit != 0;
    if (unlikely(!is_set || (int32_t)used > class->worth || class->unarmed <= REFILL_MAX))
        return NULL;
    class->unarmed--;
    void *block = cache_refill_armed(cache, (unsigned)own_offset / ENTRY_BYTES,
                                     (unsigned)entry_offset / ENTRY_BYTES, REFILL_MAX);
    if (unlikely(block == NULL))
        class->unarmed++;
    return block;
}

void *armed_alloc(struct cache *cache, size_t entry_offset)
{
    unsigned armed = (unsigned)(entry_offset / ENTRY_BYTES), own = bin_of_armed(armed);
    struct armed_class *class = &cache->armed[bin_class(own)];
    uint64_t bit = (uint64_t)1 << bin_class(own), *left = &class->unarmed;
    size_t count = count_of(&cache->entries[own]), most = REFILL_MAX;
    bool is_new = class->worth == ARMED_NEVER;
    size_t wanted = worth(cache, own, count);
    bool is_short = count <= size_min(wanted, *left);
    uint32_t start = cache->armed_start;
    void *block;
    if (!is_short && is_new && (cache->armed_more & bit) != 0)
        most = count_missing(cache, own);
    if (is_short || most != REFILL_MAX) {
        block = refill(cache, armed, own, most);
    } else {
        block = cache_pop(own * ENTRY_BYTES);
        if (*left > 0)
            *left -= arm(cache, armed, own, *left);
    }
    if (likely(is_as_before(cache, start))) {
        note_arming(cache, armed, own);
        enable_quick(cache, armed, own, wanted);
    }
    return block;
}
