/*
 * shelf.c: a few freed large blocks of each size, or of each owner, kept for reuse.
 *
 * Nobody waits for a shelf that is held: its blocks come from the spans, and go there, until it is
 * free.
 *
 * Owner: any thread, under the lock of the shelf (RANK_DEPOT: a shelf is a depot of spans).
 * Invariant H1: shelved == sum of the units of blocks on shelves, at most SHELVED_UNITS_MAX.
 * Design: docs/design/large.md
 */
#include "core/shelf.h"

#include "base/bits.h"
#include "core/class.h"
#include "core/large.h"
#include "core/purge.h"
#include "core/rows.h"
#include "mem/region.h"
#include "os/lock.h"

enum {
    BLOCKS_A_SHELF = 28,
    SHELVED_UNITS_MAX = 512, /* 32 MiB on all shelves */
    KEY_UNITS_BITS = 8,
    TRIES_FOR_OWNER = 8, /* the newest blocks of a shelf that are looked at */
    GROWTH_SHARE = 16,   /* of the region, on shelves when it would grow: `bench/rust`, json */
};

static struct shelf {
    _Alignas(2 * CACHE_LINE_BYTES) struct lock lock;
    _Atomic uint32_t count; /* changed under the lock; some peek */
    bool is_touched;        /* since the purger looked last */
    bool is_taken;          /* by whoever forks: not its own before */
    void *blocks[BLOCKS_A_SHELF];
    uint32_t keys[BLOCKS_A_SHELF]; /* of the blocks, where cohorts are apart: key_of() */
} shelves[SPAN_UNITS_MAX];

static _Atomic size_t shelved; /* units */

/* Where blocks of a length lie; where cohorts are apart, those of an owner, and of others like it.
 */
static struct shelf *shelf_of(size_t units, unsigned owner)
{
    return &shelves[rows_are_apart ? owner % SPAN_UNITS_MAX : units - 1];
}

/* Orders blocks by owner, then by length. */
static uint32_t key_of(unsigned owner, size_t units)
{
    return (uint32_t)(owner << KEY_UNITS_BITS | units);
}

/* Under the shelf's lock; others only peek. Release: a fork's child may find it so, in the hand of
 * a thread that it does not have, and then the blocks are there. */
static void set_count(struct shelf *shelf, size_t count)
{
    store(&shelf->count, (uint32_t)count, RELEASE);
}

/* The newest block of the owner's that has `units` or more, up to `longest`, as how many blocks
 * there are with it below it; 0: none of the last few. Under the lock. */
static size_t newest_of(const struct shelf *shelf, size_t units, size_t longest, unsigned owner)
{
    size_t count = load(&shelf->count, RELAXED);
    if (!rows_are_apart)
        return count;
    uint32_t least = key_of(owner, units), range = (uint32_t)(longest - units);
    size_t at = count, end = count - size_min(count, TRIES_FOR_OWNER);
    while (at > end && shelf->keys[at - 1] - least > range)
        at--;
    /* In a fork's child a key may be that of the block that was there before. */
    bool is_found = at > end && large_owner(shelf->blocks[at - 1]) == owner &&
                    large_length(shelf->blocks[at - 1]) - units <= range;
    return is_found ? at : 0;
}

static void *pop(size_t units, size_t longest, unsigned owner)
{
    struct shelf *shelf = shelf_of(units, owner);
    void *block = NULL;
    if (load(&shelf->count, RELAXED) == 0 || !lock_try_briefly(&shelf->lock, RANK_DEPOT))
        return NULL;
    size_t at = newest_of(shelf, units, longest, owner);
    shelf->is_touched = true;
    if (at > 0) { /* first the count: no block is ever there twice */
        size_t count = load(&shelf->count, RELAXED);
        void *newest = shelf->blocks[count - 1];
        block = shelf->blocks[at - 1];
        set_count(shelf, count - 1);
        shelf->blocks[at - 1] = newest;
        shelf->keys[at - 1] = shelf->keys[count - 1];
    }
    lock_release(&shelf->lock, RANK_DEPOT);
    if (block != NULL)
        fetch_sub(&shelved, rows_are_apart ? large_length(block) : units, RELAXED);
    return block;
}

void *shelf_find(size_t units, unsigned owner)
{
    size_t longest = span_units_given(units);
    void *block = rows_are_apart ? pop(units, longest, owner) : NULL;
    for (size_t given = units; block == NULL && !rows_are_apart && given <= longest; given++)
        block = pop(given, given, owner);
    if (block != NULL)
        large_note_asked(block, units);
    return block;
}

void *shelf_take(size_t units, unsigned owner)
{
    void *block = shelf_find(units, owner);
    return block != NULL ? block : large_acquire(units, 1, owner, NULL);
}

/* How many of `count` blocks may lie on shelves beside what does; these are counted. */
static size_t reserve(size_t units, size_t count)
{
    size_t before = fetch_add(&shelved, count * units, RELAXED);
    size_t room = (SHELVED_UNITS_MAX - size_min(before, SHELVED_UNITS_MAX)) / units;
    if (room >= count)
        return count;
    fetch_sub(&shelved, (count - room) * units, RELAXED);
    return room;
}

/* As shelf_give, of blocks of one shelf; where cohorts are apart, of one block. */
static void give(size_t units, void *const *blocks, size_t count)
{
    struct shelf *shelf = shelf_of(units, large_owner(blocks[0]));
    size_t reserved = reserve(units, count), put = 0;
    if (lock_try_briefly(&shelf->lock, RANK_DEPOT)) {
        size_t before = load(&shelf->count, RELAXED);
        put = size_min(reserved, BLOCKS_A_SHELF - before);
        shelf->is_touched = true;
        for (size_t i = 0; i < put; i++)
            shelf->blocks[before + i] = blocks[i];
        if (rows_are_apart && put > 0)
            shelf->keys[before] = key_of(large_owner(blocks[0]), units);
        set_count(shelf, before + put);
        lock_release(&shelf->lock, RANK_DEPOT);
    }
    if (put < reserved)
        fetch_sub(&shelved, (reserved - put) * units, RELAXED);
    if (put > 0)
        purge_note(put * units << UNIT_SHIFT);
    for (size_t i = put; i < count; i++)
        large_release(blocks[i]);
}

void shelf_give(size_t units, void *const *blocks, size_t count)
{
    size_t step = rows_are_apart ? 1 : count;
    for (size_t i = 0; i < count; i += step)
        give(units, blocks + i, step);
}

bool shelf_holds(size_t units, const void *block)
{
    struct shelf *shelf = shelf_of(units, large_owner(block));
    bool is_here = false;
    /* What looks like a second free may wait. */
    if (!lock_acquire_or_fail(&shelf->lock, RANK_DEPOT))
        return false;
    for (uint32_t i = 0; i < load(&shelf->count, RELAXED); i++)
        is_here = is_here || shelf->blocks[i] == block;
    lock_release(&shelf->lock, RANK_DEPOT);
    return is_here;
}

size_t shelf_drain(bool is_all)
{
    size_t drained = 0;
    for (size_t i = 0; i < SPAN_UNITS_MAX; i++) {
        struct shelf *shelf = &shelves[i];
        void *blocks[BLOCKS_A_SHELF];
        if (!lock_try_briefly(&shelf->lock, RANK_DEPOT))
            continue;
        size_t count = is_all || !shelf->is_touched ? load(&shelf->count, RELAXED) : 0;
        for (size_t at = 0; at < count; at++)
            blocks[at] = shelf->blocks[at];
        if (count > 0)
            set_count(shelf, 0);
        shelf->is_touched = false;
        lock_release(&shelf->lock, RANK_DEPOT);
        for (size_t at = 0; at < count; at++) {
            fetch_sub(&shelved, large_length(blocks[at]), RELAXED);
            large_release(blocks[at]);
        }
        drained += count;
    }
    return drained;
}

bool shelf_drain_for_growth(size_t units)
{
    size_t held = load(&shelved, RELAXED);
    return held >= units && held >= load(&region.units, RELAXED) / GROWTH_SHARE &&
           shelf_drain(true) > 0;
}

size_t shelf_bytes(void)
{
    return load(&shelved, RELAXED) << UNIT_SHIFT;
}

/* As depot_fork_lock() and so on. A shelf is whole after any store to it. */
void shelf_fork_lock(void)
{
    for (size_t i = 0; i < SPAN_UNITS_MAX; i++)
        shelves[i].is_taken = !lock_is_own(&shelves[i].lock) &&
                              lock_acquire_or_fail(&shelves[i].lock, RANK_DEPOT);
}

void shelf_fork_unlock(void)
{
    for (size_t i = 0; i < SPAN_UNITS_MAX; i++) {
        bool is_taken = shelves[i].is_taken;
        shelves[i].is_taken = false;
        if (is_taken)
            lock_release(&shelves[i].lock, RANK_DEPOT);
    }
}

void shelf_fork_reset(bool is_locked)
{
    for (size_t i = 0; i < SPAN_UNITS_MAX; i++) {
        lock_orphan(&shelves[i].lock, is_locked && shelves[i].is_taken);
        shelves[i].is_taken = false;
    }
}

const struct watch_fact shelf_facts[] = {
    FACT_AT("shelf.units", shelved),
    FACTS_END,
};
