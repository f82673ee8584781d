/*
 * batch.h: bounded stacks of batches in front of the depots' bitmaps, to pass full caches between
 * threads whole.
 *
 * A batch is an array of block pointers of one bin. A push and a pop are one atomic step each and
 * do not touch the blocks. Used by bins that several caches share; see docs/protocols/batch.md.
 */
#ifndef CALM_CORE_BATCH_H
#define CALM_CORE_BATCH_H

#include "base/atomic.h"
#include "base/attr.h"
#include "base/facts.h"
#include "core/search.h"

enum {
    BATCH_BLOCKS = 127,       /* 1 KiB with the header */
    BATCHES_PER_STACK = 128,  /* in one stack */
    BATCHES_A_CPU = 128,      /* per CPU, in all stacks together */
    BATCHES_EMPTY = 8,        /* empty ones that one stack keeps */
    BATCHES_MAX = 32768,      /* in all, for any number of CPUs */
    BATCH_BYTES = 128 * 1024, /* one flush of large blocks */
    BATCH_BYTES_PER_STACK = 1024 * 1024,
};

/* The top batch's number, the count of batches, and a tag that changes with every step. */
struct batch_list {
    _Atomic uint64_t top;
};

/* A depot's stack for one shard: full batches, and empty ones for the next flushes. */
struct batch_stack {
    struct batch_list full;
    struct batch_list empty;
    uint32_t shard;            /* constant */
    _Atomic uint32_t tag_seen; /* tag of `full` at the last purge tick */
};

/* How many batches of blocks of a size a stack takes: limited by number, and by bytes. */
ALWAYS_INLINE uint32_t batches_for(size_t block_bytes)
{
    size_t batch_bytes = block_bytes * BATCH_BLOCKS;
    if (batch_bytes > BATCH_BYTES)
        batch_bytes = block_bytes > BATCH_BYTES ? block_bytes : BATCH_BYTES;
    size_t room = BATCH_BYTES_PER_STACK / batch_bytes;
    return (uint32_t)(room >= BATCHES_PER_STACK ? BATCHES_PER_STACK : room == 0 ? 1 : room);
}

/* Limits the batches in all: to those that hold `bytes_most`, but at least BATCHES_A_CPU_LEAST and
 * at most BATCHES_A_CPU for each CPU. Batches already made stay. */
void batch_set_limit(unsigned cpu_count, size_t bytes_most);

/* Blocks of a size in one batch: at most BATCH_BLOCKS and BATCH_BYTES, at least one. */
ALWAYS_INLINE size_t batch_blocks_of(size_t block_bytes)
{
    size_t blocks = BATCH_BYTES / block_bytes;
    return blocks >= BATCH_BLOCKS ? BATCH_BLOCKS : blocks == 0 ? 1 : blocks;
}

/* Bytes that all batches may hold. */
size_t batch_bytes_limit(void);

/* Pushes `count` <= BATCH_BLOCKS pointers as a batch. False: the stack has `batches_max` <=
 * BATCHES_PER_STACK batches, no empty batch was found, or other threads won every try. */
bool batch_push(struct batch_stack *stack, void *const *blocks, size_t count, uint32_t batches_max);

/* Pops the newest batch's pointers to `out` (room for BATCH_BLOCKS). Returns how many; 0: no batch,
 * or other threads won every try. */
size_t batch_pop(struct batch_stack *stack, void **out);

/* Releases the stack's empty batches for other stacks. */
void batch_drop_empty(struct batch_stack *stack);

/* Whether the block lies in a batch of the stack. Exact for a block that no other thread is
 * freeing, if the steps suffice. */
bool batch_search(const struct batch_stack *stack, struct search *search);

ALWAYS_INLINE bool batch_holds(const struct batch_stack *stack, const void *block)
{
    struct search search = search_unbounded(block);
    return batch_search(stack, &search);
}

/* Whether the stack did not change since the previous call. For the purger alone. */
bool batch_is_idle(struct batch_stack *stack);

/* Full batches on the stack. */
size_t batch_count(const struct batch_stack *stack);

/* Pointers in all batches of the stack; approximate while other threads work. */
size_t batch_blocks(const struct batch_stack *stack);

extern const struct watch_fact batch_facts[];

#endif
