/*
 * sampled.h: blocks whose free is told to whoever samples requests, at no cost to other frees.
 *
 * Small ones are of a cohort that caches have no arrays for: a free finds no room and takes the
 * slow path, where the bin says why. Large ones are marked in their span's tag, and in the map as
 * blocks that no cache would hold. Design: docs/design/profiler.md
 */
#ifndef CALM_CORE_SAMPLED_H
#define CALM_CORE_SAMPLED_H

#include "core/heap.h"

/* The lowest ones and the highest are nobody's. What a cache has of the first and of the last is
 * empty for ever. No slab is of the armed ones. */
enum {
    COHORT_DIVERTED = 0, /* of sites whose requests go to site/second.h; before the start, of all */
    COHORT_ARMED = 1,    /* of those whose requests are counted by core/armed.h                   */
    ARMED_COHORTS = 2,   /* taken in turn, so that what is left of one is not mistaken            */
    COHORT_FIRST = COHORT_ARMED + ARMED_COHORTS, /* for sites, COHORTS_MAX of them */
    COHORT_SAMPLED = COHORT_LIMIT - 1,           /* of sampled small blocks        */
    COHORTS_MAX = COHORT_SAMPLED - COHORT_FIRST,
    DIVERTED_OFFSET = COHORT_DIVERTED * COHORT_ENTRY_BYTES,
    OWN_OFFSET_FIRST = COHORT_FIRST * COHORT_ENTRY_BYTES, /* from here on, sites' own cohorts */
};

/* Called with a block that sampled_alloc gave, or heap_realloc with a sample wanted, before its
 * memory can be handed out again. Set before the first such block; stays. */
extern void (*sampled_on_free)(void *block);

/*
 * Allocates a block whose free is told: `bytes` <= PTRDIFF_MAX, aligned, zeroed if wanted. Where
 * cohorts are apart it is of the cohort at the offset, and a large one. NULL: no memory; an
 * ordinary block may still be had.
 */
void *sampled_alloc(size_t bytes, size_t align, bool is_zeroed, uint32_t cohort_offset);

/* Whether the free of a live block would be told. */
bool sampled_is(const void *block);

/* The slow half of the free of a small one. */
void sampled_free(void *block, unsigned bin);

/* Freed ones that a cache keeps for the next samples: one of each class, up to so many bytes. */
enum {
    SAMPLED_KEPT_MAX = 1024,        /* a block */
    SAMPLED_KEPT_BYTES = 12 * 1024, /* all of a cache's; no less than the classes' sum */
};

/* Gives back those that the cache keeps. Owner, or when nobody owns it. */
void sampled_drop(struct cache *cache);

/* As sampled_drop, of the calling thread's cache, if it has one. */
void sampled_drop_own(void);

/* Whether a bin's blocks are sampled ones. */
ALWAYS_INLINE bool bin_is_sampled(unsigned bin)
{
    return bin_row(bin) == COHORT_SAMPLED && bin_class(bin) != 0;
}

#endif
