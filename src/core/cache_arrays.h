/*
 * cache_arrays.h: the layout of a cache's entries and arrays, for cache.c and armed.c.
 */
#ifndef CALM_CORE_CACHE_ARRAYS_H
#define CALM_CORE_CACHE_ARRAYS_H

#include "core/cache.h"

/* A fork's child must not trust a cache whose owner is changing it. The fences order the stores for
 * the compiler. */
ALWAYS_INLINE void edit_begin(struct cache *cache)
{
    store(&cache->edits, load(&cache->edits, RELAXED) + 1, RELAXED);
    atomic_signal_fence(memory_order_seq_cst);
}

ALWAYS_INLINE void edit_end(struct cache *cache)
{
    atomic_signal_fence(memory_order_seq_cst);
    store(&cache->edits, load(&cache->edits, RELAXED) - 1, RELAXED);
}

/* As edit_begin() and edit_end(), but with one load of `edits`: pass the result on to
 * edit_end_once(). */
ALWAYS_INLINE uint32_t edit_begin_once(struct cache *cache)
{
    uint32_t edits = load(&cache->edits, RELAXED);
    store(&cache->edits, edits + 1, RELAXED);
    atomic_signal_fence(memory_order_seq_cst);
    return edits;
}

ALWAYS_INLINE void edit_end_once(struct cache *cache, uint32_t edits)
{
    atomic_signal_fence(memory_order_seq_cst);
    store(&cache->edits, edits, RELAXED);
}

enum { LOG2_MASK = 7 }; /* the bits of a limit that hold the array's size */

/* An entry's array, decoded from its limit. */
struct array {
    uint32_t start;
    unsigned log2;   /* of slots; 0: no array */
    uint32_t blocks; /* capacity */
};

ALWAYS_INLINE struct array array_of(uint32_t limit)
{
    if (limit == 0)
        return (struct array){0, 0, 0};
    unsigned log2 = (limit & LOG2_MASK) + SLOTS_LOG2_MIN;
    uint32_t last = limit & ~(uint32_t)LOG2_MASK;
    uint32_t start = last & ~(((uint32_t)SLOT_BYTES << log2) - 1);
    return (struct array){start, log2, (last - start) / SLOT_BYTES};
}

/* Blocks in an entry: as many as slots in use above slot 0. In a thread's cache slot 1 is NULL, and
 * `first` holds a block instead. */
ALWAYS_INLINE size_t entry_count(struct cache_entry *entry)
{
    return (load(&entry->top, RELAXED) - array_of(entry->limit).start) / SLOT_BYTES;
}

ALWAYS_INLINE struct cache_row *row_of(struct cache *cache, unsigned bin)
{
    return &cache->rows[bin_row(bin)];
}

ALWAYS_INLINE uint64_t class_bit(unsigned bin)
{
    return (uint64_t)1 << bin_class(bin);
}

/* The first row from `row` on that has arrays, or ROW_LIMIT. */
ALWAYS_INLINE unsigned used_row(const struct cache *cache, unsigned row)
{
    for (; row < ROW_LIMIT; row = (row / 64 + 1) * 64) {
        uint64_t rows = cache->used_rows[row / 64] >> row % 64;
        if (rows != 0)
            return row + bit_lowest(rows);
    }
    return ROW_LIMIT;
}

/* Lets a bin that missed hold more. A full cache refuses, and shrinks other bins at every
 * REFUSALS_A_STEP-th refusal. Owner. */
void cache_try_grow(struct cache *cache, unsigned bin);

/* Serves a miss of `bin`: returns one block, puts the others on the entry of `armed` as far as it
 * has room, and subtracts the blocks put there from `unarmed`, which must be at least REFILL_MAX.
 * Asks for at most `most`; up to REFILL_MAX may come (depot_refill()). NULL: no memory. Owner. */
void *cache_refill_armed(struct cache *cache, unsigned bin, unsigned armed, size_t most);

/* Flushes all blocks of a bin to the depot and frees its array. Owner. */
void cache_close_bin(struct cache *cache, unsigned bin);

/* Lets a bin hold `blocks`, in an array of another size if need be; the blocks in it stay. False:
 * no room, or over budget. */
bool cache_array_resize(struct cache *cache, unsigned bin, size_t blocks);

/* Drops the array of a bin that has no block left. */
void cache_array_drop(struct cache *cache, unsigned bin);

#endif
