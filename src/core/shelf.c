/*
 * shelf.c: a few freed large blocks of each length, or of each owner, kept for reuse.
 *
 * A shelf for each length up to SPAN_UNITS_MAX units, then EIGHTHS a doubling. The map says of a
 * block on a shelf that it is free. Nobody waits for a shelf that is held: its blocks come from the
 * spans, and go there, until it is free.
 *
 * Owner: any thread, under the lock of the shelf (RANK_DEPOT: a shelf is a depot of spans).
 * Invariant H1: shelved == sum of the units of blocks on shelves. Design: docs/design/large.md
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
    EIGHTHS = 8,
    SHELVES = SPAN_UNITS_MAX + 4 * EIGHTHS + 1, /* up to SHELF_UNITS_MAX */
    KEY_UNITS_BITS = 11,
    TRIES_FOR_OWNER = 8, /* the newest blocks of a shelf that are looked at */
    GROWTH_SHARE = 16,   /* of the region, on shelves when it would grow: `bench/rust`, json */
};
_Static_assert(SHELF_UNITS_MAX == SPAN_UNITS_MAX << 4, "the last shelf is of this length alone");
_Static_assert(SHELF_UNITS_MAX < 1 << KEY_UNITS_BITS, "a key has a length");

static struct shelf {
    _Alignas(2 * CACHE_LINE_BYTES) struct lock lock;
    _Atomic uint32_t count; /* changed under the lock; some peek */
    bool is_touched;        /* since the purger looked last */
    bool is_taken;          /* by whoever forks: not its own before */
    void *blocks[BLOCKS_A_SHELF];
    uint32_t keys[BLOCKS_A_SHELF]; /* of the blocks: key_of() */
} shelves[SHELVES];

static _Atomic size_t shelved; /* units */

static size_t shelf_of_length(size_t units)
{
    if (units <= SPAN_UNITS_MAX)
        return units - 1;
    unsigned top = bit_highest(units);
    return SPAN_UNITS_MAX + (top - bit_highest(SPAN_UNITS_MAX)) * EIGHTHS +
           (units >> (top - 3) & (EIGHTHS - 1));
}

/* Where blocks of a length lie; where cohorts are apart, those of an owner, and of others like it.
 */
static size_t shelf_of(size_t units, unsigned owner)
{
    return rows_are_apart ? owner % SPAN_UNITS_MAX : shelf_of_length(units);
}

/* Orders blocks by owner, then by length. */
static uint32_t key_of(unsigned owner, size_t units)
{
    return (uint32_t)(owner << KEY_UNITS_BITS | units);
}

/* The longest block that a request for `units` is given. Of the very long ones few are of one
 * length, and much would be lost. */
static size_t longest_given(size_t units)
{
    if (units <= SPAN_UNITS_MAX)
        return span_units_given(units);
    return size_min(units + units / EIGHTHS, SHELF_UNITS_MAX);
}

/* Under the shelf's lock; others only peek. Release: a fork's child may find it so, in the hand of
 * a thread that it does not have, and then the blocks are there. */
static void set_count(struct shelf *shelf, size_t count)
{
    store(&shelf->count, (uint32_t)count, RELEASE);
}

/* The newest block that is wished for and not longer than `longest`, as how many blocks there are
 * with it below it; 0: none of the last few. Under the lock. */
static size_t newest_of(const struct shelf *shelf, const struct shelf_wish *wish, size_t longest)
{
    size_t count = load(&shelf->count, RELAXED), units = wish->units;
    uint32_t least = key_of(wish->owner, units), range = (uint32_t)(longest - units);
    size_t at = count, end = count - size_min(count, TRIES_FOR_OWNER);
    while (at > end && (shelf->keys[at - 1] - least > range ||
                        ((uintptr_t)shelf->blocks[at - 1] & (wish->align - 1)) != 0))
        at--;
    /* In a fork's child a key may be that of the block that was there before. */
    bool is_found = at > end && large_owner(shelf->blocks[at - 1]) == wish->owner &&
                    large_length(shelf->blocks[at - 1]) - units <= range;
    return is_found ? at : 0;
}

static void *pop(struct shelf *shelf, const struct shelf_wish *wish, size_t longest)
{
    void *block = NULL;
    if (load(&shelf->count, RELAXED) == 0 || !lock_try_briefly(&shelf->lock, RANK_DEPOT))
        return NULL;
    size_t at = newest_of(shelf, wish, longest);
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
        fetch_sub(&shelved, large_length(block), RELAXED);
    return block;
}

void *shelf_find(struct shelf_wish wish)
{
    void *block = NULL;
    if (wish.units > SHELF_UNITS_MAX)
        return NULL;
    size_t longest = longest_given(wish.units), end = shelf_of(longest, wish.owner);
    for (size_t at = shelf_of(wish.units, wish.owner); block == NULL && at <= end; at++)
        block = pop(&shelves[at], &wish, longest);
    if (block != NULL)
        large_take_up(block, wish.units);
    return block;
}

void *shelf_take(struct shelf_wish wish)
{
    void *block = shelf_find(wish);
    return block != NULL ? block
                         : large_acquire(wish.units, wish.align >> UNIT_SHIFT, wish.owner, NULL);
}

void shelf_give(void *block)
{
    size_t units = large_length(block), count = BLOCKS_A_SHELF;
    unsigned owner = large_owner(block);
    struct shelf *shelf = &shelves[units <= SHELF_UNITS_MAX ? shelf_of(units, owner) : 0];
    if (units <= SHELF_UNITS_MAX && lock_try_briefly(&shelf->lock, RANK_DEPOT)) {
        count = load(&shelf->count, RELAXED);
        shelf->is_touched = true;
        if (count < BLOCKS_A_SHELF) {
            large_lay_aside(block);
            fetch_add(&shelved, units, RELAXED);
            shelf->blocks[count] = block;
            shelf->keys[count] = key_of(owner, units);
            set_count(shelf, count + 1);
        }
        lock_release(&shelf->lock, RANK_DEPOT);
    }
    if (count < BLOCKS_A_SHELF)
        purge_note(units << UNIT_SHIFT);
    else
        large_release(block);
}

size_t shelf_drain(bool is_all)
{
    size_t drained = 0;
    for (size_t i = 0; i < SHELVES; i++) {
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
    for (size_t i = 0; i < SHELVES; i++)
        shelves[i].is_taken = !lock_is_own(&shelves[i].lock) &&
                              lock_acquire_or_fail(&shelves[i].lock, RANK_DEPOT);
}

void shelf_fork_unlock(void)
{
    for (size_t i = 0; i < SHELVES; i++) {
        bool is_taken = shelves[i].is_taken;
        shelves[i].is_taken = false;
        if (is_taken)
            lock_release(&shelves[i].lock, RANK_DEPOT);
    }
}

void shelf_fork_reset(bool is_locked)
{
    for (size_t i = 0; i < SHELVES; i++) {
        lock_orphan(&shelves[i].lock, is_locked && shelves[i].is_taken);
        shelves[i].is_taken = false;
    }
}

const struct watch_fact shelf_facts[] = {
    FACT_AT("shelf.units", shelved),
    FACTS_END,
};
