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
#include "core/sampled.h"

/* Larger requests are counted by their bytes instead: a cache has few blocks of such classes, so an
 * entry would be armed all the time. */
enum { ARMED_MAX = 1024 };
_Static_assert((int)ARMED_MAX <= (int)SMALL_MAX,
               "what the fast path serves may be counted by an entry");

/* The calling thread's cache, which may have armed entries; NULL: it works without. */
ALWAYS_INLINE struct cache *armed_cache(void)
{
    struct cache *cache = of_thread.cache;
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

/* Gives an empty entry the blocks and the array of another one of its class, and that one its own
 * array. */
ALWAYS_INLINE void armed_change_places(struct cache *cache, struct cache_entry *empty,
                                       struct cache_entry *full)
{
    uint32_t limit = empty->limit, top = load(&empty->top, RELAXED);
    edit_begin(cache);
    empty->limit = full->limit;
    store(&empty->top, load(&full->top, RELAXED), RELEASE);
    store(&empty->first, load(&full->first, RELAXED), RELEASE);
    full->limit = limit;
    store(&full->first, NULL, RELEASE);
    store(&full->top, top, RELEASE);
    edit_end(cache);
}

/*
 * As armed_again without a look at the class, for some times after one that was quick: both
 * entries' offsets are given. NULL: armed_again must be asked; nothing has changed then. The turns
 * are the class's, of both armed cohorts: an offset that is late may be of an entry without array.
 */
ALWAYS_INLINE void *armed_quick(struct cache *cache, size_t entry_offset, size_t own_offset)
{
    struct cache_entry *to = cache_entry_at(cache, entry_offset);
    struct cache_entry *from = cache_entry_at(cache, own_offset);
    size_t class = entry_offset / ENTRY_BYTES % CLASS_LIMIT;
    uint8_t turns = cache->armed_quick_turns[class];
    if (unlikely(turns == 0 || to->limit == 0 || load(&from->first, RELAXED) == NULL))
        return NULL;
    size_t count = entry_count_known(from);
    uint64_t left = cache->unarmed[class];
    if (unlikely(count > left || count * 2 < cache->armed_quick_count[class]))
        return NULL;
    cache->armed_quick_turns[class] = (uint8_t)(turns - 1);
    cache->unarmed[class] = left - count;
    armed_change_places(cache, to, from);
    return cache_pop_known(cache, to, load(&to->first, RELAXED));
}

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
