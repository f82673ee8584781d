/*
 * cache_sizes.h: how many blocks a bin may hold in a cache, and how many bytes a cache; for
 * cache.c.
 */
#ifndef CALM_CORE_CACHE_SIZES_H
#define CALM_CORE_CACHE_SIZES_H

#include "core/cache.h"
#include "core/depot.h"

enum {
    BLOCKS_SHARED = 2 * BATCH_BLOCKS + 1, /* of a bin that hands over batches, until more pays */
    LUXURY_SHARE = 16,
    SLABS_SHARE = 6,           /* of what slabs have, that one cache may hold */
    MODEST_BYTES = 512 * 1024, /* that it may hold however little they have   */
};

/* What frees alone let a bin hold where caches hand batches to each other, which others take as
 * they are: two batches, or as many bytes as one may have. */
static inline size_t blocks_ample(unsigned bin)
{
    size_t alone = class_facts[bin_class(bin)].cached;
    return size_min(size_max(alone, BATCH_BYTES / bin_bytes(bin)), BLOCKS_SHARED);
}

/* What a bin of so many blocks may grow to. */
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

/* What one of several caches may hold. */
static inline size_t share_of_heap(void)
{
    return size_max(depot_slab_bytes() / SLABS_SHARE, MODEST_BYTES);
}

/* What a cache may hold at the moment. */
static inline size_t budget_now(void)
{
    bool is_room = load(&caches_budget.in_use, RELAXED) < load(&caches_budget.all, RELAXED);
    return load(is_room ? &caches_budget.each : &caches_budget.fair, RELAXED);
}

/* The same with a bin that it may let grow. What several caches use each of them holds beside what
 * the program needs, so they are in proportion to the heap; one alone has what was freed anyway. */
static inline size_t budget_for(unsigned bin)
{
    size_t budget = budget_now();
    if (BLOCKS_FIXED != 0 || !depot_is_shared(bin))
        return budget;
    return size_min(budget, share_of_heap());
}

/* The same with a bin that has more than plenty: a share of what is everybody's, however many of
 * them sleep. */
static inline size_t luxury_now(void)
{
    return size_min(budget_now(), load(&caches_budget.fair, RELAXED)) / LUXURY_SHARE;
}

#endif
