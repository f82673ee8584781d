/*
 * cache_spoiled.c: handles a free block without a mark that malloc is about to hand out.
 *
 * Owner: the thread that took the block. Design: docs/decisions/safety.md
 */
#include "core/cache.h"
#include "core/misuse.h"

bool cache_unmark(void *block, unsigned bin)
{
    if (likely(block_unmark(block)) || block_is_excused(block))
        return true;
    misuse_report_spoiled(block, bin_bytes(bin));
    return false;
}

NOINLINE void *cache_replace(void *spoiled, size_t entry_offset)
{
    if (block_is_excused(spoiled))
        return spoiled;
    misuse_report_spoiled(spoiled, bin_bytes((unsigned)(entry_offset / ENTRY_BYTES)));
    void *block = cache_alloc_slow((uint32_t)entry_offset);
    return block != NULL ? block : spoiled;
}

NOINLINE void *cache_replace_first(size_t entry_offset)
{
    struct cache *cache = of_thread.cache;
    return cache_replace(cache_pop_from(cache, cache_entry_at(cache, entry_offset)), entry_offset);
}
