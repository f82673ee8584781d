/*
 * sampled_small.c: allocates and frees small sampled blocks.
 *
 * Depots of COHORT_SAMPLED neither lend nor borrow slabs, so a block stays in the cohort until it
 * is freed. All threads use one name, USER_WITHOUT_CACHE, which prevents batches; only a locked
 * depot makes a batch of one block. A thread's cache keeps one freed block of each class up to
 * SAMPLED_KEPT_MAX bytes, as the `first` of an entry without an array: only searches and counts of
 * free blocks see it.
 *
 * Owner: an entry's `first` is its thread's. Design: docs/design/profiler.md
 */
#include "core/sampled_small.h"

#include "core/depot.h"
#include "core/misuse.h"

void (*sampled_on_free)(void *block);
void (*_Atomic sampled_on_fork)(uint32_t number);

static NOINLINE void *small_from_depot(unsigned bin)
{
    void *blocks[REFILL_MAX];
    size_t count = depot_refill(bin, blocks, 1, USER_WITHOUT_CACHE);
    if (count > 1) /* a batch, or a slab whose blocks were all handed out */
        depot_flush(bin, blocks + 1, count - 1, USER_WITHOUT_CACHE);
    return count == 0 ? NULL : blocks[0];
}

void *sampled_small(unsigned class)
{
    unsigned bin = COHORT_SAMPLED << CLASS_BITS | class;
    struct cache *cache = cache_own();
    void *block = likely(cache != NULL) ? load(&cache->entries[bin].first, RELAXED) : NULL;
    if (likely(block != NULL))
        store(&cache->entries[bin].first, NULL, RELAXED);
    else
        block = small_from_depot(bin);
    if (likely(block == NULL) || likely(block_unmark(block)) || block_is_excused(block))
        return block;
    misuse_report_spoiled(block, class_facts[class].bytes);
    return sampled_small(class);
}

void sampled_free(void *block, unsigned bin)
{
    sampled_on_free(block);
    struct cache *cache = cache_own();
    if (cache == NULL || bin_bytes(bin) > SAMPLED_KEPT_MAX ||
        load(&cache->entries[bin].first, RELAXED) != NULL) {
        depot_flush(bin, &block, 1, USER_WITHOUT_CACHE);
        return;
    }
    cache->has_sampled = true;
    store(&cache->entries[bin].first, block, RELEASE);
}

void sampled_drop(struct cache *cache)
{
    cache->has_sampled = false;
    for (unsigned class = 1; class < CLASS_COUNT; class ++) {
        unsigned bin = COHORT_SAMPLED << CLASS_BITS | class;
        void *block = exchange(&cache->entries[bin].first, NULL, RELAXED);
        if (block != NULL)
            depot_flush(bin, &block, 1, USER_WITHOUT_CACHE);
    }
}

void sampled_drop_own(void)
{
    struct cache *cache = cache_own();
    if (cache != NULL)
        sampled_drop(cache);
}
