/*
 * misuse.c: classifies pointers exactly and reports the bad ones.
 *
 * Reached only when a fast path sees something odd, so it may take its time: it locks a depot,
 * follows batches and reads other threads' caches; but a program that is fed the mark comes here
 * with each free, so what it spends on blocks that are live is bounded. It never says "double free"
 * of a live block; docs/misuse.md says what it can miss.
 *
 * Owner: any thread; must not be called under a lock.
 */
#include "core/misuse.h"

#include "base/bits.h"
#include "base/check.h"
#include "base/text.h"
#include "calmalloc/pool.h"
#include "core/armed.h"
#include "core/depot.h"
#include "core/large.h"
#include "core/registry.h"
#include "core/rows.h"
#include "core/shelf.h"

enum { SLAB_WAS_HERE = 1 };

/* Steps of searches (core/search.h): what all that find nothing may take together, and what each
 * may take after that. docs/decisions/safety.md */
static _Atomic size_t steps_left = MISUSE_STEPS_MAX;
static _Atomic size_t steps_made;

struct misuse_policy misuse_policy = {.stops_on_misuse = true};

static _Atomic uint64_t misuses;
static _Atomic uint64_t foreigns;

uint64_t misuse_count(void)
{
    return load(&misuses, RELAXED);
}

uint64_t misuse_foreign_count(void)
{
    return load(&foreigns, RELAXED);
}

/* Whether the program goes on after a misuse. */
static bool is_only_counted(void)
{
    fetch_add(&misuses, 1, RELAXED);
    return !load(&misuse_policy.stops_on_misuse, RELAXED);
}

void misuse_report_double(const void *block, const char *verb, size_t bytes)
{
    if (is_only_counted())
        return;
    const char *what = verb[0] == 'f' ? "double free of" : verb;
    check_stop("%s %p: a block of %zu bytes that is already free", what, (void *)(uintptr_t)block,
               bytes);
}

void misuse_report_spoiled(const void *block, size_t bytes)
{
    if (!is_only_counted())
        check_stop("malloc found %p: a free block of %zu bytes that was written to, or freed twice",
                   (void *)(uintptr_t)block, bytes);
}

void misuse_report_pool(const void *block, const char *verb, int error)
{
    if (!is_only_counted())
        check_stop("%s %p, of a pool: %s", verb, (void *)(uintptr_t)block, calm_strerror(error));
}

void misuse_report_sized(const void *block, size_t bytes, size_t told)
{
    if (!is_only_counted())
        check_stop("sized free of %p: has %zu, told %zu", (void *)(uintptr_t)block, bytes, told);
}

void misuse_report_aligned(const void *block, size_t bytes, size_t told)
{
    if (!is_only_counted())
        check_stop("sized free of %p: a block of %zu bytes, told an alignment of %zu",
                   (void *)(uintptr_t)block, bytes, told);
}

static void report_inside(const void *block, const char *verb, size_t inside, size_t bytes)
{
    if (!is_only_counted())
        check_stop("%s %p: %zu bytes inside a block of %zu bytes, not at its start", verb,
                   (void *)(uintptr_t)block, inside, bytes);
}

static void report_nothing_there(const void *block, const char *verb)
{
    if (!is_only_counted())
        check_stop("%s %p: no block begins here; the memory is free", verb,
                   (void *)(uintptr_t)block);
}

static void report_foreign(const void *block, const char *verb)
{
    bool is_first = fetch_add(&foreigns, 1, RELAXED) == 0;
    void *address = (void *)(uintptr_t)block;
    if (load(&misuse_policy.stops_on_foreign, RELAXED))
        check_stop("%s %p: not from calmalloc", verb, address);
    if (!is_first)
        return;
    char buffer[128];
    struct text text = text_begin(buffer, sizeof buffer);
    text_format(&text, "calmalloc: foreign %s %p: not from calmalloc; ignored\n", verb, address);
    check_write(text.start, text.length);
}

/* A free unit remembers what it was last, as long as nothing else begins there. */
static void report_free_unit(const void *block, size_t unit, const char *verb)
{
    size_t was = region.tags[unit].bytes;
    size_t offset = (uintptr_t)block & (UNIT_BYTES - 1);
    size_t bytes = was & ~(size_t)SLAB_WAS_HERE;
    bool is_small = (was & SLAB_WAS_HERE) != 0;
    if (was != 0 && (is_small ? offset % bytes == 0 : offset == 0))
        misuse_report_double(block, verb, bytes);
    else
        report_nothing_there(block, verb);
}

static enum pointer_kind classify_small(const void *block, unsigned bin, const char *verb)
{
    unsigned class = bin_class(bin);
    uint16_t offset = (uint16_t)(uintptr_t)block;
    if (class_begins_block(class, offset))
        return POINTER_SMALL;
    if (class_block(class, offset) < class_facts[class].capacity)
        report_inside(block, verb, offset % class_facts[class].bytes, class_facts[class].bytes);
    else
        report_nothing_there(block, verb);
    return POINTER_BAD;
}

enum pointer_kind misuse_classify(const void *block, const char *verb)
{
    size_t unit = region_unit(block);
    if (!region_holds(unit) || unit == 0) {
        report_foreign(block, verb);
        return POINTER_FOREIGN;
    }
    unsigned kind = region_kind(unit);
    if (kind == UNIT_HEAD && ((uintptr_t)block & (UNIT_BYTES - 1)) == 0)
        return POINTER_LARGE;
    if (bin_class(kind) != 0)
        return classify_small(block, kind, verb);
    if (kind == UNIT_FREE) {
        report_free_unit(block, unit, verb);
    } else {
        size_t inside;
        size_t bytes = large_around(block, &inside);
        report_inside(block, verb, inside, bytes);
    }
    return POINTER_BAD;
}

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
