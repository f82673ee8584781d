/*
 * cache_sizes.h: limits on a bin's blocks and on a cache's bytes, for cache.c.
 */
#ifndef CALM_CORE_CACHE_SIZES_H
#define CALM_CORE_CACHE_SIZES_H

#include "core/cache.h"
#include "core/depot.h"

enum {
    BLOCKS_PLAIN = 127, /* plain limit of any bin; more only from the surplus budget */
    BLOCKS_SHARED = 2 * BATCH_BLOCKS + 1, /* of a bin that passes batches, at first */
    SURPLUS_SHARE = 16,
    SLABS_SHARE = 6,              /* one cache may hold the slabs' bytes divided by this, */
    SHARE_BYTES_MIN = 512 * 1024, /* or at least this */
};

/* Blocks that frees alone let a bin hold where caches pass batches to each other: the class's limit
 * or BATCH_BYTES, whichever is more, up to two batches. */
static inline size_t blocks_ample(unsigned bin)
{
    size_t alone = class_facts[bin_class(bin)].cached;
    return size_min(size_max(alone, BATCH_BYTES / bin_bytes(bin)), BLOCKS_SHARED);
}

/* The most blocks that a bin may grow to from `blocks`. */
static inline size_t blocks_max(unsigned bin, size_t blocks)
{
    if (BLOCKS_FIXED != 0)
        return BLOCKS_FIXED;
    size_t alone = class_facts[bin_class(bin)].cached;
    if (!depot_is_shared(bin))
        return alone;
    if (blocks < blocks_ample(bin))
        return blocks_ample(bin);
    return size_max(alone, 2 * batch_blocks_of(bin_bytes(bin)) + 1);
}

/* Bytes that one of several caches may hold. */
static inline size_t share_of_heap(void)
{
    return size_max(depot_slab_bytes() / SLABS_SHARE, SHARE_BYTES_MIN);
}

/* Bytes that a cache may hold now. */
static inline size_t budget_now(void)
{
    bool is_room = load(&caches_budget.in_use, RELAXED) < load(&caches_budget.all, RELAXED);
    return load(is_room ? &caches_budget.each : &caches_budget.fair, RELAXED);
}

/* Bytes that a cache may hold now if `bin` is to grow. Blocks that several caches use are overhead
 * in each of them, so the limit is a share of the heap; blocks of one cache alone were freed
 * anyway. */
static inline size_t budget_for(unsigned bin)
{
    size_t budget = budget_now();
    if (BLOCKS_FIXED != 0 || !depot_is_shared(bin))
        return budget;
    return size_min(budget, share_of_heap());
}

/* Bytes that a cache may hold now if a bin is to grow past its plain limit. A share of the fair
 * budget, which idle threads count in. */
static inline size_t surplus_now(void)
{
    return size_min(budget_now(), load(&caches_budget.fair, RELAXED)) / SURPLUS_SHARE;
}

#endif
