/*
 * sampled.c: takes sampled blocks from their depots and from the spans, and gives small ones back.
 *
 * No site's cohort has part in it: depots of COHORT_SAMPLED neither lend nor borrow slabs, so a
 * sampled block stays one until it is freed. All threads come under the same name, which keeps
 * whole batches away; only a depot that is held puts a block aside as one. A thread's cache keeps
 * the last one freed of each class up to SAMPLED_KEPT_MAX bytes, as the `first` of an entry that
 * has no array: so nothing else of the cache ever sees it but who looks for a block that is free,
 * or counts such blocks.
 *
 * Owner: an entry's `first` is its thread's; depots and spans have their own locks. Design:
 * docs/design/profiler.md
 */
#include "core/sampled.h"

#include "core/depot.h"
#include "core/large.h"
#include "core/misuse.h"

void (*sampled_on_free)(void *block);

/* The thread's cache; NULL: it works without one of its own. */
ALWAYS_INLINE struct cache *cache_own(void)
{
    struct cache *cache = of_thread.cache;
    return cache != &cache_none && !load(&cores_are_used, RELAXED) ? cache : NULL;
}

static NOINLINE void *small_from_depot(unsigned bin)
{
    void *blocks[REFILL_MAX];
    size_t count = depot_take(bin, blocks, 1, USER_WITHOUT_CACHE);
    if (count > 1) /* a batch, or a slab of which all blocks were handed out */
        depot_give(bin, blocks + 1, count - 1, USER_WITHOUT_CACHE);
    return count == 0 ? NULL : blocks[0];
}

static void *small(unsigned class)
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
    return small(class);
}

/* Straight from the spans. */
static void *large_placed(size_t bytes, size_t align, bool is_zeroed, unsigned owner)
{
    bool is_zero;
    void *block = large_acquire(large_units(bytes), size_max(align >> UNIT_SHIFT, 1), owner,
                                &is_zero);
    if (block == NULL)
        return NULL;
    return is_zeroed && !is_zero ? __builtin_memset(block, 0, bytes) : block;
}

/* As the heap has it, from caches and the shelf; then marked. */
static void *large(size_t bytes, size_t align, bool is_zeroed, uint32_t cohort_offset)
{
    void *block = bytes <= MEDIUM_MAX || align > UNIT_BYTES
                      ? large_placed(bytes, align, is_zeroed, offset_owner(cohort_offset))
                  : is_zeroed ? heap_alloc_zeroed(bytes, cohort_offset)
                              : heap_alloc_slow(bytes, cohort_offset);
    if (block != NULL)
        large_mark_sampled(block);
    return block;
}

void *sampled_alloc(size_t bytes, size_t align, bool is_zeroed, uint32_t cohort_offset)
{
    if (align > PTRDIFF_MAX || !heap_start())
        return NULL;
    unsigned class = class_aligned(bytes, align);
    if (class == 0 || rows_are_apart)
        return large(bytes, align, is_zeroed, cohort_offset);
    void *block = small(class);
    return block != NULL && is_zeroed ? __builtin_memset(block, 0, bytes) : block;
}

bool sampled_is(const void *block)
{
    unsigned kind = region_kind(region_unit(block));
    return kind == UNIT_HEAD ? large_is_sampled(block) : bin_is_sampled(kind);
}

void sampled_free(void *block, unsigned bin)
{
    sampled_on_free(block);
    struct cache *cache = cache_own();
    if (cache == NULL || bin_bytes(bin) > SAMPLED_KEPT_MAX ||
        load(&cache->entries[bin].first, RELAXED) != NULL) {
        depot_give(bin, &block, 1, USER_WITHOUT_CACHE);
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
            depot_give(bin, &block, 1, USER_WITHOUT_CACHE);
    }
}

void sampled_drop_own(void)
{
    struct cache *cache = cache_own();
    if (cache != NULL)
        sampled_drop(cache);
}
