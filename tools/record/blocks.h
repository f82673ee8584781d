/*
 * blocks.h: the live blocks of a recorded process, by address: a table with one probe sequence and
 * no marks of what was removed. Its memory follows the live blocks, not the events.
 */
#ifndef CALM_RECORD_BLOCKS_H
#define CALM_RECORD_BLOCKS_H

#include "encode.h"

/* Four share a cache line. */
struct block {
    uint64_t address; /* 0: none */
    struct block_name name;
};

struct blocks {
    struct block *table;
    size_t capacity, count;
    unsigned shift;
};

/* The block's entry, made when it is not there; NULL: no memory for one more. */
struct block *blocks_place(struct blocks *blocks, uint64_t address, bool *is_new);
struct block *blocks_find(struct blocks *blocks, uint64_t address); /* NULL: unknown */
void blocks_remove(struct blocks *blocks, struct block *block);
void blocks_free(struct blocks *blocks);

static inline size_t blocks_home(const struct blocks *blocks, uint64_t address)
{
    return (size_t)((address >> 3) * UINT64_C(0x9e3779b97f4a7c15) >> blocks->shift);
}

static inline void blocks_prefetch(const struct blocks *blocks, uint64_t address)
{
    if (blocks->capacity > 0)
        __builtin_prefetch(&blocks->table[blocks_home(blocks, address)], 1);
}

#endif
