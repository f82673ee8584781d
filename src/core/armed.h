/*
 * armed.h: entries of a thread's cache that only malloc takes blocks from, so that what left them
 * says how many requests the fast path served.
 *
 * The blocks keep their bin, which is one of COHORT_FIRST; so their frees go to that bin's entry,
 * and an armed entry only ever runs dry. Then all its blocks change places with those of the bin's
 * entry, arrays and all, which costs the same for one block as for a thousand. Cores' caches have
 * no such entries. Design: docs/design/profiler.md
 */
#ifndef CALM_CORE_ARMED_H
#define CALM_CORE_ARMED_H

#include "core/cache_arrays.h"
#include "core/rows.h"

/* Larger requests are counted by their bytes instead: the fast path does not serve them anyway. */
enum { ARMED_MAX = SMALL_MAX };

/* The calling thread's cache, which may have armed entries; NULL: it works without. */
ALWAYS_INLINE struct cache *armed_cache(void)
{
    struct cache *cache = of_thread.cache;
    return cache != &cache_none && !load(&cores_are_used, RELAXED) ? cache : NULL;
}

/*
 * Serves a request of a class from the bin that an armed entry at `entry_offset`, which is empty,
 * is of; then arms the entry with no more blocks than the cache's `unarmed` of the class, and takes
 * their number off that. All of one class come for the same armed cohort, until armed_drop(). NULL:
 * no memory.
 */
void *armed_alloc(struct cache *cache, size_t entry_offset);

/* A distance of the class was drawn: if more blocks are wanted, so that it is armed less often, it
 * may have them now. */
ALWAYS_INLINE void armed_drawn_again(struct cache *cache, unsigned class)
{
    if ((cache->armed_more >> class & 1) != 0)
        cache->armed[class].worth = ARMED_NEVER;
}

/*
 * The same in two halves, by the entries' offsets. Where the bin's entry has as many blocks as are
 * worth it, and no more than `unarmed`, armed_counts_quick() takes their number off that, and
 * armed_change() must follow: the two entries change places, arrays and all, and the newest block
 * is taken. False: armed_alloc must be asked; nothing has changed then. An offset that is late may
 * be of an entry of the other armed cohort, which has no array: `used` is below zero then.
 */
ALWAYS_INLINE bool armed_counts_quick(struct cache *cache, size_t entry_offset, size_t own_offset)
{
    struct cache_entry *to = cache_entry_at(cache, entry_offset);
    struct cache_entry *from = cache_entry_at(cache, own_offset);
    struct armed_class *armed = &cache->armed[own_offset / ENTRY_BYTES % CLASS_LIMIT];
    uint32_t used = load(&from->top, RELAXED) + load(&to->top, RELAXED) - armed->starts;
    if (unlikely((int32_t)used <= armed->worth || used / SLOT_BYTES > armed->unarmed))
        return false;
    armed->unarmed -= used / SLOT_BYTES;
    return true;
}

void *armed_change(struct cache *cache, size_t entry_offset, size_t own_offset);

/* Serves a request by a miss where the bin has no block, and arms what else that brings; all are
 * taken off `unarmed`, of which there are many. NULL: armed_alloc must be asked. */
void *armed_refill(struct cache *cache, size_t entry_offset, size_t own_offset);

/* Gives back what armed entries of the cache have. Owner. */
void armed_drop(struct cache *cache);

/* Whether a bin names armed entries. */
ALWAYS_INLINE bool bin_is_armed(unsigned bin)
{
    return !rows_are_apart && bin_row(bin) % COHORT_LIMIT - COHORT_ARMED < ARMED_COHORTS;
}

/* The same of those of one turn. */
ALWAYS_INLINE bool bin_is_armed_in(unsigned bin, unsigned turn)
{
    return bin_row(bin) % COHORT_LIMIT == COHORT_ARMED + turn;
}

/* Whether armed entries may have a bin's blocks. */
ALWAYS_INLINE bool bin_is_armable(unsigned bin)
{
    return !rows_are_apart && bin_row(bin) % COHORT_LIMIT == COHORT_FIRST;
}

/* The armed entries of a bin that may have them, in their turn below ARMED_COHORTS. */
ALWAYS_INLINE unsigned bin_armed(unsigned bin, unsigned turn)
{
    return bin - ((COHORT_FIRST - COHORT_ARMED - turn) << CLASS_BITS);
}

/* The bin whose blocks armed entries have. */
ALWAYS_INLINE unsigned bin_behind(unsigned armed)
{
    unsigned home = bin_row(armed) & ~(COHORT_LIMIT - 1u);
    return (home + COHORT_FIRST) << CLASS_BITS | bin_class(armed);
}

/* The bin of the blocks that a cache's entries of `bin` have. */
ALWAYS_INLINE unsigned bin_held(unsigned bin)
{
    return unlikely(bin_is_armed(bin)) ? bin_behind(bin) : bin;
}

#endif
