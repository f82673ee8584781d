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

#include "core/sampled.h"

/* The calling thread's cache, which may have armed entries; NULL: it works without. */
ALWAYS_INLINE struct cache *armed_cache(void)
{
    struct cache *cache = cache_of_thread;
    return cache != &cache_none && !load(&cores_are_used, RELAXED) ? cache : NULL;
}

/*
 * Serves a request of a class from the bin that an armed entry at `entry_offset`, which is empty,
 * is of; then arms the entry with no more blocks than the cache's `unarmed` of the class, and takes
 * their number off that. NULL: no memory.
 */
void *armed_alloc(struct cache *cache, size_t entry_offset);

/*
 * The same, quickly, where the bin's entry has enough blocks, and no more than `unarmed`. NULL:
 * armed_alloc must be asked; nothing has changed then.
 */
void *armed_again(struct cache *cache, size_t entry_offset);

/*
 * The same without a look at the class, for some times after one that was quick: both entries'
 * offsets are given. NULL: armed_again must be asked; nothing has changed then.
 */
void *armed_quick(size_t entry_offset, size_t own_offset);

/* Gives back what armed entries of the cache have. Owner. */
void armed_drop(struct cache *cache);

/* Whether a bin names armed entries. */
ALWAYS_INLINE bool bin_is_armed(unsigned bin)
{
    return !rows_are_apart && bin_class(bin) != CLASS_SPAN &&
           bin_row(bin) % COHORT_LIMIT - COHORT_ARMED < ARMED_COHORTS;
}

/* Whether armed entries may have a bin's blocks. */
ALWAYS_INLINE bool bin_is_armable(unsigned bin)
{
    return !rows_are_apart && bin_class(bin) != CLASS_SPAN &&
           bin_row(bin) % COHORT_LIMIT == COHORT_FIRST;
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
