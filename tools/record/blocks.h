/*
 * blocks.h: the live blocks of a recorded process, by address: a word for each 8 bytes of its heap,
 * in the heap's own order, so that what the program finds in its caches is found here as well. Most
 * words are never touched. The memory follows the heap and not the events.
 */
#ifndef CALM_RECORD_BLOCKS_H
#define CALM_RECORD_BLOCKS_H

#include "encode.h"

enum {
    WINDOW_SHIFT = 30, /* heap bytes in a table, which is as large */
    WINDOWS = 1 << (48 - WINDOW_SHIFT),
};

/* A block at its address; what is known of a large one has its number in the word behind. */
struct block {
    uint32_t slot_and_1; /* 0: no block */
    uint32_t order : 31;
    uint32_t is_large : 1;
};

struct blocks {
    struct block **windows;
};

bool blocks_open(struct blocks *blocks);
void blocks_close(struct blocks *blocks);
struct block *blocks_make_window(struct blocks *blocks, uint64_t address);

/* NULL: no block was ever in its surroundings. */
static inline struct block *blocks_look(const struct blocks *blocks, uint64_t address)
{
    struct block *window = blocks->windows[address >> WINDOW_SHIFT & (WINDOWS - 1)];
    return window == NULL ? NULL : &window[address % (UINT64_C(1) << WINDOW_SHIFT) / 8];
}

/* The block's word, which may say that there is none; NULL: no memory. */
static inline struct block *blocks_place(struct blocks *blocks, uint64_t address)
{
    struct block *block = blocks_look(blocks, address);
    return block != NULL ? block : blocks_make_window(blocks, address);
}

/* NULL: unknown. */
static inline struct block *blocks_find(const struct blocks *blocks, uint64_t address)
{
    struct block *block = blocks_look(blocks, address);
    return block == NULL || block->slot_and_1 == 0 ? NULL : block;
}

static inline struct block_name block_name(const struct block *block)
{
    return (struct block_name){block->slot_and_1 - 1, block->order};
}

static inline void block_rename(struct block *block, struct block_name name)
{
    block->slot_and_1 = name.slot + 1;
    block->order = name.order & ORDER_MASK;
}

#endif
