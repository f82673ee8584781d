/*
 * armed.h: entries of a thread's cache that only malloc pops from. Blocks that left an armed entry
 * are requests that the fast path served, so malloc need not count them.
 *
 * Armed blocks keep their bin, which is in COHORT_FIRST. Frees go to that bin's entry, so an armed
 * entry only ever drains. Then it swaps contents with the bin's entry, arrays included, at a cost
 * that does not depend on the number of blocks. Per-CPU caches have no armed entries. Design:
 * docs/design/profiler.md
 */
#ifndef CALM_CORE_ARMED_H
#define CALM_CORE_ARMED_H

#include "core/cache_arrays.h"
#include "core/rows.h"

/* The sampler counts larger requests by bytes: the fast path does not serve them anyway. */
enum { ARMED_MAX = SMALL_MAX };

/*
 * Serves a request from the bin behind the empty armed entry at `entry_offset`, then arms the entry
 * with at most `unarmed` blocks of the class and subtracts their number from `unarmed`. All calls
 * for a class use one armed cohort until armed_drop(). NULL: no memory.
 */
void *armed_alloc(struct cache *cache, size_t entry_offset);

/* After a draw for the class: lets the next arming get more blocks, if the class wants more. */
ALWAYS_INLINE void armed_drawn_again(struct cache *cache, unsigned class)
{
    if ((cache->armed_more >> class & 1) != 0)
        cache->armed[class].worth = ARMED_NEVER;
}

/*
 * armed_alloc() in two steps, by the entries' offsets, for a bin that has enough blocks.
 * armed_counts_quick() subtracts the blocks of the bin's entry from `unarmed`; armed_swap() must
 * follow: it swaps the two entries, arrays included, and pops the newest block. False: nothing has
 * changed; call armed_alloc(). A stale offset can name the other armed cohort's entry. That entry
 * has no array, so `used` is negative.
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

void *armed_swap(struct cache *cache, size_t entry_offset, size_t own_offset);

/* Serves a request by a refill where the bin has too few blocks, arms the other blocks, and
 * subtracts all from `unarmed`. NULL: call armed_alloc(). */
void *armed_refill(struct cache *cache, size_t entry_offset, size_t own_offset);

/* Flushes the cache's armed entries. Owner. */
void armed_drop(struct cache *cache);

/* Whether a bin names armed entries. */
ALWAYS_INLINE bool bin_is_armed(unsigned bin)
{
    return !rows_are_separate && bin_row(bin) % COHORT_LIMIT - COHORT_ARMED < ARMED_COHORTS;
}

/* Whether a bin names armed entries of `turn`, which is below ARMED_COHORTS. */
ALWAYS_INLINE bool bin_is_armed_in(unsigned bin, unsigned turn)
{
    return bin_row(bin) % COHORT_LIMIT == COHORT_ARMED + turn;
}

/* Whether a bin's blocks may be armed. */
ALWAYS_INLINE bool bin_is_armable(unsigned bin)
{
    return !rows_are_separate && bin_row(bin) % COHORT_LIMIT == COHORT_FIRST;
}

/* The armed entry of an armable bin, for a turn below ARMED_COHORTS. */
ALWAYS_INLINE unsigned bin_armed(unsigned bin, unsigned turn)
{
    return bin - ((COHORT_FIRST - COHORT_ARMED - turn) << CLASS_BITS);
}

/* The bin whose blocks an armed entry holds. */
ALWAYS_INLINE unsigned bin_of_armed(unsigned armed)
{
    unsigned home = bin_row(armed) & ~(COHORT_LIMIT - 1u);
    return (home + COHORT_FIRST) << CLASS_BITS | bin_class(armed);
}

/* The bin whose blocks the entry of `bin` holds. */
ALWAYS_INLINE unsigned bin_held(unsigned bin)
{
    return unlikely(bin_is_armed(bin)) ? bin_of_armed(bin) : bin;
}

#endif
