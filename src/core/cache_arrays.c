/*
 * cache_arrays.c: makes, resizes and drops the arrays of a cache.
 *
 * The arrays come from the cache's own memory, the arena, in pieces of a power of two slots. Other
 * threads may read an array while its owner changes it: the order of stores is that of
 * docs/protocols/cache.md.
 *
 * Owner: the thread that owns the cache. Design: docs/design/caches.md
 */
#include "core/cache_arrays.h"

#include "core/cache_sizes.h"
#include "core/thread.h"

_Static_assert(SLOTS_LOG2_MAX - SLOTS_LOG2_MIN <= LOG2_MASK,
               "an array's size fits an entry's low bits");

static uint64_t row_bit(unsigned bin)
{
    return (uint64_t)1 << bin_row(bin) % 64;
}

/* Unused arrays are linked through their first slot, by a 32-bit offset that no reader can mistake
 * for a block. */
static void arena_link(struct cache *cache, uint32_t at, unsigned log2)
{
    store(cache_slot(cache, at), (void *)(uintptr_t)cache->free_arrays[log2], RELAXED);
    cache->free_arrays[log2] = at;
}

/* Keeps the lower end of a piece of 2^have slots at `at`, and links the halves above it. */
static uint32_t arena_split(struct cache *cache, uint32_t at, unsigned have, unsigned log2)
{
    while (have > log2) {
        have--;
        arena_link(cache, at + ((uint32_t)SLOT_BYTES << have), have);
    }
    return at;
}

/* Finds room for an array; may split a larger unused one. Returns its offset; 0: no room. */
static uint32_t arena_take(struct cache *cache, unsigned log2)
{
    for (unsigned have = log2; have <= SLOTS_LOG2_MAX; have++) {
        uint32_t at = cache->free_arrays[have];
        if (at == 0)
            continue;
        cache->free_arrays[have] = (uint32_t)(uintptr_t)load(cache_slot(cache, at), RELAXED);
        return arena_split(cache, at, have, log2);
    }
    while (cache->arena_used < CACHE_BYTES) { /* pieces as large as their alignment allows */
        uint32_t at = cache->arena_used;
        unsigned have = (unsigned)size_min(bit_lowest(at / SLOT_BYTES), SLOTS_LOG2_MAX);
        cache->arena_used = at + ((uint32_t)SLOT_BYTES << have);
        if (have >= log2)
            return arena_split(cache, at, have, log2);
        arena_link(cache, at, have);
    }
    return 0;
}

/* Adds `more` bytes to the counts; a decrease wraps. */
static void count_capacity(struct cache *cache, size_t more)
{
    cache->capacity_bytes += more;
    fetch_add(&caches_budget.in_use, more, RELAXED);
    if (cache == of_thread.cache)
        thread_update_weight(cache);
}

bool cache_array_resize(struct cache *cache, unsigned bin, size_t blocks)
{
    struct cache_entry *entry = &cache->entries[bin];
    struct array old = array_of(entry->limit);
    size_t more = (blocks - old.blocks) * bin_bytes(bin); /* a decrease wraps */
    bool is_surplus = blocks > BLOCKS_PLAIN && (blocks > BLOCKS_SHARED || !depot_is_shared(bin));
    size_t budget = is_surplus ? surplus_now() : budget_for(bin);
    if (blocks > old.blocks && cache->capacity_bytes + more > budget)
        return false;
    unsigned log2 = (unsigned)size_max(bit_highest(blocks) + 1u, SLOTS_LOG2_MIN);
    edit_begin(cache); /* before a piece of the arena has no owner, or two */
    uint32_t at = log2 == old.log2 ? old.start : arena_take(cache, log2);
    if (at == 0) {
        edit_end(cache);
        return false;
    }
    uint32_t used = old.log2 == 0 ? 0 : load(&entry->top, RELAXED) - old.start;
    if (at != old.start) {
        store(cache_slot(cache, at), NULL, RELAXED);
        store(cache_slot(cache, at + SLOT_BYTES), NULL, RELAXED);
        for (uint32_t offset = SLOT_BYTES; offset <= used; offset += SLOT_BYTES)
            store(cache_slot(cache, at + offset),
                  load(cache_slot(cache, old.start + offset), RELAXED), RELAXED);
        store(&entry->top, at + used, RELEASE);
    }
    entry->limit = (at + (uint32_t)blocks * SLOT_BYTES) | (log2 - SLOTS_LOG2_MIN);
    if (old.log2 != 0 && at != old.start)
        arena_link(cache, old.start, old.log2);
    count_capacity(cache, more);
    cache->armed[bin_class(bin)].worth = ARMED_NEVER;
    row_of(cache, bin)->used_bins |= class_bit(bin);
    cache->used_rows[bin_row(bin) / 64] |= row_bit(bin);
    edit_end(cache);
    return true;
}

void cache_array_drop(struct cache *cache, unsigned bin)
{
    struct cache_entry *entry = &cache->entries[bin];
    struct array array = array_of(entry->limit);
    edit_begin(cache);
    entry->limit = 0;
    store(&entry->top, 0, RELEASE);
    arena_link(cache, array.start, array.log2);
    count_capacity(cache, -(array.blocks * bin_bytes(bin)));
    row_of(cache, bin)->used_bins &= ~class_bit(bin);
    if (row_of(cache, bin)->used_bins == 0)
        cache->used_rows[bin_row(bin) / 64] &= ~row_bit(bin);
    edit_end(cache);
}
