/*
 * depot_mend.c: mends a depot whose lock was held by a thread that ended or is missing in a fork's
 * child.
 *
 * Bitmaps and chunk map are true at any instruction; lists and counts are rebuilt from them. The
 * blocks that the lock's holder had just taken, or was about to put, are lost: at most REFILL_MAX,
 * or a slab.
 *
 * Owner: whoever holds depot.lock. Design: docs/design/depots.md
 */
#include "core/depot_parts.h"

/*
 * The only loop over all chunks under a lock: once for each thread that ends, or is missing in a
 * fork's child, with a depot's lock. A slab that hand_out() adds meanwhile has no free block and is
 * in no list. hand_out() counts it after its map entry, so it may be counted twice but is never
 * missed, and the count stays above zero. Only statistics read the count.
 */
static void mend(struct depot *depot)
{
    uint32_t slabs_counted = load(&depot->slab_count, ACQUIRE), slabs = 0; /* before the map */
    size_t counted = load(&depot->free_blocks, RELAXED), free_blocks = 0;
    __builtin_memset(depot->lists, 0, sizeof depot->lists);
    __builtin_memset(depot->listed, 0, sizeof depot->listed);
    for (size_t chunk = 1; chunk < load(&region.chunks, RELAXED); chunk++) {
        struct slab *slab = depot_own_slab(depot, chunk);
        if (slab == NULL)
            continue;
        unsigned count = 0;
        for (unsigned word = 0; word < class_facts[bin_class(depot->bin)].map_words; word++)
            count += bit_count(load(&slab->free_map[word], RELAXED));
        slab->bin = depot->bin;
        slab->free_count = (uint16_t)count;
        slab->list = SLAB_UNLISTED;
        depot_relist(depot, slab);
        free_blocks += count;
        slabs++;
    }
    fetch_add(&depot->slab_count, slabs - slabs_counted, RELAXED);
    depot_count_free(depot, free_blocks, counted);
}

static void mend_if_inherited(struct depot *depot)
{
    if (unlikely(lock_was_inherited(&depot->lock)))
        mend(depot);
}

void depot_lock(struct depot *depot)
{
    lock_acquire(&depot->lock, RANK_DEPOT);
    mend_if_inherited(depot);
}

bool depot_try_lock(struct depot *depot)
{
    if (!lock_try_briefly(&depot->lock, RANK_DEPOT))
        return false;
    mend_if_inherited(depot);
    return true;
}

bool depot_try_lock_once(struct depot *depot)
{
    if (!lock_try(&depot->lock, RANK_DEPOT))
        return false;
    mend_if_inherited(depot);
    return true;
}

bool depot_lock_or_fail(struct depot *depot)
{
    if (!lock_acquire_or_fail(&depot->lock, RANK_DEPOT))
        return false;
    mend_if_inherited(depot);
    return true;
}
