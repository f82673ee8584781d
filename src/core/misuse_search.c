/*
 * misuse_search.c: searches for a block among the free ones.
 *
 * Reached only for a block that begins with the mark, so a search may lock a depot, follow batches
 * and read other threads' caches. A program that is fed the mark comes here with each free, so the
 * steps spent on live blocks are bounded. A search never finds a live block; docs/misuse.md says
 * what it can miss.
 *
 * Owner: any thread; must not be called under a lock.
 */
#include "core/misuse_search.h"

#include "core/armed.h"
#include "core/depot.h"
#include "core/registry.h"
#include "core/rows.h"

/* Steps (core/search.h): the shared budget that is left, and all that were made.
 * docs/decisions/safety.md */
static _Atomic size_t steps_left = MISUSE_STEPS_MAX;
static _Atomic size_t steps_made;

/* A cache may hold a block under any row of its class that has, or had, slabs, and in armed
 * entries. Other rows' entries are not read: their pages may be untouched. */
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

/* The likeliest place first: the newest blocks of the thread's own cache. */
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

/* Takes from the budget what a search that found nothing used beyond MISUSE_STEPS_A_SEARCH. Threads
 * that search at once may each use the whole rest. */
static void spend_steps(size_t steps)
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
        spend_steps(steps - MISUSE_STEPS_A_SEARCH);
    return is_free;
}

size_t misuse_steps(void)
{
    return load(&steps_made, RELAXED);
}
