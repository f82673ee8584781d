/*
 * follow.h: the blocks that `learned` follows, by their addresses, with when and whose they were.
 *
 * A table of fixed size, in memory that reads as zero at first. No lock, no waiting;
 * docs/protocols/learned.md.
 */
#ifndef CALM_SITE_FOLLOW_H
#define CALM_SITE_FOLLOW_H

#include "base/atomic.h"
#include "base/attr.h"

enum { FOLLOW_SETS = 1024, FOLLOW_WAYS = 8, FOLLOW_STEP = 128 };

struct followed {
    uint32_t birth;  /* by the caller's clock */
    uint16_t record; /* of its site           */
    uint16_t thread; /* that asked for it     */
};

struct follow_table {
    struct follow_way {
        _Atomic uintptr_t block;   /* its address, or free, or taken */
        _Atomic uint64_t followed; /* in one word */
    } ways[FOLLOW_SETS * FOLLOW_WAYS];
    uint32_t hand; /* of follow_next(): one caller at a time */
};

/* Enters a block that is the caller's. False: no room where it belongs. */
bool follow_begin(struct follow_table *table, const void *block, struct followed followed);

/* Takes a block out. False: it is not there. Of two threads that try, one has it. */
bool follow_end(struct follow_table *table, const void *block, struct followed *out);

/* Looks at the next way, round and round. False: no block is in it. What it says may be another
 * block's by then; follow_end() decides. */
bool follow_next(struct follow_table *table, const void **block, struct followed *out);

#endif
