/*
 * compact.c: finds small blocks in sparse slabs, and moves them to fuller slabs of their bin.
 *
 * A slab is sparse when it holds at most 9/8 of the average of its bin's partly filled slabs, and
 * is not the slab that a refill takes from. When no slab of a bin is sparse, at most eight are
 * partly filled: of nine, eight would each hold more than 9/8 of the average, and so more than all
 * nine. A block goes straight to its new slab: a cache would return the block that was freed last,
 * which is from a sparse slab too.
 *
 * Owner: any thread, under depot.lock (RANK_DEPOT), in constant time.
 * Design: docs/design/compact.md
 */
#include "core/compact.h"

#include "core/depot_parts.h"
#include "core/heap.h"
#include "core/mark.h"

enum { SPARE_SHARE = 8 };

/* The chunk of the slab that a refill takes from; 0: no slab is partly filled. */
static size_t fullest(const struct depot *depot)
{
    unsigned list = 0;
    while (list < LIST_EMPTY && depot->lists[list] == 0)
        list++;
    return list < LIST_EMPTY ? depot->lists[list] : 0;
}

static bool is_sparse(const struct depot *depot, const struct slab *slab)
{
    size_t capacity = slab->capacity, used = capacity - slab->free_count;
    size_t listed = depot->listed[false] + depot->listed[true];
    size_t used_in_all = listed * capacity - load(&depot->free_blocks, RELAXED);
    return slab->free_count > 0 && slab->chunk != fullest(depot) &&
           used * depot->listed[false] <= used_in_all + used_in_all / SPARE_SHARE;
}

/* Locks the depot of a block in a sparse slab. NULL: the block need not move, or the depot is held.
 */
static struct depot *lock_if_sparse(const void *block)
{
    size_t chunk = region_chunk(block);
    unsigned bin = region_holds(chunk) ? region_bin(chunk) : 0;
    if (bin_is_sampled(bin) || !class_begins_block(bin_class(bin), (uint16_t)(uintptr_t)block))
        return NULL;
    struct depot *depot = depot_of(bin);
    if (depot == NULL || load(&depot->free_blocks, RELAXED) == 0 || !depot_try_lock(depot))
        return NULL;
    const struct slab *slab = depot_own_slab(depot, chunk);
    if (slab != NULL && is_sparse(depot, slab))
        return depot;
    lock_release(&depot->lock, RANK_DEPOT);
    return NULL;
}

bool compact_helps(const void *block)
{
    struct depot *depot = lock_if_sparse(block);
    if (depot != NULL)
        lock_release(&depot->lock, RANK_DEPOT);
    return depot != NULL;
}

void *compact_move(void *block)
{
    void *moved;
    size_t bytes = heap_usable(block);
    struct depot *depot = bytes == 0 ? NULL : lock_if_sparse(block);
    if (depot == NULL)
        return block;
    depot_take_listed(depot, &moved, 1);
    lock_release(&depot->lock, RANK_DEPOT);
    if (CHECKS >= 1 && !cache_unmark(moved, region_bin(region_chunk(moved))))
        return block; /* a spoiled block is not handed out */
    __builtin_memcpy(moved, block, bytes);
    block_mark(block);
    depot_put_or_defer(depot, &block, 1);
    return moved;
}
