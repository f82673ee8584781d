/*
 * extent.c: makes extents and moves their fronts; see extent.h.
 *
 * Owner: any thread, lock-free: `reserved` and `committed` only grow, by compare-and-swap. Several
 * threads may commit the same pages; the second commit has no effect. Only one thread can extend a
 * reservation at its end; the others look up how far it reaches: docs/protocols/front.md. Invariant
 * X1: committed + guard <= reserved. Design: docs/design/region.md
 */
#include "mem/extent.h"

#include "base/bits.h"
#include "os/os.h"

enum { NO_MEMORY = -12 }; /* -ENOMEM */

static _Atomic size_t committed_all; /* of all extents */

enum { TOGETHER_ALIGN = 64 * 1024, WAITS_FOR_OTHERS = 20 /* a millisecond apart */ };

static int reserve_most(const struct extent *extent, void **start)
{
    return os_reserve(extent->most + 2 * extent->guard, TOGETHER_ALIGN, start);
}

/* Halves the largest size. False: the half is below `least`. */
static bool halve_most(struct extent *extent, size_t least)
{
    if (extent->most / 2 < least)
        return false;
    extent->most = align_down(extent->most / 2, TOGETHER_ALIGN);
    return true;
}

/* Where the kernel chooses the place, there is no room behind the extent. So reserve the planned
 * room now or, if that fails, half of what is available: the program needs the rest. */
static int reserve_together(struct extent *extent, const struct extent_plan *plan, void **start)
{
    size_t least = size_max(plan->first, TOGETHER_ALIGN);
    extent->most = plan->room;
    int error = reserve_most(extent, start);
    while (error != 0 && halve_most(extent, least))
        error = reserve_most(extent, start);
    size_t had = extent->most;
    if (error == 0 && had < plan->room && halve_most(extent, least)) {
        os_counted(os_release(*start, had + 2 * extent->guard));
        error = reserve_most(extent, start);
    }
    store(&extent->reserved, extent->most + extent->guard, RELAXED);
    return error;
}

int extent_make(struct extent *extent, const struct extent_plan *plan)
{
    void *start = NULL;
    *extent = (struct extent){
        .guard = plan->guard, .most = plan->most, .reserved = plan->first + plan->guard};
    enum os_place place = plan->is_heap ? OS_LOW : OS_HIGH;
    int error = os_reserve_apart(plan->first + 2 * plan->guard, place, &start);
    if (error != 0)
        error = os_counted(reserve_together(extent, plan, &start));
    if (error != 0)
        return error;
    if (plan->name != NULL)
        os_name(start, plan->guard + load(&extent->reserved, RELAXED), plan->name);
    extent->start = (char *)start + plan->guard;
    error = extent_commit(extent, plan->first, 0);
    if (error != 0)
        extent_release(extent);
    return error;
}

int extent_make_fixed(struct extent *extent, size_t bytes, size_t guard, const char *name)
{
    struct extent_plan plan = {
        .guard = guard, .first = bytes, .most = bytes, .room = bytes, .name = name};
    return extent_make(extent, &plan);
}

void extent_release(struct extent *extent)
{
    size_t bytes = extent->guard + load(&extent->reserved, RELAXED);
    fetch_sub(&committed_all, load(&extent->committed, RELAXED), RELAXED);
    os_counted(os_release(extent->start - extent->guard, bytes));
}

size_t extent_committed_all(void)
{
    return load(&committed_all, RELAXED);
}

/* Release publishes the memory below the word; pairs with loads of the word. Returns by how much
 * this thread raised the word. */
static size_t raise(_Atomic size_t *word, size_t to)
{
    size_t seen = load(word, RELAXED);
    while (seen < to && !compare_swap(word, &seen, to, RELEASE, RELAXED))
        continue; /* each turn is another thread's progress */
    return to - size_min(seen, to);
}

/* Whether another thread that has extended the mapping publishes the new size soon; for a kernel
 * that cannot report the size. Bounded: that thread may be stopped. */
static bool is_extended_soon(const struct extent *extent, size_t reserved)
{
    static _Atomic uint32_t nobody_wakes;
    for (unsigned looks = 0; looks < WAITS_FOR_OTHERS; looks++) {
        if (load(&extent->reserved, ACQUIRE) != reserved)
            return true;
        os_wait(&nobody_wakes, 0, 1);
    }
    return false;
}

/* E1 to E3: reserves enough to commit `target` bytes with a guard behind them. */
static int reserve_to(struct extent *extent, size_t target)
{
    for (;;) { /* each turn is another thread's progress */
        size_t reserved = load(&extent->reserved, ACQUIRE), before = reserved - extent->guard;
        if (target <= before)
            return 0;
        size_t reach = extent->guard + target - before;
        int error = os_extend(extent->start + before, extent->guard, reach); /* E1 */
        if (error != 0 && load(&extent->reserved, ACQUIRE) != reserved)
            continue;
        if (error != 0) /* E2: another thread may have extended it, and then been stopped */
            reach = os_reach(extent->start + before, extent->guard,
                             extent->guard + extent->most - before);
        raise(&extent->reserved, before + reach); /* E3 */
        if (load(&extent->reserved, RELAXED) == reserved &&
            (error != OS_TAKEN || !is_extended_soon(extent, reserved)))
            return os_counted(error);
    }
}

/* Commits from the front that the caller saw. */
static int commit_to(struct extent *extent, size_t committed, size_t target)
{
    int error = reserve_to(extent, target);
    if (error == 0)
        error = os_counted(os_commit(extent->start + committed, target - committed)); /* F1 */
    if (error == 0)
        fetch_add(&committed_all, raise(&extent->committed, target), RELAXED); /* F2 */
    return error;
}

static int commit(struct extent *extent, size_t committed, size_t needed, size_t step)
{
    size_t target = size_min(needed + size_min(step, SIZE_MAX - needed), extent->most);
    int error = commit_to(extent, committed, target);
    if (error != 0 && target > needed) /* the step is optional; `needed` may still fit */
        error = commit_to(extent, committed, needed);
    return error;
}

int extent_commit(struct extent *extent, size_t needed, size_t step)
{
    size_t committed = load(&extent->committed, ACQUIRE);
    if (needed > committed && needed > extent->most)
        return NO_MEMORY;
    while (committed < needed) {
        size_t seen = committed;
        int error = commit(extent, seen, needed, step);
        committed = load(&extent->committed, ACQUIRE);
        /* If another thread moved the front, this failure has no meaning: that thread may have
         * changed the pages below the front since. */
        if (error != 0 && committed == seen)
            return error;
    }
    return 0;
}
