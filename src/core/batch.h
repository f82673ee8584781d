/*
 * batch.h: full caches handed over whole: bounded stacks of batches in front of the depots'
 * bitmaps.
 *
 * A batch is an array of block pointers of one bin. Giving one and taking one is one atomic step
 * each; the blocks themselves are not touched. Used by bins that more than one thread works on; see
 * docs/protocols/batch.md.
 */
#ifndef CALM_CORE_BATCH_H
#define CALM_CORE_BATCH_H

#include "base/atomic.h"
#include "base/attr.h"
#include "base/facts.h"
#include "core/search.h"

enum {
    BATCH_BLOCKS = 127,       /* with its header, 1 KiB                    */
    BATCHES_A_BIN = 128,      /* in a depot's stack                        */
    BATCHES_A_CPU = 128,      /* in all stacks together, for each CPU      */
    BATCHES_EMPTY = 8,        /* that a stack keeps                        */
    BATCHES_MAX = 32768,      /* in all, however many CPUs                 */
    BATCH_BYTES = 128 * 1024, /* what a cache flushes of large blocks      */
    BATCH_BYTES_A_BIN = 1024 * 1024,
    /* Where the depot is held by a thread that may not run: */
    BATCHES_URGENT = 250,
    BATCH_BYTES_URGENT = 8 * 1024 * 1024,
};

/* Batches on a stack: number of the top one, how many, and a tag that changes with every step. */
struct batch_list {
    _Atomic uint64_t top;
};

/* A depot's, for one shard: those that are full, and beside them empty ones for the next. */
struct batch_stack {
    struct batch_list full;
    struct batch_list empty;
    uint32_t shard;            /* constant                                 */
    _Atomic uint32_t tag_seen; /* of `full`, when the purger looked last   */
};

/* How many batches of such blocks a stack takes: by number, and by bytes as caches flush them. */
ALWAYS_INLINE uint32_t batches_for(size_t block_bytes, bool is_urgent)
{
    size_t batch_bytes = block_bytes * BATCH_BLOCKS;
    if (batch_bytes > BATCH_BYTES)
        batch_bytes = block_bytes > BATCH_BYTES ? block_bytes : BATCH_BYTES;
    size_t bytes = is_urgent ? BATCH_BYTES_URGENT : BATCH_BYTES_A_BIN;
    size_t most = is_urgent ? BATCHES_URGENT : BATCHES_A_BIN;
    size_t room = bytes / batch_bytes;
    return (uint32_t)(room >= most ? most : room == 0 ? 1 : room);
}

/* How many batches there may be, by the CPUs and by what they may hold together, some for each CPU
 * at least; no fewer than there are. */
void batch_set_limit(unsigned cpu_count, size_t bytes_most);

/* Blocks of a size that go into one batch. */
ALWAYS_INLINE size_t batch_blocks_of(size_t block_bytes)
{
    size_t blocks = BATCH_BYTES / block_bytes;
    return blocks >= BATCH_BLOCKS ? BATCH_BLOCKS : blocks == 0 ? 1 : blocks;
}

/* What all batches may hold at most. */
size_t batch_bytes_limit(void);

/* Moves `count` <= BATCH_BLOCKS pointers into a new batch. False: the stack has `batches_max` <=
 * BATCHES_URGENT, or no batch is to be had. */
bool batch_give(struct batch_stack *stack, void *const *blocks, size_t count, uint32_t batches_max);

/* Moves the newest batch's pointers to `out` (room for BATCH_BLOCKS). Returns how many; 0 when
 * there is none. */
size_t batch_take(struct batch_stack *stack, void **out);

/* Gives up the empty batches a stack keeps, for others to use. */
void batch_settle(struct batch_stack *stack);

/* Whether `block` lies in a batch of the stack. Exact for a block that no other thread is freeing.
 */
bool batch_search(const struct batch_stack *stack, struct search *search);

ALWAYS_INLINE bool batch_holds(const struct batch_stack *stack, const void *block)
{
    struct search search = search_unbounded(block);
    return batch_search(stack, &search);
}

/* Whether the stack did not move since this was asked last. The purger asks, and nobody else. */
bool batch_is_idle(struct batch_stack *stack);

/* How many batches the stack has. */
size_t batch_count(const struct batch_stack *stack);

/* Pointers in all batches of the stack, as far as it can be read while others work. */
size_t batch_blocks(const struct batch_stack *stack);

extern const struct watch_fact batch_facts[];

#endif
