/*
 * shelf.c: a few freed large blocks of each size, kept for reuse.
 *
 * Owner: any thread, under the lock of the shelf (RANK_DEPOT: a shelf is a depot of spans).
 * Invariant H1: shelved == sum over shelves of count * units, at most SHELVED_UNITS_MAX.
 * Design: docs/design/large.md
 */
#include "core/shelf.h"

#include "core/class.h"
#include "core/large.h"
#include "core/purge.h"
#include "os/lock.h"

enum {
    BLOCKS_A_SHELF = 28,
    SHELVED_UNITS_MAX = 512, /* 32 MiB on all shelves */
};

static struct shelf {
    _Alignas(2 * CACHE_LINE_BYTES) struct lock lock;
    uint32_t count;
    bool is_touched; /* since the purger looked last */
    bool is_kept;    /* of whoever forks: its own before */
    void *blocks[BLOCKS_A_SHELF];
} shelves[SPAN_UNITS_MAX];

static _Atomic size_t shelved; /* units */

static struct shelf *shelf_of(size_t units)
{
    return &shelves[units - 1];
}

void *shelf_pop(size_t units)
{
    struct shelf *shelf = shelf_of(units);
    void *block = NULL;
    lock_acquire(&shelf->lock, RANK_DEPOT);
    shelf->is_touched = true;
    if (shelf->count > 0)
        block = shelf->blocks[--shelf->count];
    lock_release(&shelf->lock, RANK_DEPOT);
    if (block != NULL)
        fetch_sub(&shelved, units, RELAXED);
    return block;
}

void *shelf_take(size_t units)
{
    void *block = shelf_pop(units);
    return block != NULL ? block : large_acquire(units, 1, 0, NULL);
}

/* Whether `units` more may lie on shelves; if so they are counted. */
static bool may_shelve(size_t units)
{
    if (fetch_add(&shelved, units, RELAXED) + units <= SHELVED_UNITS_MAX)
        return true;
    fetch_sub(&shelved, units, RELAXED);
    return false;
}

static bool shelve(struct shelf *shelf, size_t units, void *block)
{
    if (!may_shelve(units))
        return false;
    lock_acquire(&shelf->lock, RANK_DEPOT);
    bool is_room = shelf->count < BLOCKS_A_SHELF;
    shelf->is_touched = true;
    if (is_room)
        shelf->blocks[shelf->count++] = block;
    lock_release(&shelf->lock, RANK_DEPOT);
    if (is_room)
        purge_note(units << UNIT_SHIFT);
    else
        fetch_sub(&shelved, units, RELAXED);
    return is_room;
}

void shelf_give(size_t units, void *const *blocks, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!shelve(shelf_of(units), units, blocks[i]))
            large_release(blocks[i]);
}

bool shelf_holds(size_t units, const void *block)
{
    struct shelf *shelf = shelf_of(units);
    bool is_here = false;
    lock_acquire(&shelf->lock, RANK_DEPOT);
    for (uint32_t i = 0; i < shelf->count; i++)
        is_here = is_here || shelf->blocks[i] == block;
    lock_release(&shelf->lock, RANK_DEPOT);
    return is_here;
}

size_t shelf_drain(bool is_all)
{
    size_t drained = 0;
    for (size_t units = 1; units <= SPAN_UNITS_MAX; units++) {
        struct shelf *shelf = shelf_of(units);
        void *blocks[BLOCKS_A_SHELF];
        lock_acquire(&shelf->lock, RANK_DEPOT);
        uint32_t count = is_all || !shelf->is_touched ? shelf->count : 0;
        shelf->count -= count;
        shelf->is_touched = false;
        for (uint32_t i = 0; i < count; i++)
            blocks[i] = shelf->blocks[shelf->count + i];
        lock_release(&shelf->lock, RANK_DEPOT);
        fetch_sub(&shelved, count * units, RELAXED);
        for (uint32_t i = 0; i < count; i++)
            large_release(blocks[i]);
        drained += count;
    }
    return drained;
}

size_t shelf_bytes(void)
{
    return load(&shelved, RELAXED) << UNIT_SHIFT;
}

/* As depot_fork_lock(). */
void shelf_fork_lock(void)
{
    for (size_t i = 0; i < SPAN_UNITS_MAX; i++) {
        shelves[i].is_kept = lock_is_own(&shelves[i].lock);
        if (!shelves[i].is_kept)
            lock_acquire(&shelves[i].lock, RANK_DEPOT);
    }
}

void shelf_fork_unlock(void)
{
    for (size_t i = 0; i < SPAN_UNITS_MAX; i++)
        if (!shelves[i].is_kept)
            lock_release(&shelves[i].lock, RANK_DEPOT);
}

void shelf_fork_reset(void)
{
    for (size_t i = 0; i < SPAN_UNITS_MAX; i++)
        if (shelves[i].is_kept)
            lock_keep(&shelves[i].lock);
        else
            lock_reset(&shelves[i].lock);
}

const struct watch_fact shelf_facts[] = {
    FACT_AT("shelf.units", shelved),
    FACTS_END,
};
