/*
 * compact.c: says which small blocks lie in sparse slabs, and moves them to fuller ones of their
 * bin.
 *
 * A slab is sparse when it holds no more blocks than 9/8 of what the partly filled slabs of its bin
 * hold on average, and is not the one that a refill takes from. So when no slab of a bin is sparse
 * any more, at most eight are partly filled: eight that each hold more than 9/8 of the average hold
 * more than nine slabs do on average. A block goes straight from one slab to the other: a cache
 * would hand out the block that was freed last, which is of a sparse slab, too.
 *
 * Owner: any thread, under depot.lock (RANK_DEPOT), in constant time.
 * Design: docs/design/compact.md
 */
#include "core/compact.h"

#include "core/depot_parts.h"
#include "core/heap.h"
#include "core/mark.h"

enum { SPARE_SHARE = 8 };

/* The chunk of the slab that a refill would take from; 0: none but wholly free ones. */
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

/* The depot of a block that is to move, locked; or NULL. A held depot is not waited for. */
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
        return block; /* what was written to is not handed out, here as elsewhere */
    __builtin_memcpy(moved, block, bytes);
    block_mark(block);
    depot_put_or_aside(depot, &block, 1);
    return moved;
}
