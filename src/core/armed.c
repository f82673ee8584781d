/*
 * armed.c: fills armed entries with the blocks that were freed since they were filled last.
 *
 * Where all of a bin's blocks may be armed, its entry and the armed one change places, arrays and
 * all; else the fewer of those that are and those that are not move. A class that is armed often
 * is given more blocks, so that it is armed less often.
 *
 * Owner: the thread the cache belongs to. Design: docs/design/armed.md
 */
#include "core/armed.h"

#include "base/bits.h"

enum {
    ARMED_BLOCKS = 120,     /* an entry is armed with no fewer, if so many requests are to pass */
    ARMED_BYTES = 8 * 1024, /* within these bytes */
    ARMED_BLOCKS_MAX = 240, /* a class that is often armed with fewer gets more, */
    ARMED_BYTES_MAX = 60 * 1024, /* within these bytes, */
    ARMED_TURNS = 16,            /* after so many times  */
};

void armed_drop(struct cache *cache)
{
    for (unsigned row = used_row(cache, 0); row < ROW_LIMIT; row = used_row(cache, row + 1))
        for (uint64_t bins = cache->rows[row].used_bins; bins != 0; bins &= bins - 1)
            if (bin_is_armed(row * CLASS_LIMIT + bit_lowest(bins)))
                cache_close_bin(cache, row * CLASS_LIMIT + bit_lowest(bins));
}

/* That a class's requests come and go: neither its bin nor its armed entry is idle. */
ALWAYS_INLINE void note_arming(struct cache *cache, unsigned armed, unsigned own)
{
    uint64_t bit = (uint64_t)1 << bin_class(own);
    struct cache_row *row = &cache->rows[bin_row(own)];
    cache->rows[bin_row(armed)].recent_bins |= bit;
    row->recent_bins |= bit;
    if (row->flushes[bin_class(own)] != 0)
        row->flushes[bin_class(own)] = 0;
}

/* Moves the newest blocks of an entry, in their order, to an empty one whose array has room. */
static void move_newest(struct cache *cache, struct cache_entry *empty, struct cache_entry *from,
                        size_t count)
{
    uint32_t top = load(&from->top, RELAXED), left = top - (uint32_t)count * SLOT_BYTES;
    void *_Atomic *slot = cache_slot(cache, left + SLOT_BYTES);
    uint32_t start = load(&empty->top, RELAXED);
    void *_Atomic *to = cache_slot(cache, start + SLOT_BYTES); /* which is NULL */
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

/* Moves blocks of `own` to the empty entry `armed`: all, or `most` where there are more. How many.
 */
static size_t arm(struct cache *cache, unsigned armed, unsigned own, size_t most)
{
    struct cache_entry *to = &cache->entries[armed], *from = &cache->entries[own];
    size_t count = from->limit == 0 ? 0 : entry_count(from);
    if (unlikely(to->limit == 0))
        cache_grow_after_miss(cache, armed);
    if (count == 0 || to->limit == 0)
        return 0;
    note_arming(cache, armed, own);
    size_t room = array_of(to->limit).blocks, rest = count - size_min(count, most);
    if (rest > size_min(room, count / 2)) {
        count = size_min(most, room);
        move_newest(cache, to, from, count);
        return count;
    }
    armed_change_places(cache, to, from);
    if (rest > 0)
        move_newest(cache, from, to, rest);
    return count - rest;
}

/* An entry is armed with so many blocks, which is worth it: until the class is asked for more, the
 * next times need no look at it. */
ALWAYS_INLINE void allow_quick(struct cache *cache, unsigned class, size_t count, bool is_enough)
{
    uint8_t *turns = &cache->armed_turns[class];
    cache->armed_quick_count[class] = (uint8_t)size_min(count, UINT8_MAX);
    cache->armed_quick_turns[class] = (uint8_t)(ARMED_TURNS - (is_enough ? 0 : *turns + 1));
    *turns = is_enough ? *turns : ARMED_TURNS - 1;
}

void *armed_again(struct cache *cache, size_t entry_offset)
{
    unsigned armed = (unsigned)(entry_offset / ENTRY_BYTES), own = bin_behind(armed);
    unsigned class = bin_class(armed);
    struct cache_entry *to = &cache->entries[armed], *from = &cache->entries[own];
    size_t count = entry_count(from), bytes = count * class_facts[class].bytes;
    bool is_worth = count > ARMED_BLOCKS || bytes > ARMED_BYTES;
    bool is_enough = count > ARMED_BLOCKS_MAX || bytes > ARMED_BYTES_MAX;
    if (!is_worth || to->limit == 0 || count > cache->unarmed[class])
        return NULL;
    if (!is_enough && ++cache->armed_turns[class] >= ARMED_TURNS)
        return NULL;
    cache->unarmed[class] -= count;
    note_arming(cache, armed, own);
    allow_quick(cache, class, count, is_enough);
    armed_change_places(cache, to, from);
    return cache_pop(entry_offset);
}

/* Whether an entry has enough blocks to be worth arming, if so many requests are to pass. Lets its
 * array grow for that; where there is no room, half an array must do. */
static bool is_worth_arming(struct cache *cache, unsigned bin, size_t most)
{
    struct cache_entry *entry = &cache->entries[bin];
    uint8_t *turns = &cache->armed_turns[bin_class(bin)];
    size_t wanted = size_min(ARMED_BYTES / bin_bytes(bin), ARMED_BLOCKS);
    size_t count = entry->limit == 0 ? 0 : entry_count(entry);
    if (*turns >= ARMED_TURNS) {
        *turns = 0;
        wanted = size_max(count, wanted);
    }
    wanted = size_min(wanted, most);
    if (likely(count > wanted))
        return true;
    cache_grow_after_miss(cache, bin);
    return count > size_min(wanted, array_of(entry->limit).blocks / 2);
}

void *armed_alloc(struct cache *cache, size_t entry_offset)
{
    unsigned armed = (unsigned)(entry_offset / ENTRY_BYTES), own = bin_behind(armed);
    uint64_t *left = &cache->unarmed[bin_class(armed)];
    bool is_dry = load(&cache->entries[own].first, RELAXED) == NULL; /* a miss, and grows by that */
    bool is_worth = !is_dry && is_worth_arming(cache, own, *left);
    void *block = is_worth ? cache_pop(own * ENTRY_BYTES) : cache_alloc_slow(own * ENTRY_BYTES);
    if (*left > 0 && likely(armed_cache() == cache)) /* a miss may take the cache from the thread */
        *left -= arm(cache, armed, own, *left);
    return block;
}
