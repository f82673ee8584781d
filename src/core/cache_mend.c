/*
 * cache_mend.c: repairs or resets the caches of the parent's threads in a fork's child.
 *
 * Owner: the thread that took the cache from its stack or list; for a per-CPU cache, the child's
 * only thread, during the fork. Design: docs/design/caches.md
 */
#include "core/cache_arrays.h"

void cache_mend(struct cache *cache)
{
    for (unsigned row = used_row(cache, 0); row < ROW_LIMIT; row = used_row(cache, row + 1)) {
        for (uint64_t bins = cache->rows[row].used_bins; bins != 0; bins &= bins - 1) {
            struct cache_entry *entry = &cache->entries[row * CLASS_LIMIT + bit_lowest(bins)];
            uint32_t top = load(&entry->top, RELAXED);
            bool is_between = top > array_of(entry->limit).start &&
                              load(cache_slot(cache, top), RELAXED) == load(&entry->first, RELAXED);
            store(&entry->top, is_between ? top - SLOT_BYTES : top, RELAXED);
        }
    }
}

void cache_abandon(struct cache *cache)
{
    for (unsigned bin = 0; bin < BIN_LIMIT; bin++) {
        struct cache_entry *entry = &cache->entries[bin];
        if (!bin_exists(bin) || entry->limit == 0) /* read first: a write would copy the page */
            continue;
        entry->limit = 0;
        store(&entry->top, 0, RELAXED);
        store(&entry->first, NULL, RELAXED);
    }
    for (unsigned row = 0; row < ROW_LIMIT; row++)
        if (cache->rows[row].used_bins != 0)
            cache->rows[row].used_bins = 0;
    __builtin_memset(cache->used_rows, 0, sizeof cache->used_rows);
    __builtin_memset(cache->free_arrays, 0, sizeof cache->free_arrays);
    cache->capacity_bytes = 0;
    cache->arena_used = offsetof(struct cache, arena);
    cache->armed_start = 0;
    store(&cache->edits, 0, RELAXED);
}
