/*
 * cache_arrays.h: how a cache's entries and arrays hang together, for cache.c and armed.c.
 */
#ifndef CALM_CORE_CACHE_ARRAYS_H
#define CALM_CORE_CACHE_ARRAYS_H

#include "core/cache.h"

/* A forked child must not trust a cache whose owner was changing it. The fences keep the compiler
 * honest. */
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

/* The same in two parts, of which the second is told what the first found. */
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

enum { LOG2_MASK = 7 }; /* the bits of a limit that say how large the array is */

/* An entry's array, from its limit. */
struct array {
    uint32_t start;
    unsigned log2;   /* of slots; 0 when there is no array */
    uint32_t blocks; /* that may be held */
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

/* Blocks of an entry: `first` and all its slots but the lowest, which is NULL; or all its slots. */
ALWAYS_INLINE size_t entry_count(struct cache_entry *entry)
{
    return (load(&entry->top, RELAXED) - array_of(entry->limit).start) / SLOT_BYTES;
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

/* A miss is the sign that a bin wants more. A cache that is full refuses, and now and then shrinks
 * others for it. Owner. */
void cache_grow_after_miss(struct cache *cache, unsigned bin);

/* As a miss of a bin, of which all blocks but the one that is returned go to the entry of another
 * bin, `armed`, as far as it has room, and are taken off `unarmed`; `most` are wanted, and
 * `unarmed` is no less than REFILL_MAX. NULL: no memory. Owner. */
void *cache_refill_armed(struct cache *cache, unsigned bin, unsigned armed, size_t most);

/* Gives all blocks of a bin back, and its array. Owner. */
void cache_close_bin(struct cache *cache, unsigned bin);

#endif
