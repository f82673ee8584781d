/*
 * cache_read.c: reads a cache from other threads while its owner works on it.
 *
 * Owner: none; words are read as they are. C1 of cache.c makes the result usable. Design:
 * docs/protocols/cache.md
 */
#include "core/cache.h"

enum { WALKS_MAX = 8 };

/* Counts blocks down to the NULL below the oldest, or to the block searched for. Arrays may move
 * meanwhile, but their memory stays. */
static size_t walk(const struct cache *cache, unsigned bin, struct search *search, bool *is_found)
{
    struct cache *readable = (struct cache *)(uintptr_t)cache;
    const void *held = load(&readable->entries[bin].first, ACQUIRE);
    size_t top = load(&readable->entries[bin].top, ACQUIRE); /* C1 */
    size_t count = 0;
    if (cache->is_for_cores) {
        held = load(cache_slot(readable, top), RELAXED);
        top -= size_min(top, SLOT_BYTES);
    }
    while (held != NULL && held != search->block && search_step(search) &&
           count < (size_t)1 << SLOTS_LOG2_MAX && top >= offsetof(struct cache, arena)) {
        held = load(cache_slot(readable, top), RELAXED);
        top -= SLOT_BYTES;
        count++;
    }
    *is_found = held == search->block;
    return count;
}

bool cache_search(const struct cache *cache, unsigned bin, struct search *search)
{
    const struct cache_entry *entry = &cache->entries[bin];
    bool is_found = false;
    for (unsigned walks = 0; walks < WALKS_MAX && !is_found && search_step(search); walks++) {
        const void *first = load(&entry->first, ACQUIRE);
        uint32_t top = load(&entry->top, ACQUIRE);
        walk(cache, bin, search, &is_found);
        if (load(&entry->first, ACQUIRE) == first && load(&entry->top, ACQUIRE) == top)
            break; /* else the owner moved a block past the walk, perhaps this one, or the array */
    }
    return is_found;
}

/* A block kept without an array (core/sampled_small.h) has no slots below it to walk. */
size_t cache_count(const struct cache *cache, unsigned bin)
{
    const struct cache_entry *entry = &cache->entries[bin];
    struct search search = search_unbounded((const void *)UINTPTR_MAX);
    bool is_found = false;
    if (load(&entry->top, ACQUIRE) == 0)
        return load(&entry->first, RELAXED) != NULL;
    return walk(cache, bin, &search, &is_found);
}
