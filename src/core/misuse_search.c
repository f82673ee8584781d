/*
 * misuse_search.c: looks for a block among those that are free.
 *
 * Reached only when a block begins with the mark, so it may take its time: it locks a depot,
 * follows batches and reads other threads' caches; but a program that is fed the mark comes here
 * with each free, so what it spends on blocks that are live is bounded. It never finds a live
 * block; docs/misuse.md says what it can miss.
 *
 * Owner: any thread; must not be called under a lock.
 */
#include "core/misuse_search.h"

#include "core/armed.h"
#include "core/depot.h"
#include "core/registry.h"
#include "core/rows.h"

/* Steps of searches (core/search.h): what all that find nothing may take together, and what each
 * may take after that. docs/decisions/safety.md */
static _Atomic size_t steps_left = MISUSE_STEPS_MAX;
static _Atomic size_t steps_made;

/* A cache may hold a block under any row of its class that has, or had, slabs, and in armed
 * entries. Entries of other rows may be in pages that nobody has touched. */
static bool is_in_cache(const struct cache *cache, unsigned bin, struct search *search)
{
    unsigned first, end = rows_of(bin, &first);
    bool is_here = false;
    end += first;
    for (unsigned row = depot_row_from(bin_class(bin), first);
         row < end && !is_here && search->left > 0; row = depot_row_from(bin_class(bin), row + 1)) {
        unsigned other = row << CLASS_BITS | bin_class(bin);
        is_here = cache_search(cache, other, search);
        for (unsigned turn = 0; turn < ARMED_COHORTS && !is_here && bin_is_armable(other); turn++)
            is_here = cache_search(cache, bin_armed(other, turn), search);
    }
    return is_here;
}

static bool is_cached(unsigned bin, struct search *search)
{
    for (const struct cache *cache = registry_newest(); cache != NULL && search_step(search);
         cache = cache->below)
        if (is_in_cache(cache, bin, search))
            return true;
    return false;
}

/* Where it most likely is comes first: the newest blocks of the thread's own cache. */
static bool is_found(unsigned bin, struct search *search)
{
    if (cache_search(of_thread.cache, bin, search))
        return true;
    if (search->left == 0)
        return false;
    if (depot_search(bin, search))
        return true;
    return is_cached(bin, search);
}

/* What a search that found nothing took beyond MISUSE_STEPS_A_SEARCH is gone for good. Threads that
 * search at once may each take what one may. */
static void pay(size_t steps)
{
    size_t left = load(&steps_left, RELAXED);
    while (steps > 0 && left > 0 &&
           !compare_swap(&steps_left, &left, left - size_min(left, steps), RELAXED, RELAXED))
        ;
}

bool misuse_is_free(const void *block, unsigned bin)
{
    size_t most = MISUSE_STEPS_A_SEARCH + load(&steps_left, RELAXED);
    struct search search = {block, most};
    bool is_free = is_found(bin, &search);
    size_t steps = most - search.left;
    fetch_add(&steps_made, steps, RELAXED);
    if (!is_free && steps > MISUSE_STEPS_A_SEARCH)
        pay(steps - MISUSE_STEPS_A_SEARCH);
    return is_free;
}

size_t misuse_steps(void)
{
    return load(&steps_made, RELAXED);
}
