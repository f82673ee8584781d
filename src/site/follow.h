/*
 * follow.h: blocks whose free is to be seen, by address: the profiler's samples, and the blocks
 * that tell `learned` how long a site's blocks live.
 *
 * A table in memory that reads as zero at first, and that the caller provides once; an end never
 * needs memory. No lock, no waiting; docs/protocols/profile.md.
 */
#ifndef CALM_SITE_FOLLOW_H
#define CALM_SITE_FOLLOW_H

#include "base/atomic.h"
#include "site/stacks.h"

enum { FOLLOW_WAYS = 16 };

struct followed {
    uint32_t row;             /* of the caller's table    */
    uint32_t birth;           /* by the caller's clock    */
    struct estimate estimate; /* what a sample stands for */
};

struct follow_way {
    _Atomic uintptr_t block;  /* address, or free, or taken           */
    _Atomic uint64_t word;    /* row, and birth in the upper half     */
    struct estimate estimate; /* used by the thread that took the way */
};

struct follow_table {
    struct follow_way *_Atomic ways; /* FOLLOW_WAYS a set                      */
    uint32_t log2_first;             /* of the sets in use at first            */
    uint32_t log2_max;               /* of all sets                            */
    _Atomic uint32_t doublings;      /* of the sets in use, so far             */
    uint32_t clock_hand;             /* of follow_next(): one caller at a time */
};

/* Gives an empty table its memory: sizeof(struct follow_way) * FOLLOW_WAYS << log2_max bytes. Only
 * 1 << log2_first sets are used until more room is asked for: few blocks touch few pages. */
void follow_start(struct follow_table *table, void *memory, uint32_t log2_first, uint32_t log2_max);

/* Uses at least two ways for each of so many blocks, as far as the table has them, so that a set
 * is hardly ever full. Earlier blocks are still found. */
void follow_make_room(struct follow_table *table, size_t blocks);

/* Enters a block that the caller owns. False: its set is full. */
bool follow_begin(struct follow_table *table, const void *block, struct followed followed);

/* Removes a block. False: not there. Of two threads that try, one succeeds. */
bool follow_end(struct follow_table *table, const void *block, struct followed *out);

/* Reads the next way in use, round and round, without its estimate. False: it has no block. The way
 * may have another block by then: follow_end() decides. */
bool follow_next(struct follow_table *table, const void **block, struct followed *out);

#endif
